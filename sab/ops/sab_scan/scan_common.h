// What the recurrences share: products on slices, threads over samples, the LSTM cell and its backward.
#pragma once

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/ops/addmm_cpu_dispatch.h>
#include <ATen/ops/mm_cpu_dispatch.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/utils/pybind.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <mutex>
#include <vector>

#include "scan_math.h"

namespace {

using at::Tensor;

#define BY_TYPE(tensor, call) \
  return tensor.scalar_type() == at::kDouble ? call<double> ARGS : call<float> ARGS

// Rows b0 … b1 of a (T, B, …) or (B, …) tensor at any step, without making a tensor a step.
struct Rows {
  Tensor view;
  int64_t base, step;
  Rows(const Tensor& t, int64_t b0, int64_t b1, int64_t cols, bool timed) {
    view = (timed ? t[0] : t).narrow(0, b0, b1 - b0).narrow(1, 0, cols);
    base = view.storage_offset();
    step = timed ? t.stride(0) : 0;
  }
  const Tensor& at(int64_t t) {
    view.unsafeGetTensorImpl()->set_storage_offset(base + t * step);
    return view;
  }
};

// A buffer that outlives the call only in a graph. Fresh memory costs more than the work done in it (the system clears
// every page), so the last few large ones are kept, and serve again when no graph holds them.
Tensor reusable(at::IntArrayRef sizes, const at::TensorOptions& like) {
  static std::mutex mutex;
  static std::vector<Tensor> kept;
  int64_t count = 1;
  for (const int64_t size : sizes) count *= size;
  const std::lock_guard<std::mutex> lock(mutex);
  for (const Tensor& t : kept)
    if (t.numel() == count && t.dtype() == like.dtype() && t.storage().use_count() == 1) return t.view(sizes);
  Tensor fresh = at::empty({count}, like);
  if (kept.size() == 4) kept.erase(kept.begin());
  kept.push_back(fresh);
  return fresh.view(sizes);
}

void multiply(const Tensor& a, const Tensor& w, const Tensor& out) {
  Tensor o = out;
  at::cpu::mm_out(o, a, w);
}

void multiply_add(const Tensor& a, const Tensor& w, const Tensor& out) {
  Tensor o = out;
  at::cpu::addmm_out(o, out, a, w);
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

// Its backward: dhh and dc → dg (4n) and the dc of the step before. add: only through hh, onto dg, dc left alone.
template <class R, bool add>
void cell_backward(const R* __restrict g, const R* __restrict c_prev, const R* __restrict c, const R* __restrict dhh,
                   R* __restrict dc, R* __restrict dg, int64_t n) {
  const R *__restrict gi = g, *__restrict gf = g + n, *__restrict gg = g + 2 * n, *__restrict go = g + 3 * n;
  R *__restrict di = dg, *__restrict df = dg + n, *__restrict dz = dg + 2 * n, *__restrict d_o = dg + 3 * n;
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) {
    const R i = gi[j], f = gf[j], z = gg[j], o = go[j], tc = tanh_(c[j]);
    const R dcell = dhh[j] * o * (1 - tc * tc) + (add ? R(0) : dc[j]);
    const R vi = dcell * z * i * (1 - i), vf = dcell * c_prev[j] * f * (1 - f), vz = dcell * i * (1 - z * z),
            vo = dhh[j] * tc * o * (1 - o);
    di[j] = (add ? di[j] : R(0)) + vi;
    df[j] = (add ? df[j] : R(0)) + vf;
    dz[j] = (add ? dz[j] : R(0)) + vz;
    d_o[j] = (add ? d_o[j] : R(0)) + vo;
    if (!add) dc[j] = dcell * f;
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
