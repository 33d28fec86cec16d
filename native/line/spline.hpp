// Square-root information filter of an integrated Wiener process that starts exactly diffuse.
//
// The state s = (g, g', .., g^(M-1)) moves over a gap d by s_{t+1} = A s_t + L e, e ~ N(0, I), with
// A_ij = d^(j-i)/(j-i)! and L = sf D L1, D = diag(d^(M-1/2-i)). What the observations so far say is
// |R s - d_|^2, R upper triangular, R = 0 before the first: no large number stands for "unknown", and
// nothing is divided by a gap. Only orthogonal transformations act on R, each row at its own scale.
//
// T is double, Lanes (sixteen values of sf in one pass: the recursion waits for its own results, so
// that sixteen cost little more than one) or Dual of these (with the derivative by log sf^2).
#pragma once

#include <cmath>
#include <cstddef>
#include <type_traits>

#include "line/numbers.hpp"
#include "patience.hpp"

namespace mercer {

// ---------------------------------------------------------------------- one gap of the process
// inverse: A^-1; spread: D L1 (lower triangular), to be multiplied by sf.
template <int M>
struct Gap {
    double inverse[M][M], spread[M][M];
    MERCER_INLINE Gap(double d, const double* L1) {
        double power[M];
        power[0] = 1.0;
        for (int k = 1; k < M; ++k) power[k] = power[k - 1] * -d / k;
        double reach = std::sqrt(d);  // d^(M-1/2-i), from the last row up
        for (int i = M - 1; i >= 0; --i, reach *= d)
            for (int j = 0; j < M; ++j) {
                inverse[i][j] = j >= i ? power[j - i] : 0.0;
                spread[i][j] = j <= i ? reach * L1[i * M + j] : 0.0;
            }
    }
};

// ---------------------------------------------------------------------- the filter
// One step of QR: rows `first` to `last` of A lose column j to row `first`; the columns after it follow.
// With PIVOT the row that is largest in column j becomes the first, so that rows of very different
// size (a long gap, a tiny lam) each keep their own digits: Cox and Higham, Stability of Householder
// QR factorization for weighted least squares problems (1998). Returns the norm of the column.
template <bool PIVOT, int C, class T>
MERCER_INLINE T reflect(T (*A)[C], int first, int last, int j) {
    if constexpr (PIVOT)
        for (int i = first + 1; i <= last; ++i) {
            const bool swap = larger(A[i][j], A[first][j]);
            for (int k = j; k < C; ++k) {
                const T upper = A[first][k], lower = A[i][k];
                A[first][k] = choose(swap, lower, upper);
                A[i][k] = choose(swap, upper, lower);
            }
        }
    T square = A[first][j] * A[first][j];
    for (int i = first + 1; i <= last; ++i) square = square + A[i][j] * A[i][j];
    const T norm = root(square), length = signed_as(norm, A[first][j]);
    const T head = A[first][j] + length;
    const T step = T(1.0) / one_if_zero(length * head);  // no step where all are zero
    for (int k = j + 1; k < C; ++k) {
        T dot = head * A[first][k];
        for (int i = first + 1; i <= last; ++i) dot = dot + A[i][j] * A[i][k];
        dot = dot * step;
        A[first][k] = A[first][k] - dot * head;
        for (int i = first + 1; i <= last; ++i) A[i][k] = A[i][k] - dot * A[i][j];
    }
    A[first][j] = T(0.0) - length;
    for (int i = first + 1; i <= last; ++i) A[i][j] = 0.0;
    return norm;
}

template <int M, class T>
struct Filter {
    T S[M][M + 1];  // [R, d_] after an observation, R triangular; [., d_] after a gap
    T rss = 0.0;

    MERCER_INLINE Filter() {
        for (int i = 0; i < M; ++i)
            for (int j = 0; j <= M; ++j) S[i][j] = 0.0;
    }

    // A[i] (2 M + 1 or more columns) = [-R A^-1 L, R A^-1, d_], row i.
    template <int C>
    MERCER_INLINE void cross(const Gap<M>& gap, const T& sf, T (*A)[C]) const {
        for (int i = 0; i < M; ++i) {
            for (int j = 0; j <= M; ++j) {
                T sum = S[i][j];
                if (j < M)
                    for (int k = i; k < j; ++k) sum = sum + S[i][k] * T(gap.inverse[k][j]);
                A[i][M + j] = sum;
            }
            for (int j = 0; j < M; ++j) {
                T sum = 0.0;
                for (int k = i > j ? i : j; k < M; ++k)
                    sum = sum - A[i][M + k] * (sf * T(gap.spread[k][j]));
                A[i][j] = sum;
            }
        }
    }

    // QR of [I, 0, 0; -R A^-1 L, R A^-1, d_]. Column j is zero in all rows of I but row j, so that
    // M + 1 rows take part at a time. row(j, norm, values) is told row j of the first block row and
    // the norm |Re_jj|. The X columns beside are transformed as well: A[1 + i] has them in row i.
    template <int X, class Row>
    MERCER_INLINE void move(const Gap<M>& gap, const T& sf, T (*A)[2 * M + 1 + X], Row row) {
        constexpr int C = 2 * M + 1 + X;
        cross<C>(gap, sf, A + 1);
        for (int j = 0; j < M; ++j) {
            for (int k = 0; k < C; ++k) A[0][k] = k == j ? 1.0 : 0.0;
            const T norm = reflect<true, C>(A, 0, M, j);
            row(j, norm, A[0]);
        }
        for (int i = 0; i < M; ++i)
            for (int j = 0; j <= M; ++j) S[i][j] = A[i + 1][M + j];
    }

