// What all other observations say of each: exact where 1 - leverage would be lost in rounding.
#pragma once

#include <vector>

#include "line/spline.hpp"

namespace mercer {

// mean, variance (n): of g at each point, given the observations at all others. What those before say,
// |R s - d_|^2 by the filter, and what those after say, by the filter run from the other end (where odd
// derivatives change their sign), are rows of one least squares problem: nothing is subtracted.
template <int M>
MERCER_INLINE void cavities(size_t n, const double* gaps, const double* W, const double* y,
                            const double* L1, double sf, double* mean, double* variance,
                            std::vector<double>& before, Patience& patience) {
    constexpr int ROOM = M * (M + 1);  // of each point in before
    double A[M + 1][2 * M + 1], both[2 * M][M + 1], u[M];
    const auto nothing = [](int, double, const double*) MERCER_LAMBDA {};
    Filter<M, double> filter;
    for (size_t t = 0; t < n; ++t) {
        if (t % SPELL == 0 && patience.over()) return;
        if (t) filter.template move<0>(Gap<M>(gaps[t - 1], L1), sf, A, nothing);
        double* record = before.data() + t * ROOM;
        for (int i = 0; i < M; ++i)
            for (int j = 0; j <= M; ++j) *record++ = filter.S[i][j];
        filter.template observe<true>(std::sqrt(W[t]), y[t]);
    }
    filter = Filter<M, double>();
    for (size_t t = n; t-- > 0;) {
        if (t % SPELL == 0 && patience.over()) return;
        if (t + 1 < n) filter.template move<0>(Gap<M>(gaps[t], L1), sf, A, nothing);
        const double* record = before.data() + t * ROOM;
        for (int i = 0; i < M; ++i)
            for (int j = 0; j <= M; ++j) {
                both[i][j] = *record++;
                both[M + i][j] = j < M && j % 2 ? -filter.S[i][j] : filter.S[i][j];
            }
        for (int j = 0; j < M; ++j) reflect<true, M + 1>(both, j, 2 * M - 1, j);
        mean[t] = variance[t] = 0.0;
        for (int j = 0; j < M; ++j) {  // R'u = e_0: the variance is |u|^2, the mean u'd
            u[j] = j ? 0.0 : 1.0;
            for (int k = 0; k < j; ++k) u[j] -= both[k][j] * u[k];
            u[j] /= both[j][j];
            mean[t] += u[j] * both[j][M];
            variance[t] += u[j] * u[j];
        }
        filter.template observe<true>(std::sqrt(W[t]), y[t]);
    }
}

}  // namespace mercer
