// Scalar functions of the scan, float with vectorisable forms and double with the library's, and the score loops.
// No -ffast-math anywhere: NaN must stay NaN, and the loops below vectorise without it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

// tanh for float: the rational minimax form used by Eigen and XLA, good to about 3e-7.
inline float tanh_(float x) {
  x = x > 7.90531f ? 7.90531f : x;
  x = x < -7.90531f ? -7.90531f : x;
  const float y = x * x;
  float p = -2.76076847742355e-16f;
  p = p * y + 2.00018790482477e-13f;
  p = p * y + -8.60467152213735e-11f;
  p = p * y + 5.12229709037114e-08f;
  p = p * y + 1.48572235717979e-05f;
  p = p * y + 6.37261928875436e-04f;
  p = p * y + 4.89352455891786e-03f;
  float q = 1.19825839466702e-06f;
  q = q * y + 1.18534705686654e-04f;
  q = q * y + 2.26843463243900e-03f;
  q = q * y + 4.89352518554385e-03f;
  return x * p / q;
}
inline double tanh_(double x) { return std::tanh(x); }

inline float sigmoid_(float x) { return 0.5f * tanh_(0.5f * x) + 0.5f; }
inline double sigmoid_(double x) { return 1 / (1 + std::exp(-x)); }

// e^x for |x| ≤ 80: 2^n by the exponent bits, the rest by a polynomial of degree 6 (about 1 ulp).
inline float exp_(float x) {
  const float shift = 12582912.0f;  // 1.5 · 2^23: adding it rounds to an integer, kept in the low bits
  const float z = x * 1.44269504088896f + shift, n = z - shift;
  const float r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
  float p = 1.3888889e-3f;
  p = p * r + 8.3333333e-3f;
  p = p * r + 4.1666667e-2f;
  p = p * r + 1.6666667e-1f;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  int32_t bits;
  std::memcpy(&bits, &z, 4);
  bits = (bits - 0x4B400000 + 127) << 23;
  float scale;
  std::memcpy(&scale, &bits, 4);
  return p * scale;
}

// While |k| and |q| stay below this, e^{2k} and e^{2q} fit a float; their product may vanish or overflow, and is then as
// good as 0 or ∞.
constexpr float REACH = 40.0f;
constexpr float LARGE = 1e9f;  // 1/(1 + LARGE) is nothing beside 1, and the product of four such terms fits a float

// ekey = e^{2 key}; returns the largest |key|. Past REACH the exponentials are not used.
inline float prepare(const float* __restrict key, float* __restrict ekey, int64_t d) {
  float largest = 0;
#pragma omp simd reduction(max : largest)
  for (int64_t j = 0; j < d; ++j) {
    const float k = key[j], a = k < 0 ? -k : k;
    largest = a > largest ? a : largest;
    float x = k > REACH ? REACH : k;
    x = x < -REACH ? -REACH : x;
    ekey[j] = exp_(2 * x);
  }
  return largest;
}
inline double prepare(const double* key, double*, int64_t d) {
  double largest = 0;
  for (int64_t j = 0; j < d; ++j) largest = std::max(largest, std::abs(key[j]));
  return largest;
}

inline bool uses_exp(float reach) { return reach < REACH; }
inline bool uses_exp(double) { return false; }

inline float denominator(float ek, float eq) {
  const float a = 1 + ek * eq;
  return a > LARGE ? LARGE : a;  // NaN stays
}

// w3ᵀ tanh(key + q).
inline float score_(const float* __restrict key, const float* __restrict ekey, float reach, const float* __restrict q,
                    const float* __restrict eq, const float* __restrict w3, float weight_sum, int64_t d) {
  float sum = 0;
  if (!uses_exp(reach)) {
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < d; ++j) sum += w3[j] * tanh_(key[j] + q[j]);
    return sum;
  }
  // Four terms over a common denominator: a quarter of the divisions.
  const int64_t part = d / 4;
  const float *__restrict k0 = ekey, *__restrict k1 = ekey + part, *__restrict k2 = k1 + part, *__restrict k3 = k2 + part;
  const float *__restrict q0 = eq, *__restrict q1 = eq + part, *__restrict q2 = q1 + part, *__restrict q3 = q2 + part;
  const float *__restrict v0 = w3, *__restrict v1 = w3 + part, *__restrict v2 = v1 + part, *__restrict v3 = v2 + part;
#pragma omp simd reduction(+ : sum)
  for (int64_t j = 0; j < part; ++j) {
    const float a = denominator(k0[j], q0[j]), b = denominator(k1[j], q1[j]);
    const float c = denominator(k2[j], q2[j]), e = denominator(k3[j], q3[j]);
    const float ab = a * b, ce = c * e;
    sum += ((v0[j] * b + v1[j] * a) * ce + (v2[j] * e + v3[j] * c) * ab) / (ab * ce);
  }
  for (int64_t j = 4 * part; j < d; ++j) sum += w3[j] / denominator(ekey[j], eq[j]);
  return weight_sum - 2 * sum;
}
inline double score_(const double* key, const double*, double, const double* q, const double*, const double* w3, double,
                     int64_t d) {
  double sum = 0;
  for (int64_t j = 0; j < d; ++j) sum += w3[j] * std::tanh(key[j] + q[j]);
  return sum;
}
