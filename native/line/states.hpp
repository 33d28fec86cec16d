// What the filter of markov.hpp leaves behind, turned into states: backward pass, draws, values.
//
// States are (n, M), covariances (n, M (M + 1) / 2) by rows of the lower triangle. `back` has, for each
// gap, room for [R, d_] before it; the backward pass overwrites it by G and N with
// s_t = G s_{t+1} + N eta + .., eta ~ N(0, I).
#pragma once

#include <algorithm>

#include "line/spline.hpp"

namespace mercer {

constexpr int pairs(int M) { return M * (M + 1) / 2; }
constexpr int room(int M) { return std::max(2 * M * M, pairs(M) + M); }

// The filter over all observations; [R, d_] before each gap is stored, R by the rows of its triangle.
template <int M>
MERCER_INLINE Filter<M, double> forward(size_t n, const double* gaps, const double* W, const double* y,
                                        const double* L1, double sf, double* back, double* logdet,
                                        Patience& patience) {
    Filter<M, double> filter;
    Logs<double> logs;
    filter.template observe<true>(std::sqrt(W[0]), y[0]);
    for (size_t t = 1; t < n; ++t) {
        if (t % SPELL == 0 && patience.over()) break;
        double* record = back + (t - 1) * room(M);
        for (int i = 0; i < M; ++i)
            for (int j = i; j <= M; ++j) *record++ = filter.S[i][j];
        double A[M + 1][2 * M + 1];
        const Gap<M> gap(gaps[t - 1], L1);
        filter.template move<0>(gap, sf, A, [&](int, double norm, const double*) MERCER_LAMBDA {
            logs.add(norm);
        });
        filter.template observe<true>(std::sqrt(W[t]), y[t]);
    }
    *logdet = logs.sum(0);
    return filter;
}

// U = R^-1 for a triangle R, the first M columns of S.
template <int M>
MERCER_INLINE void invert(const double (*S)[M + 1], double (*U)[M]) {
    for (int j = 0; j < M; ++j)
        for (int i = M - 1; i >= 0; --i) {
            double sum = i == j ? 1.0 : 0.0;
            for (int k = i + 1; k <= j; ++k) sum -= S[i][k] * U[k][j];
            U[i][j] = i <= j ? sum / S[i][i] : 0.0;
        }
}

// Rows of R below this share of what moving back would say, squared, say too little to divide by.
constexpr double WEAK = 1e-4;

// Square of what s_t[i] = [A^-1 (s_{t+1} - L e)]_i adds up; A^-1 L L' A^-T has the diagonal of L L'.
template <int M>
MERCER_INLINE double reach(const Gap<M>& gap, double sf, const double* x, const double (*C)[M], int i) {
    double sum = 0.0;
    for (int j = i; j < M; ++j) sum += gap.inverse[i][j] * gap.inverse[i][j] * (x[j] * x[j] + C[j][j]);
    for (int j = 0; j <= i; ++j) sum += sf * sf * gap.spread[i][j] * gap.spread[i][j];
    return sum;
}

// The rows of M0 after its QR: `top` has [Re, Rs, c, Q11' ..] and A, from row 1, [0, R', d', Q12' ..].
template <int M>
struct Turned {
    double top[M][3 * M + 1], A[M + 1][3 * M + 1];
};

// See gap_back; component i of weak[i] is moved back, the others are those of R s_t - d_ = ..
template <int M>
#if defined(__GNUC__)
__attribute__((noinline))
#endif
void mixed_back(const Turned<M>& turned, const Gap<M>& gap, double sf, const double (*R)[M],
                const double* d, const bool* weak, double (*G)[M], double (*N)[M], double* b) {
    const auto& [top, A] = turned;
    for (int i = M - 1; i >= 0; --i) {
        if (weak[i]) {
            for (int j = 0; j < M; ++j) {  // N Re = -A^-1 L
                N[i][j] = 0.0;
                for (int k = std::max(i, j); k < M; ++k)
                    N[i][j] -= gap.inverse[i][k] * gap.spread[k][j] * sf;
            }
            for (int j = 0; j < M; ++j) {
                N[i][j] /= top[j][j];
                for (int k = j + 1; k < M; ++k) N[i][k] -= N[i][j] * top[j][k];
            }
            b[i] = 0.0;
            for (int j = 0; j < M; ++j) {
                G[i][j] = gap.inverse[i][j];
                for (int k = 0; k < M; ++k) G[i][j] -= N[i][k] * top[k][M + j];
                b[i] += N[i][j] * top[j][2 * M];
            }
            continue;
        }
        b[i] = d[i];
        for (int j = 0; j < M; ++j) G[i][j] = 0.0, N[i][j] = top[j][2 * M + 1 + i];
        for (int l = 0; l < M; ++l) {
            const double q22 = A[l + 1][2 * M + 1 + i];
            b[i] -= q22 * A[l + 1][2 * M];
            for (int j = 0; j < M; ++j) G[i][j] += q22 * A[l + 1][M + j];
        }
        for (int k = i + 1; k < M; ++k) {
            b[i] -= R[i][k] * b[k];
            for (int j = 0; j < M; ++j) G[i][j] -= R[i][k] * G[k][j], N[i][j] -= R[i][k] * N[k][j];
        }
        b[i] /= R[i][i];
        for (int j = 0; j < M; ++j) G[i][j] /= R[i][i], N[i][j] /= R[i][i];
    }
}

// One gap backwards: G, N (M, M) and b (M) with s_t = G s_{t+1} + N eta + b; s_{t+1} ~ N(x, C).
//
// The QR of the gap, M0 = Q [Re, Rs, c; 0, R', d'], is done again, with Q's own columns beside. With
// eta = Re e + Rs s_{t+1} - c and rho = R' s_{t+1} - d' its last rows say R s_t - d_ = Q21 eta + Q22 rho,
// which loses nothing over a long gap. Where a row of R is zero yet (before M distinct observations)
// or so small that rounding of its right side, over it, is more than the rounding of moving back
// (observations that nearly coincide), that component is s_t = A^-1 (s_{t+1} - L e) with e from the
// first rows: both are the same map, and R is a triangle, so that each component has its own choice.
template <int M>
MERCER_INLINE void gap_back(const double* record, const Gap<M>& gap, double sf, const double* x,
                            const double (*C)[M], double (*G)[M], double (*N)[M], double* b) {
    Filter<M, double> filter;
    Turned<M> turned;
    auto& [top, A] = turned;
    bool weak[M], full = true;
    for (int i = 0; i < M; ++i) {
        for (int j = i; j <= M; ++j) filter.S[i][j] = *record++;
        const double r = filter.S[i][i] * filter.S[i][i], right = filter.S[i][M];
        const double least = WEAK * (right * right + 1.0);
        weak[i] = !(r * (x[i] * x[i] + C[i][i]) > least) && !(r * reach<M>(gap, sf, x, C, i) > least);
        full = full && !weak[i];
    }
    double R[M][M], U[M][M], d[M];
    for (int i = 0; i < M; ++i) {
        d[i] = filter.S[i][M];
        for (int j = 0; j < M; ++j) {
            R[i][j] = filter.S[i][j];
            A[i + 1][2 * M + 1 + j] = i == j ? 1.0 : 0.0;
        }
    }
    if (full) invert<M>(filter.S, U);
    filter.template move<M>(gap, sf, A, [&](int j, double, const double* row) MERCER_LAMBDA {
        std::copy(row, row + 3 * M + 1, top[j]);
    });
    if (!full) return mixed_back<M>(turned, gap, sf, R, d, weak, G, N, b);
    for (int i = 0; i < M; ++i) {
        b[i] = 0.0;
        for (int j = 0; j < M; ++j) G[i][j] = N[i][j] = 0.0;
        for (int k = i; k < M; ++k) {
            double rest = d[k];
            for (int l = 0; l < M; ++l) {
                const double q22 = A[l + 1][2 * M + 1 + k];  // columns hold Q', transposed
                rest -= q22 * A[l + 1][2 * M];
                N[i][l] += U[i][k] * top[l][2 * M + 1 + k];
                for (int j = 0; j < M; ++j) G[i][j] += U[i][k] * q22 * A[l + 1][M + j];
            }
            b[i] += U[i][k] * rest;
        }
    }
}

// What the observations after knot t pull, sum_{i>t} a_i (x_i - x_t)^k / k!, k < M: R'(R s_t - d_), since
// s_t is where this balances what those before say.
template <int M>
MERCER_INLINE void pull(const double* record, const double* x, double* out) {
    double R[M][M], rest[M];
    for (int i = 0; i < M; ++i) {
        rest[i] = 0.0;
        for (int j = i; j < M; ++j) R[i][j] = *record++, rest[i] += R[i][j] * x[j];
        rest[i] -= *record++;
    }
    for (int j = 0; j < M; ++j) {
        out[j] = 0.0;
        for (int i = 0; i <= j; ++i) out[j] += R[i][j] * rest[i];
    }
}

// mean_t = G mean_{t+1} + b,  C_t = N N' + G C_{t+1} G': sums of positive semidefinite terms only.
// `pulls` (n, M), if wanted, is what comes after each knot pulls.
template <int M>
MERCER_INLINE void backward(size_t n, const double* gaps, const double* L1, double sf,
                            const Filter<M, double>& filter, double* mean, double* cov, double* root_,
                            double* back, double* pulls, Patience& patience) {
    double C[M][M], x[M], U[M][M];  // U = R^-1, so that C_n = U U'
    invert<M>(filter.S, U);
    for (int i = 0; i < M; ++i) {
        x[i] = 0.0;
        for (int k = i; k < M; ++k) x[i] += U[i][k] * filter.S[k][M];
        for (int j = 0; j < M; ++j) {
            root_[i * M + j] = U[i][j], C[i][j] = 0.0;
            for (int k = std::max(i, j); k < M; ++k) C[i][j] += U[i][k] * U[j][k];
        }
    }
    for (size_t t = n; t-- > 0;) {
        if (t % SPELL == 0 && patience.over()) return;
        if (t + 1 < n) {
            double* record = back + t * room(M);
            double N[M][M], G[M][M], GC[M][M], next[M];
            gap_back<M>(record, Gap<M>(gaps[t], L1), sf, x, C, G, N, next);
            for (int i = 0; i < M; ++i)
                for (int j = 0; j < M; ++j) next[i] += G[i][j] * x[j];
            for (int i = 0; i < M; ++i)
                for (int j = 0; j < M; ++j) {
                    GC[i][j] = 0.0;
                    for (int k = 0; k < M; ++k) GC[i][j] += G[i][k] * C[k][j];
                }
            for (int i = 0; i < M; ++i)
                for (int j = 0; j <= i; ++j) {
                    double sum = 0.0;
                    for (int k = 0; k < M; ++k) sum += N[i][k] * N[j][k] + GC[i][k] * G[j][k];
                    C[i][j] = C[j][i] = sum;
                }
            if (pulls) pull<M>(record, next, pulls + t * M);
            for (int i = 0; i < M; ++i) {
                x[i] = next[i];
                for (int j = 0; j < M; ++j)
                    record[i * M + j] = G[i][j], record[M * M + i * M + j] = N[i][j];
            }
        }
        double* c = cov + t * pairs(M);
        if (pulls && t + 1 == n) std::fill(pulls + t * M, pulls + n * M, 0.0);
        for (int i = 0; i < M; ++i) {
            mean[t * M + i] = x[i];
            for (int j = 0; j <= i; ++j) *c++ = C[i][j];
        }
    }
}

// Overwrite standard normal numbers (n, M) by a joint draw of s_t - mean_t.
template <int M>
MERCER_INLINE void draw(size_t n, const double* root_, const double* back, double* z) {
    double x[M] = {}, next[M];
    for (size_t t = n; t-- > 0;) {
        const double* G = back + t * room(M);
        const bool last = t + 1 == n;
        const double* N = last ? root_ : G + M * M;
        for (int i = 0; i < M; ++i) {
            next[i] = 0.0;
            for (int j = 0; j < M; ++j)
                next[i] += N[i * M + j] * z[t * M + j] + (last ? 0.0 : G[i * M + j] * x[j]);
        }
        for (int i = 0; i < M; ++i) z[t * M + i] = x[i] = next[i];
    }
}

// K v for the covariance K of g at the points, over sf^2, if the state is zero gaps[0] before the first:
// s_t = A s_{t-1} + L L' z_t with z_t = A' z_{t+1} + e_0 v_t; room for z is (n, M).
template <int M>
MERCER_INLINE void multiply(size_t n, const double* gaps, const double* L1, const double* v, double* z,
                            double* product) {
    double x[M] = {}, next[M];
    for (size_t t = n; t-- > 0;) {
        x[0] += v[t];
        std::copy(x, x + M, z + t * M);
        const Gap<M> gap(gaps[t], L1);
        for (int j = 0; j < M; ++j) {
            next[j] = 0.0;
            for (int i = 0; i <= j; ++i) next[j] += ((j - i) % 2 ? -x[i] : x[i]) * gap.inverse[i][j];
        }
        std::copy(next, next + M, x);
    }
    std::fill(x, x + M, 0.0);
    for (size_t t = 0; t < n; ++t) {
        const Gap<M> gap(gaps[t], L1);
        double e[M];
        for (int j = 0; j < M; ++j) {
            e[j] = 0.0;
            for (int i = j; i < M; ++i) e[j] += gap.spread[i][j] * z[t * M + i];
        }
        for (int i = 0; i < M; ++i) {
            next[i] = 0.0;
            for (int j = i; j < M; ++j) next[i] += ((j - i) % 2 ? -x[j] : x[j]) * gap.inverse[i][j];
            for (int j = 0; j <= i; ++j) next[i] += gap.spread[i][j] * e[j];
        }
        std::copy(next, next + M, x);
        product[t] = x[0];
    }
}

struct Knots {
    size_t n;
    const double *x, *mean, *cov, *back;
    double unit, variance;  // a gap is (x_{j+1} - x_j) / unit; variance = sf^2
};

// The derivative of some order k at the queries: weights[j] are coefficients (2 M) of the polynomial
// in u that multiplies h^(j-k) s^(j) at the right end, by symmetry that of 1 - u and (-1)^(j+k) at the
// left end; bridge (width) those in min(u, 1 - u) of the variance given both ends, over sf^2
// h^(2M-1-2k); outside (2 M - 1): of the variance d^(2M-1-2k) away from the last point.
struct Rule {
    int order;
    const double *weights, *bridge;
    int width;
    double outside;
};

MERCER_INLINE double horner(const double* c, int width, double u) {
    double sum = 0.0;
    for (int i = width - 1; i >= 0; --i) sum = sum * u + c[i];
    return sum;
}

template <int M>
MERCER_INLINE double quadratic(const double* lower, const double* a) {
    double sum = 0.0;
    for (int i = 0; i < M; ++i)
        for (int j = 0; j <= i; ++j) sum += (i == j ? 1.0 : 2.0) * a[i] * a[j] * *lower++;
    return sum;
}

template <int M>
MERCER_INLINE double dot(const double* a, const double* b) {
    double sum = 0.0;
    for (int i = 0; i < M; ++i) sum += a[i] * b[i];
    return sum;
}

template <int M>
MERCER_INLINE void evaluate(const Knots& knots, const Rule& rule, size_t q, const double* at,
                            double* value, double* variance, Patience& patience) {
    const int order = rule.order;
    size_t j = 0;
    for (size_t r = 0; r < q; ++r) {
        if (r % SPELL == 0 && patience.over()) return;
        const double x = at[r];
        const bool near = j + 1 < knots.n && knots.x[j] <= x && x < knots.x[j + 1];
        const bool next = j + 2 < knots.n && knots.x[j + 1] <= x && x < knots.x[j + 2];
        if (next) ++j;  // sorted queries need no search
        else if (!near) {
            const double* above = std::upper_bound(knots.x, knots.x + knots.n, x);
            j = above == knots.x ? 0 : size_t(above - knots.x) - 1;
        }
        const double* s = knots.mean + j * M;
        const double a = (x - knots.x[j]) / knots.unit;
        double left[M], right[M];
        const bool knot = a == 0.0 && order < M, inside = j + 1 < knots.n && a >= 0.0;
        if (knot || !inside) {
            // outside, and at the last point for derivatives beyond the state: the polynomial
            double power = 1.0;
            for (int i = 0; i < M; ++i) {
                left[i] = i < order ? 0.0 : power;
                if (i >= order) power *= a / (i - order + 1);
            }
            if (!inside && a == 0.0 && order >= M && knots.n > 1) {  // seen from the left
                const double* before = s - M;
                const double h = (knots.x[j] - knots.x[j - 1]) / knots.unit;
                double sum = 0.0, scale = std::pow(h, -order);
                for (int i = 0; i < M; ++i, scale *= h) {
                    const double sign = (i + order) % 2 ? -1.0 : 1.0;
                    sum += scale * (horner(rule.weights + 2 * M * i, 2 * M, 1.0) * s[i] +
                                    sign * horner(rule.weights + 2 * M * i, 2 * M, 0.0) * before[i]);
                }
                value[r] = sum;
                continue;
            }
            value[r] = dot<M>(left, s);
            if (variance) {
                const double far = knot ? 0.0 : std::pow(std::fabs(a), 2 * (M - order) - 1);
                variance[r] = quadratic<M>(knots.cov + j * pairs(M), left) +
                              knots.variance * rule.outside * far;
            }
            continue;
        }
        const double h = (knots.x[j + 1] - knots.x[j]) / knots.unit;
        const double u = (x - knots.x[j]) / (knots.x[j + 1] - knots.x[j]);
        const double v = (knots.x[j + 1] - x) / (knots.x[j + 1] - knots.x[j]);
        double scale = order ? std::pow(h, -order) : 1.0;
        for (int i = 0; i < M; ++i, scale *= h) {
            const double* c = rule.weights + 2 * M * i;
            right[i] = scale * horner(c, 2 * M, u);
            left[i] = ((i + order) % 2 ? -scale : scale) * horner(c, 2 * M, v);
        }
        value[r] = dot<M>(left, s) + dot<M>(right, s + M);
        if (variance) {
            const double* G = knots.back + j * room(M);
            const double* N = G + M * M;
            double total = 0.0;
            for (int k = 0; k < M; ++k) {  // left' s_j = left' G s_{j+1} + left' N eta
                double noise = 0.0;
                for (int i = 0; i < M; ++i) {
                    noise += left[i] * N[i * M + k];
                    right[k] += left[i] * G[i * M + k];
                }
                total += noise * noise;
            }
            const double between = horner(rule.bridge, rule.width, std::min(u, v)) *
                                   std::pow(h, 2 * (M - order) - 1);
            variance[r] = total + quadratic<M>(knots.cov + (j + 1) * pairs(M), right) +
                          knots.variance * between;
        }
    }
}

}  // namespace mercer
