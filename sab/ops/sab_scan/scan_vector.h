// Vectors as wide as the processor's, by the compiler's own types; one number at a time where it has none.
#pragma once

#include <cstdint>
#include <cstring>
#if defined(__AVX512F__)
#include <immintrin.h>
#endif

namespace {

#if defined(__AVX512F__)
constexpr int VECTOR_BYTES = 64, TILE_ROWS = 8;
#elif defined(__AVX__)
constexpr int VECTOR_BYTES = 32, TILE_ROWS = 4;
#else
constexpr int VECTOR_BYTES = 16, TILE_ROWS = 4;
#endif

#if defined(__GNUC__)  // GCC and Clang
template <class R, int BYTES = VECTOR_BYTES>
struct VectorOf {
  typedef R type __attribute__((vector_size(BYTES)));
};
template <class R>
constexpr int LANES = VECTOR_BYTES / sizeof(R);
#define UNROLL _Pragma("GCC unroll 8")
#else
template <class R, int BYTES = 0>
struct VectorOf {
  typedef R type;
};
template <class R>
constexpr int LANES = 1;
#define UNROLL
#endif

template <class R>
using Vector = typename VectorOf<R>::type;

template <class R>
inline Vector<R> load(const R* from) {
  Vector<R> v;
  std::memcpy(&v, from, sizeof(v));
  return v;
}

template <class R>
inline void store(R* to, const Vector<R>& v) {
  std::memcpy(to, &v, sizeof(v));
}

inline Vector<float> at_most(const Vector<float>& x, float most) {  // x ≥ 0; not for NaN
#if defined(__GNUC__)
  using Bits = VectorOf<int32_t>::type;  // numbers that are not negative are ordered as their bits are
  const Bits bits = (Bits)x, limit = (Bits)(Vector<float>{} + most);
  return (Vector<float>)(bits < limit ? bits : limit);
#else
  return x < most ? x : most;
#endif
}

inline Vector<float> reciprocal(const Vector<float>& x) {
#if defined(__AVX512F__)
  const __m512 guess = _mm512_rcp14_ps(x);  // 14 bits; a Newton step makes 28 of them
  return guess * (2 - x * guess);
#else
  return 1 / x;
#endif
}

inline float total(const Vector<float>& x) {
#if defined(__GNUC__)
  using Quarter = VectorOf<float, 16>::type;
  Quarter part[VECTOR_BYTES / 16];
  std::memcpy(part, &x, sizeof(x));
  for (int size = VECTOR_BYTES / 32; size > 0; size /= 2)
    for (int j = 0; j < size; ++j) part[j] += part[j + size];
  return (part[0][0] + part[0][2]) + (part[0][1] + part[0][3]);
#else
  return x;
#endif
}

}  // namespace
