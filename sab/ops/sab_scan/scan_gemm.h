// The matrix products of a recurrence: a few rows a step, with a matrix that stays.
//
// A library repacks the matrix at each of thousands of calls. Here it is packed once, in panels two vectors wide that
// stay in the caches, and a tile of the result stays in registers. An element's terms are added in the order of the
// inner index, whatever the tile, so a row's result doesn't depend on the rows beside it.
#pragma once

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "scan_vector.h"

namespace {

template <class R>
constexpr int PANEL = 2 * LANES<R>;

// A matrix (depth, cols) with any strides, copied into panels of PANEL columns, the last one padded with zeros.
template <class R>
struct Packed {
  int64_t depth, cols, panels;
  at::Tensor data;

  explicit Packed(const at::Tensor& w) : depth(w.size(0)), cols(w.size(1)), panels((cols + PANEL<R> - 1) / PANEL<R>) {
    data = at::zeros({panels, depth, PANEL<R>}, w.options());
    R* to = data.data_ptr<R>();
    const R* from = w.data_ptr<R>();
    const int64_t down = w.stride(0), right = w.stride(1);
    for (int64_t p = 0; p < panels; ++p)
      for (int64_t k = 0; k < depth; ++k, to += PANEL<R>)
        for (int64_t j = 0; j < std::min<int64_t>(PANEL<R>, cols - p * PANEL<R>); ++j)
          to[j] = from[k * down + (p * PANEL<R> + j) * right];
  }
};

// M rows of `a` with one panel.
template <class R, int M>
inline void panel_tile(const R* a, int64_t a_row, const R* panel, int64_t depth, R* out, int64_t out_row, bool add) {
  Vector<R> left[M], right[M];
  UNROLL for (int m = 0; m < M; ++m) {
    left[m] = add ? load(out + m * out_row) : Vector<R>{};
    right[m] = add ? load(out + m * out_row + LANES<R>) : Vector<R>{};
  }
  for (int64_t k = 0; k < depth; ++k, panel += PANEL<R>) {
    const Vector<R> b0 = load(panel), b1 = load(panel + LANES<R>);
    UNROLL for (int m = 0; m < M; ++m) {
      const R x = a[m * a_row + k];
      left[m] += x * b0;
      right[m] += x * b1;
    }
  }
  UNROLL for (int m = 0; m < M; ++m) {
    store(out + m * out_row, left[m]);
    store(out + m * out_row + LANES<R>, right[m]);
  }
}

template <class R, int M>
inline void panel_rows(const R* a, int64_t a_row, const R* panel, int64_t depth, R* out, int64_t out_row, int64_t cols,
                       bool add) {
  if (cols >= PANEL<R>) return panel_tile<R, M>(a, a_row, panel, depth, out, out_row, add);
  R edge[M * PANEL<R>] = {};
  for (int m = 0; add && m < M; ++m) std::memcpy(edge + m * PANEL<R>, out + m * out_row, cols * sizeof(R));
  panel_tile<R, M>(a, a_row, panel, depth, edge, PANEL<R>, add);
  for (int m = 0; m < M; ++m) std::memcpy(out + m * out_row, edge + m * PANEL<R>, cols * sizeof(R));
}

// out (rows, cols) = a (rows, depth) · w, or += with add. split: the panels over all threads.
template <class R>
void product(const R* a, int64_t a_row, int64_t rows, const Packed<R>& w, R* out, int64_t out_row, bool split,
             bool add = false) {
  const R* data = w.data.template data_ptr<R>();
  const auto body = [&](int64_t first, int64_t last) {
    for (int64_t p = first; p < last; ++p) {
      const R* panel = data + p * w.depth * PANEL<R>;
      const int64_t cols = w.cols - p * PANEL<R>;
      R* to = out + p * PANEL<R>;
      int64_t r = 0;
      for (; r + TILE_ROWS <= rows; r += TILE_ROWS)
        panel_rows<R, TILE_ROWS>(a + r * a_row, a_row, panel, w.depth, to + r * out_row, out_row, cols, add);
      for (; r < rows; ++r) panel_rows<R, 1>(a + r * a_row, a_row, panel, w.depth, to + r * out_row, out_row, cols, add);
    }
  };
  if (split)
    at::parallel_for(0, w.panels, 1, body);
  else
    body(0, w.panels);
}

}  // namespace