    // QR of [S, d_; c e_0', c y]: back to a triangle, and the residual of the observation.
    template <bool PIVOT>
    MERCER_INLINE void observe(double c, double y) {
        T A[M + 1][M + 1];
        for (int k = 0; k <= M; ++k) {
            A[M][k] = 0.0;
            for (int i = 0; i < M; ++i) A[i][k] = S[i][k];
        }
        A[M][0] = c, A[M][M] = c * y;
        for (int j = 0; j < M; ++j) reflect<PIVOT, M + 1>(A, j, M, j);
        for (int i = 0; i < M; ++i)
            for (int k = 0; k <= M; ++k) S[i][k] = A[i][k];
        rss = rss + A[M][M] * A[M][M];
    }
};

// ---------------------------------------------------------------------- many values of sf at once
// Entries of R A^-1 L, squared, above which rows differ so much that each value of sf is taken alone,
// with pivots: without them the relative error is about eps times the entries.
constexpr double WILD = 1e12;

template <int M, class T>
#if defined(__GNUC__)
__attribute__((noinline))
#endif
void careful(Filter<M, T>& filter, const Gap<M>& gap, const T& sf, double c, double y, T* norms) {
    T A[M + 1][2 * M + 1];
    filter.template move<0>(gap, sf, A, [&](int j, const T& norm, const T*) { norms[j] = norm; });
    filter.template observe<true>(c, y);
}

template <int M, class T>
struct Sweep {
    typedef typename Single<T>::type One;
    Filter<M, T> filter;
    Logs<T> logs;

    // The gap with the rows of I as pivots, which are known to be zero elsewhere, then the observation.
    MERCER_INLINE void step(const Gap<M>& gap, const T& sf, double c, double y) {
        T A[M][2 * M + 1], total = 0.0;
        filter.template cross<2 * M + 1>(gap, sf, A);
        for (int i = 0; i < M; ++i)
            for (int j = 0; j < M; ++j) total = total + A[i][j] * A[i][j];
        if (any_above(total, WILD)) {
            Sweep other = *this;  // a copy, so that this one can stay in registers
            other.apart(Gap<M>(gap), T(sf), c, y);
            *this = other;
            return;
        }
        for (int j = 0; j < M; ++j) {
            T square = 1.0;
            for (int i = 0; i < M; ++i) square = square + A[i][j] * A[i][j];
            const T norm = root(square), step = T(1.0) / (norm * (norm + T(1.0)));
            logs.add(norm);
            for (int k = j + 1; k <= 2 * M; ++k) {
                T dot = 0.0;
                for (int i = 0; i < M; ++i) dot = dot + A[i][j] * A[i][k];
                dot = dot * step;
                for (int i = 0; i < M; ++i) A[i][k] = A[i][k] - dot * A[i][j];
            }
        }
        for (int i = 0; i < M; ++i)
            for (int j = 0; j <= M; ++j) filter.S[i][j] = A[i][M + j];
        filter.template observe<false>(c, y);
    }

#if defined(__GNUC__)
    __attribute__((noinline))
#endif
    void apart(const Gap<M>& gap, const T& sf, double c, double y) {
        T norms[M];
        for (int lane = 0; lane < WIDTH; ++lane) {
            Filter<M, One> one;
            One own[M];
            for (int i = 0; i < M; ++i)
                for (int j = 0; j <= M; ++j) one.S[i][j] = get(filter.S[i][j], lane);
            one.rss = get(filter.rss, lane);
            careful<M, One>(one, gap, get(sf, lane), c, y, own);
            for (int i = 0; i < M; ++i) {
                put(norms[i], lane, own[i]);
                for (int j = 0; j <= M; ++j) put(filter.S[i][j], lane, one.S[i][j]);
            }
            put(filter.rss, lane, one.rss);
        }
        for (int j = 0; j < M; ++j) logs.add(norms[j]);
    }

    // All observations: gaps (n - 1), W (n) precisions, y (n).
    MERCER_INLINE void run(size_t n, const double* gaps, const double* W, const double* y,
                           const double* L1, const T& sf, Patience& patience) {
        filter.template observe<false>(std::sqrt(W[0]), y[0]);
        for (size_t from = 1; from < n && !patience.over(); from += SPELL) {
            const size_t end = n - from < SPELL ? n : from + SPELL;
            for (size_t t = from; t < end; ++t) {
                const Gap<M> gap(gaps[t - 1], L1);
                if constexpr (std::is_same_v<T, One>) {
                    T norms[M];
                    careful<M, T>(filter, gap, sf, std::sqrt(W[t]), y[t], norms);
                    for (int j = 0; j < M; ++j) logs.add(norms[j]);
                } else {
                    step(gap, sf, std::sqrt(W[t]), y[t]);
                }
            }
        }
    }
};

}  // namespace mercer
