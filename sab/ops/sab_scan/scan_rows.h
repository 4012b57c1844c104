// Loops over many rows of memory for one sample. Columns go in blocks that stay in registers while all rows pass.
#pragma once

#include "scan_math.h"

namespace {

// Calls `wide` with the first column of each block of four vectors that fits, then `narrow` with each column left.
template <class R, class Wide, class Narrow>
void over_columns(int64_t n, const Wide& wide, const Narrow& narrow) {
  constexpr int64_t W = 4 * LANES<R>;
  int64_t j = 0;
  for (; j + W <= n; j += W) wide(j);
  for (; j < n; ++j) narrow(j);
}

// out = Σ_i a[i] · rows[i], with rows of n numbers.
template <class R>
void weighted_sum(R* __restrict out, const R* __restrict a, const R* __restrict rows, int64_t count, int64_t n) {
  over_columns<R>(
      n,
      [&](int64_t j) {
        Vector<R> sum[4]{};
        for (int64_t i = 0; i < count; ++i)
          UNROLL for (int p = 0; p < 4; ++p) sum[p] += a[i] * load(rows + i * n + j + p * LANES<R>);
        for (int p = 0; p < 4; ++p) store(out + j + p * LANES<R>, sum[p]);
      },
      [&](int64_t j) {
        R sum = 0;
        for (int64_t i = 0; i < count; ++i) sum += a[i] * rows[i * n + j];
        out[j] = sum;
      });
}

// Gradient of the scores w3ᵀ tanh(key_i + q), where d[i] is that of score i. With r = 1 / (1 + e^{2(key + q)}) the tanh
// is 1 − 2r and its slope 4r(1 − r). The rows of dkey and dq miss the factor 4·w3, which is the same for every row: the
// caller multiplies once. Adds to all three results.
template <class R>
void scores_backward(const R* __restrict d, const R* __restrict keys, const R* __restrict ekeys, const R* __restrict reach,
                     R q_reach, const R* __restrict q, const R* __restrict eq, int64_t count, int64_t size,
                     R* __restrict dkeys, R* __restrict dq, R* __restrict dw3) {
  auto by_tanh = [&](int64_t i) {
    const R *__restrict key = keys + i * size;
    R* __restrict dkey = dkeys + i * size;
    for (int64_t j = 0; j < size; ++j) {
      const R u = tanh_(key[j] + q[j]), v = d[i] * (1 - u * u) / 4;
      dw3[j] += d[i] * u, dq[j] += v, dkey[j] += v;
    }
  };
  if constexpr (std::is_same_v<R, double>) {
    for (int64_t i = 0; i < count; ++i) by_tanh(i);
  } else {
    R whole = 0;
    std::vector<int64_t> fits;
    fits.reserve(count);
    for (int64_t i = 0; i < count; ++i) {
      if (d[i] == 0) continue;
      if (!uses_exp(std::max(reach[i], q_reach))) {
        by_tanh(i);
        continue;
      }
      fits.push_back(i);
      whole += d[i];
    }
    over_columns<R>(
        size,
        [&](int64_t j) {
          Vector<R> slope[4]{}, below[4]{}, e[4];
          UNROLL for (int p = 0; p < 4; ++p) e[p] = load(eq + j + p * LANES<R>);
          for (const int64_t i : fits) {
            UNROLL for (int p = 0; p < 4; ++p) {
              const int64_t at = i * size + j + p * LANES<R>;
              const Vector<R> r = reciprocal(at_most(1 + load(ekeys + at) * e[p], LARGE)), share = d[i] * r;
              const Vector<R> v = share - share * r;
              below[p] += share, slope[p] += v;
              store(dkeys + at, load(dkeys + at) + v);
            }
          }
          for (int p = 0; p < 4; ++p) {
            const int64_t at = j + p * LANES<R>;
            store(dq + at, load(dq + at) + slope[p]);
            store(dw3 + at, load(dw3 + at) + whole - 2 * below[p]);
          }
        },
        [&](int64_t j) {
          for (const int64_t i : fits) {
            const R r = 1 / (1 + ekeys[i * size + j] * eq[j]), v = d[i] * r * (1 - r);
            dw3[j] += d[i] * (1 - 2 * r), dq[j] += v, dkeys[i * size + j] += v;
          }
        });
  }
}

}  // namespace
