// Candidates of unit length under Gaussian noise: their inner products, each formed once, and the
// posterior of the weights of some of them.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>

#include "relevance/settle.hpp"

namespace mercer {

using Names = std::vector<std::int64_t>;
const double LOG_2PI = std::log(2.0 * std::acos(-1.0));

// x (m) plus the sum over r < p of c[r] times the row at(r) of m numbers.
template <class At>
MERCER_INLINE void add_rows(double* x, size_t m, size_t p, const double* c, At at) {
    size_t r = 0;
    for (; r + 4 <= p; r += 4) {
        const double *v0 = at(r), *v1 = at(r + 1), *v2 = at(r + 2), *v3 = at(r + 3);
        const double c0 = c[r], c1 = c[r + 1], c2 = c[r + 2], c3 = c[r + 3];
#pragma omp simd
        for (size_t j = 0; j < m; ++j)
            x[j] += (c0 * v0[j] + c1 * v1[j]) + (c2 * v2[j] + c3 * v3[j]);
    }
    for (; r < p; ++r) {
        const double *v = at(r), one = c[r];
#pragma omp simd
        for (size_t j = 0; j < m; ++j) x[j] += one * v[j];
    }
}

// The rows of a matrix one after the other.
MERCER_CLONES inline void add_block(double* x, const double* V, size_t m, size_t p, const double* c) {
    add_rows(x, m, p, c, [=](size_t r) { return V + r * m; });
}

MERCER_CLONES inline void add_some(double* x, const double* const* rows, size_t m, size_t p,
                                   const double* c) {
    add_rows(x, m, p, c, [=](size_t r) { return rows[r]; });
}

// sums (m) plus b_i A_ij^2 over the rows i of A (n, m).
MERCER_CLONES inline void add_squares(const double* A, size_t n, size_t m, const double* b, double* sums) {
    size_t i = 0;
    for (; i + 2 <= n; i += 2) {
        const double *x = A + i * m, *y = x + m, c = b[i], d = b[i + 1];
#pragma omp simd
        for (size_t j = 0; j < m; ++j) sums[j] += c * x[j] * x[j] + d * y[j] * y[j];
    }
    for (; i < n; ++i)
        for (size_t j = 0; j < m; ++j) sums[j] += b[i] * A[i * m + j] * A[i * m + j];
}

// dots[j] = the inner product of row j of A (m, r) with g (r), times scale[j].
MERCER_CLONES inline void times(const double* A, size_t m, size_t r, const double* g,
                                const double* scale, double* dots) {
    for (size_t j = 0; j < m; ++j) dots[j] = scale[j] * dot(A + j * r, g, r);
}

// Take in candidate i, of precision alpha; scale times ``products`` (m) are phi_i'B phi_m: row p of V,
// and S and Q (m), follow as Scan says.
inline void take(const double* products, double scale, double* V, size_t m, size_t p, size_t i,
                 double alpha, double* s, double* q) {
    double* row = V + p * m;
    Values known(p);
    for (size_t j = 0; j < m; ++j) row[j] = scale * products[j];
    for (size_t r = 0; r < p; ++r) known[r] = -V[r * m + i];
    add_block(row, V, m, p, known.data());
    const double root = 1.0 / std::sqrt(alpha + s[i]), pull = q[i] * root;
    for (size_t j = 0; j < m; ++j) {
        row[j] *= root;
        s[j] -= row[j] * row[j];
        q[j] -= pull * row[j];
    }
}

// The candidate of the largest Q^2 / S, closed where S does not exceed ``least``; -1 if there is none.
inline std::pair<long, double> largest(const double* S, const double* Q, const double* least, size_t m) {
    double top = 0.0;
    long who = -1;
    for (size_t j = 0; j < m; ++j)
        if (S[j] > least[j] && Q[j] * Q[j] > top * S[j]) {
            top = Q[j] * Q[j] / S[j];
            who = static_cast<long>(j);
        }
    return {who, top};
}

// Candidates to take in together: again the one that gains most, seen after those before it, while it
// gains ``tol`` and ``part`` of what the first does, and not more than ``limit``. s and q (m) are as seen
// from a state, and change; s must exceed ``closed`` (m), which is closed for those that are taken; V
// (p.., m) has room for them. The products of candidate i are scale times products(i).
struct Additions {
    std::vector<long> chosen;
    Values alphas;
    double first = 0.0;  // what the first gains
};

template <class Products>
Additions chosen_of(Products products, double scale, Values& s, Values& q, Values& closed, double* V,
                    size_t p, double tol, double part, size_t limit, double floor) {
    Additions found;
    const size_t m = s.size();
    while (found.chosen.size() < limit) {
        const auto [i, ratio] = largest(s.data(), q.data(), closed.data(), m);
        const double gain = ratio > 1.0 ? 0.5 * (ratio - 1.0 - std::log(ratio)) : 0.0;
        if (i < 0 || !(gain >= std::max(tol, part * found.first))) break;
        if (found.chosen.empty()) found.first = gain;
        found.chosen.push_back(i);
        found.alphas.push_back(std::max(best_precision(s[i], q[i]), floor));
        if (found.chosen.size() == limit) break;  // what is left need not be known
        take(products(i), scale, V, m, p++, size_t(i), found.alphas.back(), s.data(), q.data());
        closed[i] = INF;
    }
    return found;
}

// Candidate ``comes``, of precision ``alpha``, in the place ``goes`` of the model.
struct Exchange {
    size_t goes, comes;
    double alpha, gain;
};

// The exchanges that gain ``tol``, the best first: for each of M functions in the model the candidate
// that would gain most in its place. T (m, M) is Sigma F B phi_m, v and mu (M) variances and means of
// the weights, alpha (M) their precisions, S and Q (m) those of the candidates, least (m) below which S
// is rounding; a candidate with least < 0 is closed. Precisions are at least ``floor``.
inline std::vector<Exchange> exchanges_of(const double* T, size_t m, size_t M, const double* v,
                                          const double* mu, const double* alpha, const double* S,
                                          const double* Q, const double* least, double tol,
                                          double floor) {
    Values inverse(M), pull(M), top(M, 0.0), who(M, 0.0), gains(M);
    for (size_t j = 0; j < M; ++j) {
        inverse[j] = 1.0 / v[j];
        pull[j] = mu[j] * inverse[j];
    }
    for (size_t i = 0; i < m; ++i) {
        const double bar = least[i], S0 = S[i], Q0 = Q[i];
        if (bar < 0.0) continue;
        const double *t = T + i * M, name = static_cast<double>(i);
#pragma omp simd
        for (size_t j = 0; j < M; ++j) {
            const double s = S0 + t[j] * t[j] * inverse[j], q = Q0 + t[j] * pull[j];
            const double r = s > bar ? q * q / s : 0.0;
            who[j] = r > top[j] ? name : who[j];
            top[j] = r > top[j] ? r : top[j];
        }
    }
    std::vector<Exchange> found;
    for (size_t j = 0; j < M; ++j) {
        const double own = alpha[j];
        gains[j] = 0.5 * (top[j] - 1.0 - std::log(top[j])) - share(own, inverse[j] - own, pull[j]);
        if (!(top[j] > 1.0 && gains[j] >= tol)) continue;
        const size_t i = size_t(who[j]);
        const double t = T[i * M + j], q = Q[i] + t * pull[j], s = S[i] + t * t * inverse[j];
        found.push_back({j, i, std::max(best_precision(s, q), floor), gains[j]});
    }
    std::stable_sort(found.begin(), found.end(),
                     [](const Exchange& a, const Exchange& b) { return a.gain > b.gain; });
    return found;
}

// L L' = beta gram + diag(precisions) in place of gram, and mu = (L L')^-1 beta right in place of
// right. False: a pivot has less than ``least`` of its diagonal left, and nothing is to be used.
inline bool posterior_of(Square& L, Values& right, const double* precisions, double beta, double least) {
    const size_t p = right.size();
    Values whole(p);
    for (size_t j = 0; j < p; ++j) {
        double* column = L.column(j);
        for (size_t i = 0; i < p; ++i) column[i] *= beta;
        whole[j] = column[j] += precisions[j];
        right[j] *= beta;
    }
    if (!cholesky(L)) return false;
    for (size_t j = 0; j < p; ++j)
        if (!(L.column(j)[j] * L.column(j)[j] > least * whole[j])) return false;
    forward(L, right);
    backward(L, right);
    return true;
}

// Products are formed singly until so many were, or a model has more functions: then all are.
constexpr size_t SINGLY = 64, MODEL = 24;

struct Candidates {
    size_t n, m, k;
    // (n, m) the columns as they are; or, with ``inner`` (r, r) = L'WL, L (n, r) of the columns L L'
    const double *Phi, *inner = nullptr;
    size_t r = 0;
    const double *inverse, *weights, *t;               // (m), (n), (n)
    const double *flat, *flat_products, *targets;      // (k, n), (k, m), (m) phi'W t
    std::function<const double*()> every;              // forms all products (m, m), or is empty
    const double* all = nullptr;
    std::vector<std::unique_ptr<double[]>> rows, columns;
    size_t formed = 0;
    Values flat_gram, flat_right;
    double total = 0.0, spread = 0.0;
    Room room;

