// The SAB recurrence with a hand-derived backward (paper, Algorithm 1 and section 3.2). Same results as reference.py.
//
// Names follow the paper: hh = ĥ, s = summary, q = W2 ĥ, key = W1 m. Saved tensors have time first, then the sample.
//
// What makes it fast:
//  * tanh(k + q) = 1 − 2/(1 + e^{2k} e^{2q}): with e^{2k} kept since the write and e^{2q} once a step, an element of a
//    score costs a few multiplications and half a division, and is as exact as tanh (the error is absolute).
//  * Only the k_top + 1 candidates carry gradient, so a read's backward does not depend on how much is held.
//  * The small products of a step use matrices packed once (scan_gemm.h); weight gradients are one product each, after
//    the loop.
//  * The gradient of the gates takes the place of the activations.
#include "scan_common.h"
#include "scan_read.h"

namespace {

struct Clock {  // per-sample time; padded steps do not count
  const int64_t *start, *lengths;
  const Options& o;
  bool live(int64_t t, int64_t b) const { return t < lengths[b]; }
  int64_t now(int64_t t, int64_t b) const { return start[b] + std::min(t + 1, lengths[b]); }
  int64_t count(int64_t t, int64_t b) const { return (now(t, b) - live(t, b)) / o.k_att + o.zero_slots; }
  bool writes(int64_t t, int64_t b) const { return live(t, b) && now(t, b) % o.k_att == 0; }
  int64_t slot(int64_t t, int64_t b) const { return now(t, b) / o.k_att - 1 + o.zero_slots; }
  bool cuts(int64_t t, int64_t b) const {
    return o.k_trunc > 0 && live(t, b) && (now(t, b) - o.block_offset) % o.k_trunc == 0;
  }
  bool any_writes(int64_t t, int64_t b0, int64_t b1) const {
    for (int64_t b = b0; b < b1; ++b)
      if (writes(t, b)) return true;
    return false;
  }
  bool all_cut(int64_t t, int64_t b0, int64_t b1) const {
    for (int64_t b = b0; b < b1; ++b)
      if (!cuts(t, b)) return false;
    return true;
  }
};

// Inputs: x (T,B,I); w_all (4n,L) = [W_hh | W_ih | b | 0]; scorer w1 (d,n), w2 (d,n), w3 (d), or w_memory (1,n),
// w_query (1,n), none. memory (B,N,n) and keys (B,N,D) are filled in place, the first slots given.
template <class R>
std::vector<Tensor> forward_(Tensor x, Tensor w_all, Tensor w1, Tensor w2, Tensor w3, Tensor h0, Tensor c0,
                             Tensor memory, Tensor keys, Tensor start, Tensor lengths, const Options& o) {
  const int64_t T = x.size(0), B = x.size(1), I = x.size(2), n = w_all.size(0) / 4, L = w_all.size(1);
  const int64_t D = keys.size(2), N = memory.size(1), K = o.width();
  const bool separable = o.separable, saving = o.save != SAVE_NOTHING, lazy = o.lazy && !separable;
  const int64_t kept_steps = saving ? T : 1;
  const auto like = w_all.options();
  // z rows are [h(t−1), x(t), 1, 0…]: one product gives all gates, and one more all their weights' gradients.
  Tensor z = reusable({saving ? T + 1 : 2, B, L}, like);
  Tensor gates = reusable({o.save == SAVE_ACTIVATIONS ? T : 1, B, 4 * n}, like);
  Tensor c = reusable({kept_steps + 1, B, n}, like), hh = reusable({kept_steps, B, n}, like);
  Tensor q = reusable({kept_steps, B, D}, like), h = reusable({T, B, n}, like), s = reusable({T, B, n}, like);
  Tensor index = at::empty({T, B, K}, like.dtype(at::kInt)), alpha = at::empty({T, B, K}, like);
  Tensor total = at::empty({kept_steps, B}, like), mode = at::empty({T, B}, like.dtype(at::kByte));
  Tensor ekeys = reusable({separable ? 0 : B, N, D}, like), reach = at::empty({B, N}, like);
  Tensor key_rows = at::empty({B, D}, like);
  Tensor counts = at::zeros({2}, like.dtype(at::kLong));

  const R *xp = x.data_ptr<R>(), *w1p = w1.data_ptr<R>(), *w2p = w2.data_ptr<R>();
  const R* w3p = separable ? nullptr : w3.data_ptr<R>();
  R *zp = z.data_ptr<R>(), *gp = gates.data_ptr<R>(), *cp = c.data_ptr<R>(), *hhp = hh.data_ptr<R>(),
    *qp = q.data_ptr<R>(), *hp = h.data_ptr<R>(), *sp = s.data_ptr<R>(), *ap = alpha.data_ptr<R>(),
    *tp = total.data_ptr<R>(), *mp = memory.data_ptr<R>(), *kp = keys.data_ptr<R>(),
    *ep = separable ? nullptr : ekeys.data_ptr<R>(), *rp = reach.data_ptr<R>(), *krp = key_rows.data_ptr<R>();
  int32_t* ip = index.data_ptr<int32_t>();
  uint8_t* modep = mode.data_ptr<uint8_t>();
  const Clock clock{start.data_ptr<int64_t>(), lengths.data_ptr<int64_t>(), o};
  R weight_sum = 0;
  double weight_l1 = 0;
  for (int64_t j = 0; !separable && j < D; ++j) weight_sum += w3p[j], weight_l1 += std::abs(double(w3p[j]));

  const Packed<R> to_gates(w_all.t()), to_query(w2.t()), to_key(w1.t());
  const int64_t z_slots = z.size(0);
  const bool large = is_large(w_all);
  std::vector<Reader<R>> readers(B, Reader<R>(D, K, N, lazy));

  auto run = [&](int64_t first, int64_t last) {
    const int64_t rows = last - first;
    auto put_input = [&](int64_t b, int64_t t) {
      R* row = zp + ((t % z_slots) * B + b) * L + n;
      std::memcpy(row, xp + (t * B + b) * I, I * sizeof(R));
      row[I] = 1;
      std::fill(row + I + 1, row + L - n, R(0));
    };
    over_chunks(first, last, large, [&](int64_t b0, int64_t b1) {
      for (int64_t b = b0; b < b1; ++b) {
        std::memcpy(zp + b * L, h0.data_ptr<R>() + b * n, n * sizeof(R));
        put_input(b, 0);
        std::memcpy(cp + b * n, c0.data_ptr<R>() + b * n, n * sizeof(R));
        const int64_t held = clock.count(0, b);
        for (int64_t i = 0; !separable && i < held; ++i)
          rp[b * N + i] = prepare(kp + (b * N + i) * D, ep + (b * N + i) * D, D);
      }
    });
    for (int64_t t = 0; t < T; ++t) {
      const int64_t zt = t % z_slots, zn = (t + 1) % z_slots, k = saving ? t : 0, gk = o.save == SAVE_ACTIVATIONS ? t : 0;
      const int64_t ck = saving ? t : t % 2, cn = saving ? t + 1 : (t + 1) % 2;
      product(zp + (zt * B + first) * L, L, rows, to_gates, gp + (gk * B + first) * 4 * n, 4 * n, large);
      over_chunks(first, last, large, [&](int64_t b0, int64_t b1) {
        for (int64_t b = b0; b < b1; ++b)
          cell_forward(gp + (gk * B + b) * 4 * n, cp + (ck * B + b) * n, cp + (cn * B + b) * n, hhp + (k * B + b) * n, n);
      });
      if (!separable) product(hhp + (k * B + first) * n, n, rows, to_query, qp + (k * B + first) * D, D, large);
      const bool writing = clock.any_writes(t, first, last);
      over_chunks(first, last, large, [&](int64_t b0, int64_t b1) {
        for (int64_t b = b0; b < b1; ++b) {
          const int64_t at = t * B + b, held = clock.count(t, b);
          const bool live = clock.live(t, b);
          const R* hat = hhp + (k * B + b) * n;
          R *hn = zp + (zn * B + b) * L, *so = sp + at * n, *ho = hp + at * n, *al = ap + at * K, *qr = qp + (k * B + b) * D;
          int32_t* id = ip + at * K;
          std::fill(so, so + n, R(0));
          std::fill(al, al + K, R(0));
          std::fill(id, id + K, -1);
          modep[at] = MODE_FIXED;
          if (t + 1 < T) put_input(b, t + 1);
          if (separable) {
            R sum = 0;
            for (int64_t j = 0; j < n; ++j) sum += w2p[j] * tanh_(hat[j]);
            qr[0] = sum;
          }
          if (!live) {
            std::fill(ho, ho + n, R(0));
            std::memcpy(hn, zp + (zt * B + b) * L, n * sizeof(R));
            std::memcpy(cp + (cn * B + b) * n, cp + (ck * B + b) * n, n * sizeof(R));
            continue;
          }
          if (held > 0) {
            Reader<R>& reader = readers[b];
            const int64_t used = reader.retrieve(kp + b * N * D, ep + (separable ? 0 : b * N * D), rp + b * N, qr, w3p,
                                                 weight_sum, weight_l1, held, separable, lazy);
            modep[at] = weigh(reader.best.data(), used, held, o, al, tp + k * B + b);
            for (int64_t p = 0; p < used; ++p) {
              id[p] = reader.chosen[p];
              if (al[p] != 0) add_scaled(so, al[p], mp + (b * N + id[p]) * n, n);
            }
          }
#pragma omp simd
          for (int64_t j = 0; j < n; ++j) hn[j] = ho[j] = hat[j] + so[j];
          if (clock.writes(t, b)) std::memcpy(mp + (b * N + clock.slot(t, b)) * n, hn, n * sizeof(R));
        }
      });
      if (!writing) continue;
      if (!separable) product(zp + (zn * B + first) * L, L, rows, to_key, krp + first * D, D, large);
      over_chunks(first, last, large, [&](int64_t b0, int64_t b1) {
        for (int64_t b = b0; b < b1; ++b) {
          if (!clock.writes(t, b)) continue;
          const int64_t at = b * N + clock.slot(t, b);
          if (separable) {
            R sum = 0;
            for (int64_t j = 0; j < n; ++j) sum += w1p[j] * tanh_(mp[at * n + j]);
            kp[at] = sum;
          } else {
            std::memcpy(kp + at * D, krp + b * D, D * sizeof(R));
            rp[at] = prepare(kp + at * D, ep + at * D, D);
          }
        }
      });
    }
  };
  {
    c10::InferenceMode guard;
    over_chunks(0, B, !large, run);
  }
  int64_t* count = counts.data_ptr<int64_t>();
  for (const Reader<R>& reader : readers) count[0] += reader.computed, count[1] += reader.considered;
  const Tensor h_end = z[T % z_slots].narrow(1, 0, n).clone(), c_end = c[saving ? T : T % 2].clone();
  return {h, s, h_end, c_end, index, alpha, mode, counts, z, gates, c, hh, q, total};
}

// The activated gates become the gradient of the gates before activation. With SAVE_RECOMPUTE they are computed again.
template <class R>
std::vector<Tensor> backward_(Tensor dh_out, Tensor ds_out, Tensor w_all, Tensor w1, Tensor w2, Tensor w3, Tensor memory,
                              Tensor keys, Tensor start, Tensor lengths, Tensor index, Tensor alpha, Tensor mode, Tensor z,
                              Tensor gates, Tensor c, Tensor hh, Tensor q, Tensor total, const Options& o) {
  const int64_t T = dh_out.size(0), B = dh_out.size(1), n = dh_out.size(2), L = w_all.size(1);
  const int64_t D = keys.size(2), N = memory.size(1), K = o.width();
  const bool separable = o.separable, recompute = o.save == SAVE_RECOMPUTE, to_states = o.states;
  const bool replays = o.replay != REPLAY_NONE, key_to_memory = to_states && replays;
  const auto like = w_all.options();
  Tensor dg = recompute ? reusable({T, B, 4 * n}, like) : gates, dq = reusable({T, B, D}, like);
  Tensor dk = reusable({B, N, D}, like).zero_(), dm = reusable({replays ? B : 0, N, n}, like).zero_();
  Tensor carry = at::zeros({B, n}, like), dc = at::zeros({B, n}, like), dhat = at::empty({B, n}, like);
  Tensor dm_rows = at::empty({B, n}, like), dk_rows = at::zeros({B, D}, like);
  Tensor written = at::empty({o.replay == REPLAY_WRITE_STEP ? B : 0, 4 * n}, like);  // gates of a step that is written
  Tensor dw3 = at::zeros({B, separable ? 0 : D}, like);

  const R *dhp = dh_out.data_ptr<R>(), *dsp = ds_out.data_ptr<R>(), *w1p = w1.data_ptr<R>(), *w2p = w2.data_ptr<R>(),
          *mp = memory.data_ptr<R>(), *kp = keys.data_ptr<R>(), *ap = alpha.data_ptr<R>(), *cp = c.data_ptr<R>(),
          *hhp = hh.data_ptr<R>(), *tp = total.data_ptr<R>(), *zp = z.data_ptr<R>(), *qp = q.data_ptr<R>();
  const R* w3p = separable ? nullptr : w3.data_ptr<R>();
  const int32_t* ip = index.data_ptr<int32_t>();
  const uint8_t* modep = mode.data_ptr<uint8_t>();
  R *dgp = dg.data_ptr<R>(), *dqp = dq.data_ptr<R>(), *dkp = dk.data_ptr<R>(), *dmp = dm.data_ptr<R>(),
    *carryp = carry.data_ptr<R>(), *dcp = dc.data_ptr<R>(), *dhatp = dhat.data_ptr<R>(), *dmr = dm_rows.data_ptr<R>(),
    *dkr = dk_rows.data_ptr<R>(), *dw3p = dw3.data_ptr<R>(), *writtenp = written.data_ptr<R>();
  const Clock clock{start.data_ptr<int64_t>(), lengths.data_ptr<int64_t>(), o};
  const Packed<R> to_gates(w_all.t()), from_gates(w_all.narrow(1, 0, n)), from_query(w2), from_key(w1);
  const bool large = is_large(w_all);

  auto run = [&](int64_t first, int64_t last) {
    const int64_t rows = last - first;
    for (int64_t t = T - 1; t >= 0; --t) {
      R *dg_rows = dgp + (t * B + first) * 4 * n, *carry_rows = carryp + first * n;
      if (recompute) product(zp + (t * B + first) * L, L, rows, to_gates, dg_rows, 4 * n, large);
      const bool writing = replays && clock.any_writes(t, first, last);
      if (writing) {  // all that later reads sent to this step's memory, as value and through its key
        over_chunks(first, last, large, [&](int64_t b0, int64_t b1) {
          for (int64_t b = b0; b < b1; ++b) {
            if (!clock.writes(t, b)) {
              std::fill(dmr + b * n, dmr + (b + 1) * n, R(0));
              std::fill(dkr + b * D, dkr + (b + 1) * D, R(0));
              continue;
            }
            const int64_t at = b * N + clock.slot(t, b);
            std::memcpy(dmr + b * n, dmp + at * n, n * sizeof(R));
            std::memcpy(dkr + b * D, dkp + at * D, D * sizeof(R));
            if (separable && key_to_memory)
              for (int64_t j = 0; j < n; ++j) {
                const R u = tanh_(mp[at * n + j]);
                dmr[b * n + j] += dkr[b] * w1p[j] * (1 - u * u);
              }
          }
        });
        if (!separable && key_to_memory) product(dkr + first * D, D, rows, from_key, dmr + first * n, n, large, true);
      }
      over_chunks(first, last, large, [&](int64_t b0, int64_t b1) {
        std::vector<R> ds(n), g(K), da(K);
        for (int64_t b = b0; b < b1; ++b) {
          const int64_t at = t * B + b;
          R *dhat_b = dhatp + b * n, *__restrict dq_b = dqp + at * D;
          std::fill(dq_b, dq_b + D, R(0));
          if (!clock.live(t, b)) {  // the output is a constant zero, and nothing later depends on this step
            std::fill(dhat_b, dhat_b + n, R(0));
            continue;
          }
          const R *grad_h = dhp + at * n, *grad_s = dsp + at * n, *carry_b = carryp + b * n;
          const bool replayed = writing && o.replay == REPLAY_FULL;
#pragma omp simd
          for (int64_t j = 0; j < n; ++j) {
            const R dh = carry_b[j] + grad_h[j] + (replayed ? dmr[b * n + j] : R(0));
            dhat_b[j] = dh;
            ds[j] = dh + grad_s[j];
          }
          const int32_t* id = ip + at * K;
          const R* al = ap + at * K;
          const Mode how = Mode(modep[at]);
          int64_t used = 0;
          while (used < K && id[used] >= 0) ++used;
          for (int64_t p = 0; p < used; ++p) {
            const R* m = mp + (b * N + id[p]) * n;
            if (how != MODE_FIXED) g[p] = inner(m, ds.data(), n);
            if (replays && al[p] != 0) add_scaled(dmp + (b * N + id[p]) * n, al[p], ds.data(), n);
          }
          if (how == MODE_FIXED) continue;
          weigh_backward(how, al, tp[at], g.data(), used, da.data());
          if (separable) {
            for (int64_t p = 0; p < used; ++p) dq_b[0] += da[p], dkp[b * N + id[p]] += da[p];
            continue;
          }
          const R* __restrict q_b = qp + at * D;
          R* __restrict dw3_b = dw3p + b * D;
          for (int64_t p = 0; p < used; ++p) {
            const R d = da[p], *__restrict key = kp + (b * N + id[p]) * D;
            R* __restrict dkey = dkp + (b * N + id[p]) * D;
            if (d == 0) continue;
#pragma omp simd
            for (int64_t j = 0; j < D; ++j) {
              const R u = tanh_(key[j] + q_b[j]), v = d * w3p[j] * (1 - u * u);
              dw3_b[j] += d * u;
              dq_b[j] += v;
              dkey[j] += v;
            }
          }
        }
      });
      if (to_states && !separable) product(dqp + (t * B + first) * D, D, rows, from_query, dhatp + first * n, n, large, true);
      over_chunks(first, last, large, [&](int64_t b0, int64_t b1) {
        for (int64_t b = b0; b < b1; ++b) {
          const int64_t at = t * B + b;
          R *dhat_b = dhatp + b * n, *dg_b = dgp + at * 4 * n;
          if (!clock.live(t, b)) {
            std::fill(dg_b, dg_b + 4 * n, R(0));
            continue;
          }
          if (recompute) activate(dg_b, n);
          if (o.replay == REPLAY_WRITE_STEP) std::memcpy(writtenp + b * 4 * n, dg_b, 4 * n * sizeof(R));
          if (separable && to_states)
            for (int64_t j = 0; j < n; ++j) {
              const R u = tanh_(hhp[at * n + j]);
              dhat_b[j] += dqp[at] * w2p[j] * (1 - u * u);
            }
          cell_backward(dg_b, cp + at * n, cp + (at + B) * n, dhat_b, dcp + b * n, n);
        }
      });
      const bool cut = clock.all_cut(t, first, last);
      if (!cut && t > 0) product(dg_rows, 4 * n, rows, from_gates, carry_rows, n, large);
      over_chunks(first, last, large, [&](int64_t b0, int64_t b1) {
        for (int64_t b = b0; b < b1; ++b) {
          const int64_t at = t * B + b;
          if (clock.cuts(t, b)) {
            std::fill(carryp + b * n, carryp + (b + 1) * n, R(0));
            std::fill(dcp + b * n, dcp + (b + 1) * n, R(0));
          }
          if (writing && o.replay == REPLAY_WRITE_STEP && clock.writes(t, b)) {  // through the cell, and no further
            R *again = writtenp + b * 4 * n, *dg_b = dgp + at * 4 * n;
            std::vector<R> none(n);
            cell_backward(again, cp + at * n, cp + (at + B) * n, dmr + b * n, none.data(), n);
            for (int64_t j = 0; j < 4 * n; ++j) dg_b[j] += again[j];
          }
        }
      });
    }
  };
  {
    c10::InferenceMode guard;
    over_chunks(0, B, !large, run);
  }
  return {dg, dk, dq, dw3.sum(0)};
}

std::vector<Tensor> forward(Tensor x, Tensor w_all, Tensor w1, Tensor w2, Tensor w3, Tensor h0, Tensor c0, Tensor memory,
                            Tensor keys, Tensor start, Tensor lengths, std::vector<int64_t> options) {
  const Options o = unpack(options);
#define ARGS (x, w_all, w1, w2, w3, h0, c0, memory, keys, start, lengths, o)
  BY_TYPE(w_all, forward_);
#undef ARGS
}

std::vector<Tensor> backward(Tensor dh, Tensor ds, Tensor w_all, Tensor w1, Tensor w2, Tensor w3, Tensor memory,
                             Tensor keys, Tensor start, Tensor lengths, Tensor index, Tensor alpha, Tensor mode, Tensor z,
                             Tensor gates, Tensor c, Tensor hh, Tensor q, Tensor total, std::vector<int64_t> options) {
  const Options o = unpack(options);
#define ARGS (dh, ds, w_all, w1, w2, w3, memory, keys, start, lengths, index, alpha, mode, z, gates, c, hh, q, total, o)
  BY_TYPE(w_all, backward_);
#undef ARGS
}

}  // namespace

#include "attentive.h"

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("forward", &forward, py::call_guard<py::gil_scoped_release>());
  m.def("backward", &backward, py::call_guard<py::gil_scoped_release>());
  m.def("give_back", [](const Tensor&) {});  // buffers that nobody holds are found here without it
  m.def("attentive_forward", &attentive_forward, py::call_guard<py::gil_scoped_release>());
  m.def("attentive_backward", &attentive_backward, py::call_guard<py::gil_scoped_release>());
}
