// A read of the SAB recurrence: its options, retrieval with exact skipping, weights and their gradient.
#pragma once

#include <torch/csrc/utils/pybind.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "scan_math.h"

namespace {

enum Replay { REPLAY_FULL, REPLAY_WRITE_STEP, REPLAY_NONE };
enum Short { SHORT_MARGIN, SHORT_SOFTMAX, SHORT_RAW };
enum Mode : uint8_t { MODE_FIXED, MODE_MARGIN, MODE_SOFTMAX, MODE_RAW };  // how a read's weights depend on its scores
enum Save { SAVE_NOTHING, SAVE_ACTIVATIONS, SAVE_RECOMPUTE };
constexpr double RELEASED_EPS = 1e-7;

struct Options {
  int64_t k_top, k_att, k_trunc, block_offset, replay, states, separable, released_threshold, short_memory, zero_slots,
      save, lazy;
  int64_t width() const { return released_threshold ? k_top : k_top + 1; }  // candidates of a read
};

Options unpack(const std::vector<int64_t>& o) {
  TORCH_CHECK(o.size() == 12, "scan: 12 options expected, got ", o.size());
  return {o[0], o[1], o[2], o[3], o[4], o[5], o[6], o[7], o[8], o[9], o[10], o[11]};
}

// One sample's retrieval: its scores, and what lazy retrieval needs to know of them.
template <class R>
struct Reader {
  int64_t d, width, held_before = 0, computed = 0, considered = 0;
  std::vector<R> eq, best, score, last_query;
  std::vector<double> anchor;  // a memory's score when last computed, less the query's path by then
  std::vector<int32_t> chosen, kept;
  double path = 0;  // Σ over steps of Σ_j |w3_j| |Δq_j|
  // Where next to nothing is skipped, looking for it costs more than it saves: judge a few steps, then leave it a while.
  static constexpr int64_t JUDGED = 8, PAUSE = 56, FEW = 32;
  int64_t judged = 0, judged_held = 0, judged_computed = 0, pause = 0;

  Reader(int64_t d_, int64_t width_, int64_t capacity, bool lazy)
      : d(d_), width(width_), eq(d_), best(width_), score(lazy ? capacity : 0), last_query(d_),
        anchor(lazy ? capacity : 0, std::numeric_limits<double>::infinity()), chosen(width_) {}

  void judge(int64_t held, int64_t evaluated) {
    judged_held += held, judged_computed += evaluated;
    if (++judged < JUDGED) return;
    if (8 * judged_computed > 7 * judged_held) {
      pause = PAUSE;
      std::fill(anchor.begin(), anchor.end(), std::numeric_limits<double>::infinity());  // the path goes on unseen
    }
    judged = judged_held = judged_computed = 0;
  }

