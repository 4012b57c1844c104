// Scalar functions of the scan, float with vectorisable forms and double with the library's, and the score loops.
// No -ffast-math anywhere: NaN must stay NaN, and the loops below vectorise without it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "scan_vector.h"

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
inline double exp_(double x) { return std::exp(x); }

// While |k| and |q| stay below this, e^{2k} and e^{2q} fit a float; their product may vanish or overflow, and is then as
// good as 0 or ∞.
constexpr float REACH = 40.0f;
constexpr float LARGE = 1e9f;  // 1/LARGE is nothing beside 1, and the product of four such terms fits a float

// ekey = e^{2 key}; returns 0, or ∞ where it can't be used: a |key| past REACH, or NaN.
inline float prepare(const float* __restrict key, float* __restrict ekey, int64_t d) {
  int32_t beyond = 0;
#pragma omp simd reduction(| : beyond)
  for (int64_t j = 0; j < d; ++j) {
    const float k = key[j], a = k < 0 ? -k : k;
    beyond |= !(a < REACH);
    float x = k > REACH ? REACH : k;
    x = x < -REACH ? -REACH : x;
    ekey[j] = exp_(2 * x);
  }
  return beyond ? std::numeric_limits<float>::infinity() : 0.0f;
}
inline double prepare(const double*, double*, int64_t) { return 0; }

inline bool uses_exp(float reach) { return reach == 0; }
inline bool uses_exp(double) { return false; }

// w3ᵀ tanh(key + q).
inline float score_(const float* __restrict key, const float* __restrict ekey, float reach, const float* __restrict q,
                    const float* __restrict eq, const float* __restrict w3, float weight_sum, int64_t d) {
  float sum = 0;
  if (!uses_exp(reach)) {
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < d; ++j) sum += w3[j] * tanh_(key[j] + q[j]);
    return sum;
  }
  constexpr int64_t W = LANES<float>;
  Vector<float> sums{};
  int64_t j = 0;
  for (; j + 4 * W <= d; j += 4 * W) {  // four terms over a common denominator: a quarter of the divisions
    Vector<float> below[4], weight[4];
    UNROLL for (int p = 0; p < 4; ++p) {
      below[p] = at_most(1 + load(ekey + j + p * W) * load(eq + j + p * W), LARGE);
      weight[p] = load(w3 + j + p * W);
    }
    const Vector<float> left = below[0] * below[1], right = below[2] * below[3];
    sums += ((weight[0] * below[1] + weight[1] * below[0]) * right + (weight[2] * below[3] + weight[3] * below[2]) * left) *
            reciprocal(left * right);
  }
  sum = total(sums);
  for (; j < d; ++j) sum += w3[j] / (1 + ekey[j] * eq[j]);
  return weight_sum - 2 * sum;
}
inline double score_(const double* key, const double*, double, const double* q, const double*, const double* w3, double,
                     int64_t d) {
  double sum = 0;
  for (int64_t j = 0; j < d; ++j) sum += w3[j] * std::tanh(key[j] + q[j]);
  return sum;
}