    void begin() {
        rows.resize(m);
        columns.resize(m);
        flat_gram.assign(k * k, 0.0);
        flat_right.assign(k, 0.0);
        for (size_t i = 0; i < n; ++i) {
            total += weights[i];
            for (size_t a = 0; a < k; ++a) {
                const double c = weights[i] * flat[a * n + i];
                flat_right[a] += c * t[i];
                for (size_t b = 0; b < k; ++b) flat_gram[a * k + b] += c * flat[b * n + i];
            }
        }
    }

    // The candidate i, of unit length (n).
    const double* column(size_t i) {
        if (!columns[i]) {
            columns[i].reset(new double[n]);
            double* to = columns[i].get();
            if (inner) {
                const Values same(n, inverse[i]);
                times(Phi, n, r, Phi + i * r, same.data(), to);
            } else
                for (size_t j = 0; j < n; ++j) to[j] = Phi[j * m + i] * inverse[i];
        }
        return columns[i].get();
    }

    void fill() {
        if (!all && every) all = every();
    }

    // phi_i'W phi_m for every candidate m.
    const double* product(size_t i) {
        if (!all && !rows[i] && formed == SINGLY) fill();
        if (all) return all + i * m;
        if (!rows[i]) {
            rows[i].reset(new double[m]);
            double* to = rows[i].get();
            if (inner) {
                Values g(r);
                for (size_t a = 0; a < r; ++a) g[a] = inverse[i] * dot(inner + a * r, Phi + i * r, r);
                times(Phi, m, r, g.data(), inverse, to);
            } else {
                const double* mine = column(i);
                Values c(n);
                for (size_t j = 0; j < n; ++j) c[j] = weights[j] * mine[j];
                std::fill(to, to + m, 0.0);
                add_block(to, Phi, m, n, c.data());
                for (size_t j = 0; j < m; ++j) to[j] *= inverse[j];
            }
            ++formed;
        }
        return rows[i].get();
    }

