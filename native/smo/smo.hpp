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
#include "threads.hpp"

namespace mercer {

constexpr float FAR = std::numeric_limits<float>::infinity();
constexpr double TINY_CURVATURE = 1e-12;  // for eta <= 0: duplicates, constant kernels
constexpr std::size_t CHUNK = 256;
constexpr std::size_t AHEAD = 1024;  // elements of a row that are asked for before they are needed

// Rows lie in memory that no cache holds: ask for the chunk that is AHEAD of this one, into the second
// level (locality 2), where more requests can be under way than in the first.
template <class Real>
MERCER_INLINE void ask_ahead(const Real* row) {
    constexpr std::size_t line = 64 / sizeof(Real);
    for (std::size_t k = 0; k < CHUNK; k += line) __builtin_prefetch(row + AHEAD + k, 0, 2);
}

// Variables [begin, end) whose sum is fixed; variable t uses column t - begin + column of K's rows.
struct Segment {
    std::size_t begin, end, column;
};

// A part of a segment for one thread: whole chunks, the first of which is number `chunk` of all. What
// a pass finds is found chunk by chunk, and does not depend on how the chunks are shared out.
struct Piece {
    std::size_t begin, end, column, chunk;
    std::size_t size() const { return end - begin; }
};

// The best score of a piece: the variable at which its chunk begins, and the largest gain.
struct Best {
    float top = 0.0f, widest = 0.0f;
    std::size_t chunk = 0;
};

// F -= a x + b y over one chunk; the largest F + up of the chunk and, if Both, the smallest F + down.
template <bool Both, class Real>
MERCER_INLINE void update_chunk(double a, const Real* x, double b, const Real* y, std::size_t len,
                                double* F, const float* up, const float* down, double* most,
                                double* least) {
    double top = -INFINITY, bottom = INFINITY;
#pragma omp simd reduction(max : top) reduction(min : bottom)
    for (std::size_t t = 0; t < len; ++t) {
        double f = F[t] - (a * double(x[t]) + b * double(y[t]));
        F[t] = f;
        double u = f + double(up[t]);
        top = u > top ? u : top;
        if (Both) {
            double d = f + double(down[t]);
            bottom = d < bottom ? d : bottom;
        }
    }
    *most = top;
    *least = bottom;
}

// The largest gain^2 / eta of one chunk, gain = best - F - down, eta = kii + K_tt - 2 K_it. Even: all
// K_tt are the first. Keep: store the scores too; the passes spare the memory. widest: the largest gain.
template <bool Even, bool Keep, class Real>
MERCER_INLINE float score_chunk(double best, float kii, const Real* row, const float* diagonal,
                                const double* F, const float* down, std::size_t len, float* score,
                                float* widest) {
    float top = -1.0f, wide = 0.0f;
    const float common = kii + diagonal[0];
#pragma omp simd reduction(max : top) reduction(max : wide)
    for (std::size_t t = 0; t < len; ++t) {
        float gain = float(best - F[t]) - down[t];
        float eta = (Even ? common : kii + diagonal[t]) - 2.0f * float(row[t]);
        eta = eta > 1e-12f ? eta : 1e-12f;
        float s = gain > 0.0f ? gain * gain / eta : -1.0f;
        if (Keep) score[t] = s;
        top = s > top ? s : top;
        wide = gain > wide ? gain : wide;
    }
    *widest = wide;
    return top;
}

// The first chunk with the best score, counted from the first variable, and the largest gain.
template <bool Even, class Real>
MERCER_INLINE Best best_chunk(double best, float kii, const Real* row, const float* diagonal,
                              const double* F, const float* down, std::size_t len) {
    Best found;
    float wide = 0.0f, score[CHUNK];
    for (std::size_t k = 0; k < len; k += CHUNK) {
        ask_ahead(row + k);
        const float s = score_chunk<Even, false>(best, kii, row + k, diagonal + k, F + k, down + k,
                                                 std::min(CHUNK, len - k), score, &wide);
        if (s > found.top) { found.top = s; found.chunk = k; }
        found.widest = std::max(found.widest, wide);
    }
    return found;
}

// The place of the best score in one chunk.
template <bool Even, class Real>
MERCER_INLINE std::size_t best_place(double best, float kii, const Real* row, const float* diagonal,
                                     const double* F, const float* down, std::size_t len) {
    float wide, score[CHUNK];
    const float top =
        score_chunk<Even, true>(best, kii, row, diagonal, F, down, len, score, &wide);
    std::size_t t = 0;
    while (t + 1 < len && score[t] != top) ++t;
    return t;
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

template <bool Both, class Real>
MERCER_INLINE void update_all(double a, const Real* x, double b, const Real* y, std::size_t len,
                              double* F, const float* up, const float* down, double* most,
                              double* least) {
    for (std::size_t c = 0, k = 0; c < len; c += CHUNK, ++k) {
        ask_ahead(y + c);
        update_chunk<Both>(a, x + c, b, y + c, std::min(CHUNK, len - c), F + c, up + c, down + c,
                           most + k, least + k);
    }
}
MERCER_CLONES void update_pass(bool both, double a, const float* x, double b, const float* y,
                               std::size_t len, double* F, const float* up, const float* down,
                               double* most, double* least) {
    if (both) update_all<true>(a, x, b, y, len, F, up, down, most, least);
    else update_all<false>(a, x, b, y, len, F, up, down, most, least);
}
MERCER_CLONES void update_pass(bool both, double a, const double* x, double b, const double* y,
                               std::size_t len, double* F, const float* up, const float* down,
                               double* most, double* least) {
    if (both) update_all<true>(a, x, b, y, len, F, up, down, most, least);
    else update_all<false>(a, x, b, y, len, F, up, down, most, least);
}
MERCER_CLONES Best score_pass(bool even, double best, float kii, const float* row,
                               const float* diagonal, const double* F, const float* down,
                               std::size_t len) {
    return even ? best_chunk<true>(best, kii, row, diagonal, F, down, len)
                : best_chunk<false>(best, kii, row, diagonal, F, down, len);
}
MERCER_CLONES Best score_pass(bool even, double best, float kii, const double* row,
                               const float* diagonal, const double* F, const float* down,
                               std::size_t len) {
    return even ? best_chunk<true>(best, kii, row, diagonal, F, down, len)
                : best_chunk<false>(best, kii, row, diagonal, F, down, len);
}
MERCER_CLONES std::size_t score_place(bool even, double best, float kii, const float* row,
                               const float* diagonal, const double* F, const float* down,
                               std::size_t len) {
    return even ? best_place<true>(best, kii, row, diagonal, F, down, len)
                : best_place<false>(best, kii, row, diagonal, F, down, len);
}
MERCER_CLONES std::size_t score_place(bool even, double best, float kii, const double* row,
                               const float* diagonal, const double* F, const float* down,
                               std::size_t len) {
    return even ? best_place<true>(best, kii, row, diagonal, F, down, len)
                : best_place<false>(best, kii, row, diagonal, F, down, len);
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
    Pool& pool;
    std::vector<Segment> segments;
    std::vector<Piece> pieces;
    std::vector<std::size_t> first_piece;  // of each segment, and their number
    std::vector<Best> scores;              // by piece
    std::size_t total = 0;
    double* F = nullptr;
    double* beta = nullptr;
    const double *low = nullptr, *high = nullptr, *eps = nullptr;
    const float* diagonal = nullptr;  // by variable
    std::vector<float> up, down, score, tops, worst;
    std::vector<double> most, least;
    std::size_t wanted = 0;     // the variable whose row is missing
    double violation = INFINITY;
    bool even = false;          // whether the diagonal of K is constant
    double gained = 0.0;        // by how much the steps raised the objective

    explicit Programme(Pool& pool) : pool(pool) {}

    void prepare() {
        const std::size_t share = (total + pool.threads() - 1) / pool.threads();
        const std::size_t size = (share + CHUNK - 1) / CHUNK * CHUNK;
        std::size_t chunk = 0;
        for (const Segment& s : segments) {
            first_piece.push_back(pieces.size());
            for (std::size_t t = s.begin; t < s.end; t += size) {
                const Piece piece{t, std::min(s.end, t + size), s.column + t - s.begin, chunk};
                chunk += (piece.size() + CHUNK - 1) / CHUNK;
                pieces.push_back(piece);
            }
        }
        first_piece.push_back(pieces.size());
        scores.resize(pieces.size());
        const std::size_t chunks = (total + CHUNK - 1) / CHUNK + segments.size();
        for (auto* v : {&up, &down, &score}) v->resize(total);
        tops.resize(chunks);
        worst.resize(chunks);
        most.resize(chunks);
        least.resize(chunks);
        for (std::size_t t = 0; t < total; ++t) refresh(t);
        even = std::all_of(diagonal, diagonal + total, [&](float k) { return k == diagonal[0]; });
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
    // One pass over all variables: F -= a x + b y, and the extremes of every chunk; the lower ones
    // only where segments are compared.
    void pass(double a, const Real* x, double b, const Real* y) {
        pool.run(pieces.size(), [&](std::size_t k) {
            const Piece& p = pieces[k];
            update_pass(segments.size() > 1, a, x + p.column, b, y + p.column, p.size(), F + p.begin,
                        up.data() + p.begin, down.data() + p.begin, most.data() + p.chunk,
                        least.data() + p.chunk);
        });
    }

    // The partner of i in segment g with the best score, s.end if none has one; the largest gain.
    std::size_t partner(std::size_t g, std::size_t i, double best, const Real* row, float* widest) {
        const std::size_t from = first_piece[g], to = first_piece[g + 1];
        pool.run(to - from, [&](std::size_t k) {
            const Piece& p = pieces[from + k];
            scores[from + k] = score_pass(even, best, diagonal[i], row + p.column,
                                          diagonal + p.begin, F + p.begin, down.data() + p.begin,
                                          p.size());
        });
        float top = 0.0f;
        std::size_t t = segments[g].end;
        *widest = 0.0f;
        for (std::size_t k = from; k < to; ++k) {
            if (scores[k].top > top) { top = scores[k].top; t = pieces[k].begin + scores[k].chunk; }
            *widest = std::max(*widest, scores[k].widest);
        }
        const Segment& s = segments[g];
        if (t == s.end) return t;
        return t + score_place(even, best, diagonal[i], row + s.column + t - s.begin, diagonal + t,
                               F + t, down.data() + t, std::min(CHUNK, s.end - t));
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
        // the segment with the largest violation, and its best variable to raise; the violation of
        // a single segment is the largest gain of the scores below
        const bool alone = segments.size() == 1;
        const Segment* chosen = alone ? &segments[0] : nullptr;
        std::size_t k = 0, first = 0;
        violation = 0.0;
        for (const Segment& s : segments) {
            if (alone) break;
            const std::size_t chunks = (s.end - s.begin + CHUNK - 1) / CHUNK;
            const double top = *std::max_element(most.begin() + k, most.begin() + k + chunks);
            const double bottom = *std::min_element(least.begin() + k, least.begin() + k + chunks);
            if (top - bottom > violation) { violation = top - bottom; chosen = &s; first = k; }
            k += chunks;
        }
        if (chosen == nullptr || (!alone && (violation <= tol || steps >= limit))) return false;
        const Segment& s = *chosen;
        const std::size_t len = s.end - s.begin, chunks = (len + CHUNK - 1) / CHUNK;
        const std::size_t c = place_of_largest(most.data() + first, chunks);
        const double best = most[first + c];
        if (best == -INFINITY) return false;  // nothing can rise
        std::size_t i = s.begin + c * CHUNK;
        for (const std::size_t stop = std::min(i + CHUNK, s.end) - 1;
             i < stop && F[i] + double(up[i]) != best;)
            ++i;
        const Real* ri = row(i - s.begin + s.column);
        if (ri == nullptr) { wanted = i; return false; }
        float widest;
        const std::size_t j = partner(std::size_t(chosen - segments.data()), i, best, ri, &widest);
        if (alone) violation = double(widest);
        if (violation <= tol || steps >= limit) return false;
        if (j >= s.end || j == i) return false;
        const Real* rj = row(j - s.begin + s.column);
        if (rj == nullptr) { wanted = j; return false; }
        const double kij = double(ri[j - s.begin + s.column]);
        const double curvature = double(diagonal[i]) + double(diagonal[j]) - 2.0 * kij;
        const double slope = slope_up(i) - slope_down(j);
        const double step =
            std::min({slope / std::max(curvature, TINY_CURVATURE), room_up(i), room_down(j)});
        if (!(step > 0.0)) return false;  // rounding: the violation cannot be lowered further
        gained += step * (slope - 0.5 * step * curvature);
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
        pool.run(pieces.size(), [&](std::size_t k) {
            const Piece& p = pieces[k];
            single_pass(diagonal + p.begin, F + p.begin, up.data() + p.begin, down.data() + p.begin,
                        p.size(), score.data() + p.begin, tops.data() + p.chunk,
                        worst.data() + p.chunk);
        });
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
        const double step = std::fabs(beta[i] - old);
        gained += step * (std::max(rise, fall) - 0.5 * step * double(diagonal[i]));
        pass(beta[i] - old, ri, 0.0, ri);
        ++steps;
        return true;
    }
};

}  // namespace mercer
