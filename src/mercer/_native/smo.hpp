// The quadratic programme of support vector machines by second-order pairs.
//
//   maximise  p'b - sum_t eps_t |b_t| - 1/2 b'K b   subject to  low <= b <= high,
//             and, with a bias, a fixed sum of b within each segment
//
// b is signed (y_i lam_i for a classifier, a_i - a*_i for regression) and the slope F = p - K b is kept
// up to date in double precision while rows of K may be single. Selection after Fan, Chen & Lin (2005);
// methods-gp-relatives 6.2. Every pass over the variables is one SIMD loop over blocks that remembers
// the best of each block; only the best block is searched for the place.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "rows.hpp"

namespace mercer {

constexpr float FAR = std::numeric_limits<float>::infinity();
constexpr double TINY_CURVATURE = 1e-12;  // for eta <= 0: duplicates, constant kernels
constexpr std::size_t CHUNK = 256;

// Variables [begin, end) whose sum is fixed; variable t uses column t - begin + column of K's rows.
struct Segment {
    std::size_t begin, end, column;
};

// F -= a x + b y over one chunk; the largest F + up and the smallest F + down of the chunk.
template <class Real>
MERCER_INLINE void update_chunk(double a, const Real* x, double b, const Real* y, std::size_t len,
                                double* F, const float* up, const float* down, double* most,
                                double* least) {
    double top = -INFINITY, bottom = INFINITY;
#pragma omp simd reduction(max : top) reduction(min : bottom)
    for (std::size_t t = 0; t < len; ++t) {
        double f = F[t] - (a * double(x[t]) + b * double(y[t]));
        F[t] = f;
        double u = f + double(up[t]), d = f + double(down[t]);
        top = u > top ? u : top;
        bottom = d < bottom ? d : bottom;
    }
    *most = top;
    *least = bottom;
}

// The largest gain^2 / eta of one chunk, gain = best - F - down, eta = kii + K_tt - 2 K_it.
template <class Real>
MERCER_INLINE float score_chunk(double best, float kii, const Real* row, const float* diagonal,
                                const double* F, const float* down, std::size_t len, float* score) {
    float top = -1.0f;
#pragma omp simd reduction(max : top)
    for (std::size_t t = 0; t < len; ++t) {
        float gain = float(best - F[t]) - down[t];
        float eta = kii + diagonal[t] - 2.0f * float(row[t]);
        eta = eta > 1e-12f ? eta : 1e-12f;
        float s = gain > 0.0f ? gain * gain / eta : -1.0f;
        score[t] = s;
        top = s > top ? s : top;
    }
    return top;
}

// Without a bias: violation^2 / K_tt of each variable.
MERCER_INLINE float single_chunk(const float* diagonal, const double* F, const float* up,
                                 const float* down, std::size_t len, float* score, float* worst) {
    float top = -1.0f, most = 0.0f;
#pragma omp simd reduction(max : top) reduction(max : most)
    for (std::size_t t = 0; t < len; ++t) {
        float rise = float(F[t]) + up[t], fall = -(float(F[t]) + down[t]);
        float violation = rise > fall ? rise : fall;
        violation = violation > 0.0f ? violation : 0.0f;
        float k = diagonal[t] > 1e-12f ? diagonal[t] : 1e-12f;
        score[t] = violation * violation / k;
        top = score[t] > top ? score[t] : top;
        most = violation > most ? violation : most;
    }
    *worst = most;
    return top;
}

MERCER_CLONES void update_pass(double a, const float* x, double b, const float* y, std::size_t len,
                               double* F, const float* up, const float* down, double* most,
                               double* least) {
    for (std::size_t c = 0, k = 0; c < len; c += CHUNK, ++k)
        update_chunk(a, x + c, b, y + c, std::min(CHUNK, len - c), F + c, up + c, down + c, most + k,
                     least + k);
}
MERCER_CLONES void update_pass(double a, const double* x, double b, const double* y, std::size_t len,
                               double* F, const float* up, const float* down, double* most,
                               double* least) {
    for (std::size_t c = 0, k = 0; c < len; c += CHUNK, ++k)
        update_chunk(a, x + c, b, y + c, std::min(CHUNK, len - c), F + c, up + c, down + c, most + k,
                     least + k);
}
MERCER_CLONES void score_pass(double best, float kii, const float* row, const float* diagonal,
                              const double* F, const float* down, std::size_t len, float* score,
                              float* tops) {
    for (std::size_t c = 0, k = 0; c < len; c += CHUNK, ++k)
        tops[k] = score_chunk(best, kii, row + c, diagonal + c, F + c, down + c,
                              std::min(CHUNK, len - c), score + c);
}
MERCER_CLONES void score_pass(double best, float kii, const double* row, const float* diagonal,
                              const double* F, const float* down, std::size_t len, float* score,
                              float* tops) {
    for (std::size_t c = 0, k = 0; c < len; c += CHUNK, ++k)
        tops[k] = score_chunk(best, kii, row + c, diagonal + c, F + c, down + c,
                              std::min(CHUNK, len - c), score + c);
}
MERCER_CLONES void single_pass(const float* diagonal, const double* F, const float* up,
                               const float* down, std::size_t len, float* score, float* tops,
                               float* worst) {
    for (std::size_t c = 0, k = 0; c < len; c += CHUNK, ++k)
        tops[k] = single_chunk(diagonal + c, F + c, up + c, down + c, std::min(CHUNK, len - c),
                               score + c, worst + k);
}

template <class T>
std::size_t place_of_largest(const T* values, std::size_t len) {
    return std::size_t(std::max_element(values, values + len) - values);
}

// The programme in progress. Rows of K come from `row(t)`, which may fail with nullptr: then solve()
// returns and is called again when the row is there.
template <class Real>
struct Programme {
    std::vector<Segment> segments;
    std::size_t total = 0;
    double* F = nullptr;
    double* beta = nullptr;
    const double *low = nullptr, *high = nullptr, *eps = nullptr;
    const float* diagonal = nullptr;  // by variable
    std::vector<float> up, down, score, tops, worst;
    std::vector<double> most, least;
    std::size_t wanted = 0;     // the variable whose row is missing
    double violation = INFINITY;

