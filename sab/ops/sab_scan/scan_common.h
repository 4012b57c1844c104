// What the recurrences share: buffers, threads over samples, the LSTM cell and its backward.
#pragma once

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/utils/pybind.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <mutex>
#include <vector>

#include "scan_gemm.h"
#include "scan_math.h"

namespace {

using at::Tensor;

#define BY_TYPE(tensor, call) \
  return tensor.scalar_type() == at::kDouble ? call<double> ARGS : call<float> ARGS

// A buffer that outlives the call only in a graph. Fresh memory costs more than the work done in it (the system clears
// every page), so large ones are kept, and serve again when nobody holds them. One not asked for in a while goes.
Tensor reusable(at::IntArrayRef sizes, const at::TensorOptions& like) {
  struct Kept {
    Tensor buffer;
    int64_t served;
  };
  static std::mutex mutex;
  static std::vector<Kept> pool;
  static int64_t asked = 0;
  constexpr int64_t PATIENCE = 64;
  int64_t count = 1;
  for (const int64_t size : sizes) count *= size;
  if (count * int64_t(like.dtype().itemsize()) < (int64_t(1) << 20)) return at::empty(sizes, like);
  const auto share = [&](const Tensor& buffer) {  // no view of it: that would follow the buffer's own history and mode
    Tensor tensor = at::empty({0}, like);
    tensor.unsafeGetTensorImpl()->set_storage_keep_dtype(buffer.storage());
    tensor.unsafeGetTensorImpl()->set_sizes_contiguous(sizes);
    return tensor;
  };
  const std::lock_guard<std::mutex> lock(mutex);
  ++asked;
  for (Kept& k : pool)
    if (k.buffer.numel() == count && k.buffer.dtype() == like.dtype() && k.buffer.storage().use_count() == 1) {
      k.served = asked;
      return share(k.buffer);
    }
  std::erase_if(pool, [&](const Kept& k) { return asked - k.served > PATIENCE; });
  pool.push_back({at::empty({count}, like), asked});
  return share(pool.back().buffer);
}

// Small layers: each thread takes its samples through all the steps. Large ones (weights beyond the caches): the
// products use all threads, and only the loops over samples are split.
int64_t chunk_size(int64_t batch) {
  const int64_t threads = at::get_num_threads();
  return std::max<int64_t>(1, (batch + threads - 1) / threads);
}

bool is_large(const Tensor& w) { return w.numel() * w.element_size() > (int64_t(2) << 20); }

template <class F>
void over_chunks(int64_t b0, int64_t b1, bool split, const F& body) {
  const int64_t batch = b1 - b0;
  if (!split) return body(b0, b1);
  const int64_t size = chunk_size(batch), chunks = (batch + size - 1) / size;
  at::parallel_for(0, chunks, 1, [&](int64_t first, int64_t last) {
    c10::InferenceMode guard;
    for (int64_t k = first; k < last; ++k) body(b0 + k * size, std::min(b1, b0 + (k + 1) * size));
  });
}

// One row of the LSTM: gates g (4n), pre-activation in, activation out (i, f, g, o); c_prev → c, hh.
template <class R>
void cell_forward(R* __restrict g, const R* __restrict c_prev, R* __restrict c, R* __restrict hh, int64_t n) {
  R *__restrict gi = g, *__restrict gf = g + n, *__restrict gg = g + 2 * n, *__restrict go = g + 3 * n;
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) {
    const R i = sigmoid_(gi[j]), f = sigmoid_(gf[j]), z = tanh_(gg[j]), o = sigmoid_(go[j]);
    const R next = f * c_prev[j] + i * z;
    gi[j] = i, gf[j] = f, gg[j] = z, go[j] = o;
    c[j] = next;
    hh[j] = o * tanh_(next);
  }
}

template <class R>
void activate(R* __restrict g, int64_t n) {
  R* __restrict gg = g + 2 * n;
#pragma omp simd
  for (int64_t j = 0; j < 2 * n; ++j) g[j] = sigmoid_(g[j]);
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) gg[j] = tanh_(gg[j]);
#pragma omp simd
  for (int64_t j = 3 * n; j < 4 * n; ++j) g[j] = sigmoid_(g[j]);
}

// Its backward, in place: g holds the activations and gets the gradient before activation; dc that of the step before.
template <class R>
void cell_backward(R* g, const R* __restrict c_prev, const R* __restrict c, const R* __restrict dhh, R* __restrict dc,
                   int64_t n) {
  R *gi = g, *gf = g + n, *gg = g + 2 * n, *go = g + 3 * n;
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) {
    const R i = gi[j], f = gf[j], z = gg[j], o = go[j], tc = tanh_(c[j]);
    const R dcell = dhh[j] * o * (1 - tc * tc) + dc[j];
    gi[j] = dcell * z * i * (1 - i);
    gf[j] = dcell * c_prev[j] * f * (1 - f);
    gg[j] = dcell * i * (1 - z * z);
    go[j] = dhh[j] * tc * o * (1 - o);
    dc[j] = dcell * f;
  }
}

template <class R>
void add_scaled(R* __restrict y, R a, const R* __restrict x, int64_t n) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) y[j] += a * x[j];
}

template <class R>
R inner(const R* __restrict x, const R* __restrict y, int64_t n) {
  R sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t j = 0; j < n; ++j) sum += x[j] * y[j];
  return sum;
}

}  // namespace