    // F W F' (p, p), symmetric, and F W t (p): the flat functions first, then ``active`` (M).
    void inner_products(const std::int64_t* active, size_t M, Square& gram, Values& right) {
        if (M > MODEL) fill();
        for (size_t a = 0; a < k; ++a) {
            right[a] = flat_right[a];
            for (size_t b = 0; b < k; ++b) gram.column(a)[b] = flat_gram[a * k + b];
            for (size_t j = 0; j < M; ++j)
                gram.column(a)[k + j] = gram.column(k + j)[a] = flat_products[a * m + active[j]];
        }
        for (size_t j = 0; j < M; ++j) {
            const double* row = product(active[j]);
            right[k + j] = targets[active[j]];
            for (size_t i = 0; i < M; ++i) gram.column(k + j)[k + i] = row[active[i]];
        }
    }

    // rest (n) = t - F'mu, and the weighted sum of its squares.
    double residuals(const std::int64_t* active, size_t M, const double* mu, double* rest) {
        std::vector<const double*> from(k + M);
        Values minus(k + M);
        for (size_t a = 0; a < k + M; ++a) {
            from[a] = a < k ? flat + a * n : column(active[a - k]);
            minus[a] = -mu[a];
        }
        std::copy(t, t + n, rest);
        add_some(rest, from.data(), n, k + M, minus.data());
        double sum = 0.0;
        for (size_t i = 0; i < n; ++i) sum += weights[i] * rest[i] * rest[i];
        return sum;
    }

    // Posterior of the weights of functions ``active`` with precisions ``prior`` (M) and noise precision
    // beta: the triangle of R'R, written to R (p, p) as its transpose, their means mu (p), what is left
    // of the targets (n), beta times the squares of that, and the log evidence. False where a pivot has
    // less than ``least`` of its diagonal left, and nothing is to be used.
    bool posterior(const std::int64_t* active, size_t M, const double* prior, double beta, double least,
                   double* R, double* mu, double* rest, double& misfit, double& evidence) {
        const size_t p = k + M;
        Square L(room, p);
        Values v(p), precisions(p, 0.0);
        std::copy(prior, prior + M, precisions.begin() + k);
        inner_products(active, M, L, v);
        if (!posterior_of(L, v, precisions.data(), beta, least)) return false;
        std::copy(v.begin(), v.end(), mu);
        double logs = total * (std::log(beta) - LOG_2PI) + double(k) * LOG_2PI;
        for (size_t i = 0; i < p; ++i) {
            for (size_t j = 0; j < p; ++j) R[i * p + j] = j <= i ? L.column(j)[i] : 0.0;
            logs -= 2.0 * std::log(L.column(i)[i]) + precisions[i] * v[i] * v[i];
            if (i >= k) logs += std::log(precisions[i]);
        }
        misfit = beta * (residuals(active, M, mu, rest) + spread);
        evidence = 0.5 * (logs - misfit);
        return true;
    }

    // S, Q (m) and V (p, m) of the model with the triangle L (p, p), row-major, and weights mu (p).
    void outside(const std::int64_t* active, size_t M, const double* L, const double* mu, double beta,
                 double* V, double* S, double* Q) {
        const size_t p = k + M;
        std::fill(S, S + m, beta);
        for (size_t j = 0; j < m; ++j) Q[j] = beta * targets[j];
        Values c(p);
        for (size_t a = 0; a < p; ++a) {
            const double *from = a < k ? flat_products + a * m : product(active[a - k]);
            const double own = 1.0 / L[a * p + a], scale = beta * own;
            double *row = V + a * m, pull = 0.0;
            for (size_t j = 0; j < m; ++j) row[j] = scale * from[j];
            for (size_t b = 0; b < a; ++b) c[b] = -own * L[a * p + b];
            add_block(row, V, m, a, c.data());
            for (size_t b = a; b < p; ++b) pull += L[b * p + a] * mu[b];
#pragma omp simd
            for (size_t j = 0; j < m; ++j) {
                S[j] -= row[j] * row[j];
                Q[j] -= pull * row[j];
            }
        }
    }
};

}  // namespace mercer