    void prepare() {
        const std::size_t chunks = (total + CHUNK - 1) / CHUNK + segments.size();
        for (auto* v : {&up, &down, &score}) v->resize(total);
        tops.resize(chunks);
        worst.resize(chunks);
        most.resize(chunks);
        least.resize(chunks);
        for (std::size_t t = 0; t < total; ++t) refresh(t);
    }
    void refresh(std::size_t t) {
        up[t] = beta[t] < high[t] ? float(beta[t] >= 0.0 ? -eps[t] : eps[t]) : -FAR;
        down[t] = beta[t] > low[t] ? float(beta[t] > 0.0 ? -eps[t] : eps[t]) : FAR;
    }
    // Exact slopes where they decide a step; the float offsets above only select.
    double slope_up(std::size_t t) const { return F[t] + (beta[t] >= 0.0 ? -eps[t] : eps[t]); }
    double slope_down(std::size_t t) const { return F[t] + (beta[t] > 0.0 ? -eps[t] : eps[t]); }
    double room_up(std::size_t t) const {
        return (eps[t] > 0.0 && beta[t] < 0.0 ? std::min(0.0, high[t]) : high[t]) - beta[t];
    }
    double room_down(std::size_t t) const {
        return beta[t] - (eps[t] > 0.0 && beta[t] > 0.0 ? std::max(0.0, low[t]) : low[t]);
    }
    void snap(std::size_t t) {  // onto the bounds and the kink, exactly
        const double slack = 1e-14 * std::max(std::fabs(beta[t]), std::min(high[t] - low[t], 1e300));
        if (beta[t] >= high[t] - slack) beta[t] = high[t];
        if (beta[t] <= low[t] + slack) beta[t] = low[t];
        if (eps[t] > 0.0 && std::fabs(beta[t]) <= slack) beta[t] = 0.0;
        refresh(t);
    }
    // One pass over all variables: F -= a x + b y, and the extremes of every chunk.
    void pass(double a, const Real* x, double b, const Real* y) {
        std::size_t k = 0;
        for (const Segment& s : segments) {
            const std::size_t len = s.end - s.begin;
            update_pass(a, x + s.column, b, y + s.column, len, F + s.begin, up.data() + s.begin,
                        down.data() + s.begin, most.data() + k, least.data() + k);
            k += (len + CHUNK - 1) / CHUNK;
        }
    }

