// The LSTM with softmax attention over every past state: dense reads, exact gradients, truncated or not.
// Same layout and names as scan.cpp; every state is written, so slot = step.
#pragma once

#include "scan_common.h"
#include "scan_rows.h"

namespace {

template <class R>
void softmax_row(R* __restrict a, int64_t size) {
  R top = a[0], sum = 0;
  for (int64_t i = 1; i < size; ++i) top = std::max(top, a[i]);
#pragma omp simd
  for (int64_t i = 0; i < size; ++i) {
    const R x = a[i] - top;
    a[i] = exp_(x < -80 ? R(-80) : x);
  }
  for (int64_t i = 0; i < size; ++i) sum += a[i];
#pragma omp simd
  for (int64_t i = 0; i < size; ++i) a[i] /= sum;
}

// Every step reads all the memories of its samples: a few samples run through the whole sequence before the next few, so
// that what they read stays in the cache. `numbers` counts what one sample reads at a step.
template <class R, class F>
void over_samples(int64_t first, int64_t last, bool large, int64_t numbers, const F& run) {
  constexpr int64_t CACHE = int64_t(1) << 20, LEAST = 8;  // bytes; rows that make a product worth its weights
  const int64_t size = large ? last - first : std::max(LEAST, CACHE / int64_t(numbers * sizeof(R)));
  for (int64_t b = first; b < last; b += size) run(b, std::min(last, b + size));
}

template <class R>
std::vector<Tensor> attend_forward(Tensor x, Tensor w_all, Tensor w1, Tensor w2, Tensor w3, Tensor h0, Tensor c0,
                                   Tensor memory, Tensor keys, Tensor start, Tensor lengths, bool saving) {
  const int64_t T = x.size(0), B = x.size(1), I = x.size(2), n = w_all.size(0) / 4, L = w_all.size(1), D = keys.size(2),
                N = memory.size(1);
  const auto like = w_all.options();
  const int64_t kept = saving ? T : 1;
  Tensor z = at::empty({saving ? T + 1 : 2, B, L}, like), gates = at::empty({kept, B, 4 * n}, like);
  Tensor c = at::empty({kept + 1, B, n}, like), hh = at::empty({kept, B, n}, like), q = at::empty({kept, B, D}, like);
  Tensor h = at::empty({T, B, n}, like), s = at::zeros({T, B, n}, like), alpha = at::zeros({kept, B, N}, like);
  Tensor ekeys = at::empty_like(keys), reach = at::empty({B, N}, like), key_rows = at::empty({B, D}, like);
  const R *xp = x.data_ptr<R>(), *w3p = w3.data_ptr<R>();
  R *zp = z.data_ptr<R>(), *gp = gates.data_ptr<R>(), *cp = c.data_ptr<R>(), *hhp = hh.data_ptr<R>(), *qp = q.data_ptr<R>(),
    *hp = h.data_ptr<R>(), *sp = s.data_ptr<R>(), *ap = alpha.data_ptr<R>(), *mp = memory.data_ptr<R>(),
    *kp = keys.data_ptr<R>(), *ep = ekeys.data_ptr<R>(), *rp = reach.data_ptr<R>(), *krp = key_rows.data_ptr<R>();
  const int64_t *from = start.data_ptr<int64_t>(), *len = lengths.data_ptr<int64_t>();
  const Packed<R> to_gates(w_all.t()), to_query(w2.t()), to_key(w1.t());
  const int64_t z_slots = z.size(0);
  const bool large = is_large(w_all);
  R weight_sum = 0;
  for (int64_t j = 0; j < D; ++j) weight_sum += w3p[j];

  auto run = [&](int64_t first, int64_t last) {
    const int64_t rows = last - first;
    auto put_input = [&](int64_t b, int64_t t) {
      R* row = zp + ((t % z_slots) * B + b) * L + n;
      std::memcpy(row, xp + (t * B + b) * I, I * sizeof(R));
      row[I] = 1;
      std::fill(row + I + 1, row + L - n, R(0));
    };
    for (int64_t b = first; b < last; ++b) {
      std::memcpy(zp + b * L, h0.data_ptr<R>() + b * n, n * sizeof(R));
      std::memcpy(cp + b * n, c0.data_ptr<R>() + b * n, n * sizeof(R));
      put_input(b, 0);
      for (int64_t i = 0; i < from[b]; ++i) rp[b * N + i] = prepare(kp + (b * N + i) * D, ep + (b * N + i) * D, D);
    }
    for (int64_t t = 0; t < T; ++t) {
      const int64_t zt = t % z_slots, zn = (t + 1) % z_slots, k = saving ? t : 0;
      const int64_t ck = saving ? t : t % 2, cn = saving ? t + 1 : (t + 1) % 2;
      product(zp + (zt * B + first) * L, L, rows, to_gates, gp + (k * B + first) * 4 * n, 4 * n, large);
      over_chunks(first, last, large, [&](int64_t b0, int64_t b1) {
        for (int64_t b = b0; b < b1; ++b)
          cell_forward(gp + (k * B + b) * 4 * n, cp + (ck * B + b) * n, cp + (cn * B + b) * n, hhp + (k * B + b) * n, n);
      });
      product(hhp + (k * B + first) * n, n, rows, to_query, qp + (k * B + first) * D, D, large);
      over_chunks(first, last, large, [&](int64_t b0, int64_t b1) {
        std::vector<R> eq(D);
        for (int64_t b = b0; b < b1; ++b) {
          const int64_t at = t * B + b, held = from[b] + t;
          const R *hat = hhp + (k * B + b) * n, *qr = qp + (k * B + b) * D;
          R *hn = zp + (zn * B + b) * L, *so = sp + at * n, *ho = hp + at * n, *al = ap + (k * B + b) * N;
          if (t + 1 < T) put_input(b, t + 1);
          if (t >= len[b]) {
            std::fill(ho, ho + n, R(0));
            std::memcpy(hn, zp + (zt * B + b) * L, n * sizeof(R));
            std::memcpy(cp + (cn * B + b) * n, cp + (ck * B + b) * n, n * sizeof(R));
            continue;
          }
          if (held > 0) {
            const R q_reach = prepare(qr, eq.data(), D);
            for (int64_t i = 0; i < held; ++i) {
              const int64_t m = b * N + i;
              al[i] = score_(kp + m * D, ep + m * D, std::max(rp[m], q_reach), qr, eq.data(), w3p, weight_sum, D);
            }
            softmax_row(al, held);
            weighted_sum(so, al, mp + b * N * n, held, n);
          }
#pragma omp simd
          for (int64_t j = 0; j < n; ++j) hn[j] = ho[j] = hat[j] + so[j];
          std::memcpy(mp + (b * N + held) * n, hn, n * sizeof(R));
        }
      });
      product(zp + (zn * B + first) * L, L, rows, to_key, krp + first * D, D, large);
      over_chunks(first, last, large, [&](int64_t b0, int64_t b1) {
        for (int64_t b = b0; b < b1; ++b) {
          if (t >= len[b]) continue;
          const int64_t m = b * N + from[b] + t;
          std::memcpy(kp + m * D, krp + b * D, D * sizeof(R));
          rp[m] = prepare(kp + m * D, ep + m * D, D);
        }
      });
    }
  };
  {
    c10::InferenceMode guard;
    over_chunks(0, B, !large, [&](int64_t first, int64_t last) {
      over_samples<R>(first, last, large, N * (D + n), run);
    });
  }
  return {h, s, z[T % z_slots].narrow(1, 0, n).clone(), c[saving ? T : T % 2].clone(), alpha, z, gates, c, hh, q};
}

template <class R>
std::vector<Tensor> attend_backward(Tensor dh_out, Tensor ds_out, Tensor w_all, Tensor w1, Tensor w2, Tensor w3,
                                    Tensor memory, Tensor keys, Tensor start, Tensor lengths, Tensor alpha, Tensor z,
                                    Tensor gates, Tensor c, Tensor hh, Tensor q, int64_t k_trunc) {
  const int64_t T = dh_out.size(0), B = dh_out.size(1), n = dh_out.size(2), D = keys.size(2), N = memory.size(1);
  const auto like = w_all.options();
  Tensor dg = at::empty({T, B, 4 * n}, like), dq = at::zeros({T, B, D}, like), dk = at::zeros({B, N, D}, like),
         dm = at::zeros({B, N, n}, like), dw3 = at::zeros({B, D}, like), carry = at::zeros({B, n}, like),
         dc = at::zeros({B, n}, like), dhat = at::empty({B, n}, like), dk_rows = at::zeros({B, D}, like),
         ekeys = at::empty_like(keys), reach = at::empty({B, N}, like);
  const R *dhp = dh_out.data_ptr<R>(), *dsp = ds_out.data_ptr<R>(), *w3p = w3.data_ptr<R>(), *mp = memory.data_ptr<R>(),
          *kp = keys.data_ptr<R>(), *ap = alpha.data_ptr<R>(), *cp = c.data_ptr<R>(), *qp = q.data_ptr<R>(),
          *gp = gates.data_ptr<R>();
  R *dgp = dg.data_ptr<R>(), *dqp = dq.data_ptr<R>(), *dkp = dk.data_ptr<R>(), *dmp = dm.data_ptr<R>(),
    *dw3p = dw3.data_ptr<R>(), *carryp = carry.data_ptr<R>(), *dcp = dc.data_ptr<R>(), *dhatp = dhat.data_ptr<R>(),
    *dkr = dk_rows.data_ptr<R>(), *ep = ekeys.data_ptr<R>(), *rp = reach.data_ptr<R>();
  const int64_t *from = start.data_ptr<int64_t>(), *len = lengths.data_ptr<int64_t>();
  const Packed<R> from_gates(w_all.narrow(1, 0, n)), from_query(w2), from_key(w1);
  const bool large = is_large(w_all);

  auto run = [&](int64_t first, int64_t last) {
    const int64_t rows = last - first;
    for (int64_t b = first; b < last; ++b)
      for (int64_t i = 0; i < from[b] + len[b]; ++i)
        rp[b * N + i] = prepare(kp + (b * N + i) * D, ep + (b * N + i) * D, D);
    for (int64_t t = T - 1; t >= 0; --t) {
      // What later reads sent to this step's state, as value and through its key.
      for (int64_t b = first; b < last; ++b) {
        const int64_t at = t * B + b, m = b * N + from[b] + t;
        const bool live = t < len[b];
        for (int64_t j = 0; j < n; ++j) dhatp[b * n + j] = live ? carryp[b * n + j] + dhp[at * n + j] + dmp[m * n + j] : 0;
        for (int64_t j = 0; j < D; ++j) dkr[b * D + j] = live ? dkp[m * D + j] *= 4 * w3p[j] : 0;
      }
      product(dkr + first * D, D, rows, from_key, dhatp + first * n, n, large, true);
      over_chunks(first, last, large, [&](int64_t b0, int64_t b1) {
        std::vector<R> ds(n), eq(D), da(N);
        for (int64_t b = b0; b < b1; ++b) {
          const int64_t at = t * B + b, held = from[b] + t;
          if (t >= len[b] || held == 0) continue;
          const R *al = ap + at * N, *q_b = qp + at * D;
          R* dq_b = dqp + at * D;
#pragma omp simd
          for (int64_t j = 0; j < n; ++j) ds[j] = dhatp[b * n + j] + dsp[at * n + j];
          R mean = 0;
          for (int64_t i = 0; i < held; ++i) {
            const int64_t m = b * N + i;
            da[i] = inner(mp + m * n, ds.data(), n);
            mean += al[i] * da[i];
            add_scaled(dmp + m * n, al[i], ds.data(), n);
          }
          const R q_reach = prepare(q_b, eq.data(), D);
          for (int64_t i = 0; i < held; ++i) da[i] = al[i] * (da[i] - mean);
          const int64_t m = b * N;
          scores_backward(da.data(), kp + m * D, ep + m * D, rp + m, q_reach, q_b, eq.data(), held, D, dkp + m * D, dq_b,
                          dw3p + b * D);
          for (int64_t j = 0; j < D; ++j) dq_b[j] *= 4 * w3p[j];
        }
      });
      product(dqp + (t * B + first) * D, D, rows, from_query, dhatp + first * n, n, large, true);
      bool all_cut = true;
      for (int64_t b = first; b < last; ++b) {
        const int64_t at = t * B + b;
        if (t >= len[b]) {
          std::fill(dgp + at * 4 * n, dgp + (at + 1) * 4 * n, R(0));
          continue;
        }
        std::memcpy(dgp + at * 4 * n, gp + at * 4 * n, 4 * n * sizeof(R));
        cell_backward(dgp + at * 4 * n, cp + at * n, cp + (at + B) * n, dhatp + b * n, dcp + b * n, n);
        all_cut = all_cut && k_trunc > 0 && (from[b] + t) % k_trunc == 0;
      }
      if (!all_cut && t > 0)
        product(dgp + (t * B + first) * 4 * n, 4 * n, rows, from_gates, carryp + first * n, n, large);
      for (int64_t b = first; b < last; ++b)
        if (k_trunc > 0 && t < len[b] && (from[b] + t) % k_trunc == 0) {
          std::fill(carryp + b * n, carryp + (b + 1) * n, R(0));
          std::fill(dcp + b * n, dcp + (b + 1) * n, R(0));
        }
    }
    for (int64_t b = first; b < last; ++b)  // rows that were there before the call
      for (int64_t i = 0; i < from[b] * D; ++i) dkp[b * N * D + i] *= 4 * w3p[i % D];
  };
  {
    c10::InferenceMode guard;
    over_chunks(0, B, !large, [&](int64_t first, int64_t last) {
      over_samples<R>(first, last, large, N * (2 * D + 2 * n), run);
    });
  }
  return {dg, dk, dq, dw3.sum(0)};
}

std::vector<Tensor> attentive_forward(Tensor x, Tensor w_all, Tensor w1, Tensor w2, Tensor w3, Tensor h0, Tensor c0,
                                      Tensor memory, Tensor keys, Tensor start, Tensor lengths, bool saving) {
#define ARGS (x, w_all, w1, w2, w3, h0, c0, memory, keys, start, lengths, saving)
  BY_TYPE(w_all, attend_forward);
#undef ARGS
}

std::vector<Tensor> attentive_backward(Tensor dh, Tensor ds, Tensor w_all, Tensor w1, Tensor w2, Tensor w3, Tensor memory,
                                       Tensor keys, Tensor start, Tensor lengths, Tensor alpha, Tensor z, Tensor gates,
                                       Tensor c, Tensor hh, Tensor q, int64_t k_trunc) {
#define ARGS (dh, ds, w_all, w1, w2, w3, memory, keys, start, lengths, alpha, z, gates, c, hh, q, k_trunc)
  BY_TYPE(w_all, attend_backward);
#undef ARGS
}

}  // namespace