  // The best min(width, held) memories by (score descending, index ascending) into chosen and best.
  int64_t retrieve(const R* key, const R* ekey, const R* reach, const R* q, const R* w3, R weight_sum,
                   double weight_l1, int64_t held, bool separable, bool lazy) {
    lazy = lazy && pause == 0;
    pause -= pause > 0;
    const int64_t keep = std::min(width, held);
    const R q_reach = separable ? R(0) : prepare(q, eq.data(), d);
    auto evaluate = [&](int64_t i) {
      ++computed;
      if (separable) return key[i] + q[0];
      return score_(key + i * d, ekey + i * d, std::max(reach[i], q_reach), q, eq.data(), w3, weight_sum, d);
    };
    considered += held;
    const int64_t computed_before = computed;
    // Lazy: |a(q') − a(q)| ≤ Σ |w3| |q' − q|, so a memory whose last score plus the query's path since then stays
    // below the worst kept score cannot enter, and needs no tanh.
    R bar = -std::numeric_limits<R>::infinity();
    double slack = 0;
    kept.clear();
    if (lazy) {
      double moved = 0;
      for (int64_t j = 0; j < d; ++j) moved += std::abs(double(w3[j])) * std::abs(double(q[j]) - double(last_query[j]));
      path += moved;
      std::memcpy(last_query.data(), q, d * sizeof(R));
      slack = 64 * double(std::numeric_limits<R>::epsilon()) * weight_l1;
      if (keep == width && held_before >= width) {  // last step's choice sets this step's bar
        kept.assign(chosen.begin(), chosen.begin() + width);
        std::sort(kept.begin(), kept.end());
        bar = std::numeric_limits<R>::infinity();
        for (const int32_t i : kept) {
          score[i] = evaluate(i);
          anchor[i] = double(score[i]) - path;
          bar = std::min(bar, score[i]);
        }
        if (std::isnan(bar)) bar = -std::numeric_limits<R>::infinity();
      }
    }
    held_before = held;
    int64_t filled = 0;
    size_t next_kept = 0;
    for (int64_t i = 0; i < held; ++i) {
      R a;
      if (next_kept < kept.size() && kept[next_kept] == i) {
        a = score[i];
        ++next_kept;
      } else {
        if (lazy && anchor[i] + path + slack < double(bar)) continue;
        a = evaluate(i);
        if (lazy) score[i] = a, anchor[i] = double(a) - path;
      }
      if (filled < keep || a > best[filled - 1]) {
        int64_t p = filled < keep ? filled++ : filled - 1;
        for (; p > 0 && best[p - 1] < a; --p) best[p] = best[p - 1], chosen[p] = chosen[p - 1];
        best[p] = a, chosen[p] = int32_t(i);
        if (filled == keep) bar = std::max(bar, best[keep - 1]);
      }
    }
    if (lazy && held >= FEW) judge(held, computed - computed_before);
    return filled;
  }
};

// The rule of sparse_weights.weigh on `used` candidates' scores; returns how the weights depend on them.
template <class R>
Mode weigh(const R* best, int64_t used, int64_t held, const Options& o, R* alpha, R* total) {
  if (used == 0) return MODE_FIXED;
  *total = 1;
  if (held <= o.k_top && o.short_memory == SHORT_RAW) {
    std::copy(best, best + used, alpha);
    return MODE_RAW;
  }
  if (held <= o.k_top && o.short_memory == SHORT_SOFTMAX) {
    R sum = 0;
    for (int64_t p = 0; p < used; ++p) sum += alpha[p] = std::exp(best[p] - best[0]);
    for (int64_t p = 0; p < used; ++p) alpha[p] /= sum;
    return held == 1 ? MODE_FIXED : MODE_SOFTMAX;
  }
  const R tau = best[used - 1] + (o.released_threshold ? R(RELEASED_EPS) : R(0));
  R sum = 0;
  int64_t positive = 0;
  for (int64_t p = 0; p < used; ++p) {
    const R margin = best[p] - tau;
    alpha[p] = margin > 0 ? margin : R(0);
    sum += alpha[p];
    positive += alpha[p] > 0;
  }
  if (o.released_threshold) {
    *total = sum + R(RELEASED_EPS);
    for (int64_t p = 0; p < used; ++p) alpha[p] /= *total;
    return positive ? MODE_MARGIN : MODE_FIXED;
  }
  const R size = std::max(std::abs(best[0]), std::abs(tau));
  if (!(sum > 8 * (std::numeric_limits<R>::epsilon() * size + std::numeric_limits<R>::min()))) {  // tied
    const int64_t read = std::min(used, o.k_top);
    for (int64_t p = 0; p < used; ++p) alpha[p] = p < read ? R(1) / R(read) : R(0);
    return MODE_FIXED;
  }
  if (positive == 1) {
    for (int64_t p = 0; p < used; ++p) alpha[p] = p == 0 ? R(1) : R(0);
    return MODE_FIXED;
  }
  *total = sum;
  for (int64_t p = 0; p < used; ++p) alpha[p] /= sum;
  return MODE_MARGIN;
}

// Gradient of the candidates' scores from the gradient g of their weights.
template <class R>
void weigh_backward(Mode mode, const R* alpha, R total, const R* g, int64_t used, R* da) {
  if (mode == MODE_RAW) {
    std::copy(g, g + used, da);
    return;
  }
  R mean = 0;
  for (int64_t p = 0; p < used; ++p) mean += alpha[p] * g[p];
  R sum = 0;
  for (int64_t p = 0; p < used; ++p) {
    if (mode == MODE_SOFTMAX)
      da[p] = alpha[p] * (g[p] - mean);
    else
      sum += da[p] = alpha[p] > 0 ? (g[p] - mean) / total : R(0);
  }
  if (mode == MODE_MARGIN) da[used - 1] -= sum;  // the threshold's share
}

}  // namespace