    // Up to `limit` steps; returns how many were made. wanted < total: a row is missing.
    template <class Row>
    long solve(Row row, bool bias, double tol, long limit, const Real* zeros) {
        long steps = 0;
        wanted = total;
        pass(0.0, zeros, 0.0, zeros);
        while (true) {
            if (bias ? !pair(row, tol, steps, limit) : !single(row, tol, steps, limit)) return steps;
        }
    }

    template <class Row>
    bool pair(Row& row, double tol, long& steps, long limit) {
        // the segment with the largest violation, and its best variable to raise
        const Segment* chosen = nullptr;
        std::size_t k = 0, first = 0;
        violation = 0.0;
        for (const Segment& s : segments) {
            const std::size_t chunks = (s.end - s.begin + CHUNK - 1) / CHUNK;
            const double top = *std::max_element(most.begin() + k, most.begin() + k + chunks);
            const double bottom = *std::min_element(least.begin() + k, least.begin() + k + chunks);
            if (top - bottom > violation) { violation = top - bottom; chosen = &s; first = k; }
            k += chunks;
        }
        if (chosen == nullptr || violation <= tol || steps >= limit) return false;
        const Segment& s = *chosen;
        const std::size_t len = s.end - s.begin, chunks = (len + CHUNK - 1) / CHUNK;
        std::size_t c = place_of_largest(most.data() + first, chunks);
        std::size_t i = s.begin + c * CHUNK;
        double best = -INFINITY;
        for (std::size_t t = i, stop = std::min(i + CHUNK, s.end); t < stop; ++t)
            if (F[t] + double(up[t]) > best) { best = F[t] + double(up[t]); i = t; }
        const Real* ri = row(i - s.begin + s.column);
        if (ri == nullptr) { wanted = i; return false; }
        score_pass(best, diagonal[i], ri + s.column, diagonal + s.begin, F + s.begin,
                   down.data() + s.begin, len, score.data() + s.begin, tops.data());
        c = place_of_largest(tops.data(), chunks);
        const std::size_t from = s.begin + c * CHUNK;
        const std::size_t j =
            from + place_of_largest(score.data() + from, std::min(CHUNK, s.end - from));
        if (score[j] <= 0.0f || j == i) return false;
        const Real* rj = row(j - s.begin + s.column);
        if (rj == nullptr) { wanted = j; return false; }
        const double kij = double(ri[j - s.begin + s.column]);
        const double eta =
            std::max(double(diagonal[i]) + double(diagonal[j]) - 2.0 * kij, TINY_CURVATURE);
        const double step = std::min(
            {(slope_up(i) - slope_down(j)) / eta, room_up(i), room_down(j)});
        if (!(step > 0.0)) return false;  // rounding: the violation cannot be lowered further
        const double old_i = beta[i], old_j = beta[j];
        beta[i] += step;
        beta[j] -= step;
        snap(i);
        snap(j);
        pass(beta[i] - old_i, ri, beta[j] - old_j, rj);
        ++steps;
        return true;
    }

    template <class Row>
    bool single(Row& row, double tol, long& steps, long limit) {
        const Segment& s = segments[0];
        const std::size_t len = s.end - s.begin, chunks = (len + CHUNK - 1) / CHUNK;
        single_pass(diagonal, F, up.data(), down.data(), len, score.data(), tops.data(), worst.data());
        violation = double(*std::max_element(worst.begin(), worst.begin() + chunks));
        if (violation <= tol || steps >= limit) return false;
        const std::size_t from = place_of_largest(tops.data(), chunks) * CHUNK;
        const std::size_t i =
            from + place_of_largest(score.data() + from, std::min(CHUNK, s.end - from));
        const Real* ri = row(i + s.column);
        if (ri == nullptr) { wanted = i; return false; }
        const double k = std::max(double(diagonal[i]), TINY_CURVATURE), old = beta[i];
        const double rise = beta[i] < high[i] ? slope_up(i) : -INFINITY;
        const double fall = beta[i] > low[i] ? -slope_down(i) : -INFINITY;
        if (rise >= fall) beta[i] += std::min(rise / k, room_up(i));
        else beta[i] -= std::min(fall / k, room_down(i));
        snap(i);
        if (beta[i] == old) return false;
        pass(beta[i] - old, ri, 0.0, ri);
        ++steps;
        return true;
    }
};

}  // namespace mercer
