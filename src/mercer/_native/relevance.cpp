// Relevance search, the part whose size is the number of functions in the model: precisions and
// noise of a Gaussian model with given inner products settle, functions go out. And the best
// exchanges of a function inside for a candidate outside.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "rows.hpp"

namespace nb = nanobind;
using Matrix = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Vector = nb::ndarray<double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using ConstVector = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

namespace {

using std::size_t;
using Values = std::vector<double>;
constexpr double INF = HUGE_VAL;
constexpr double LONGEST = 3.0;  // of a step in log precision

MERCER_INLINE double dot(const double* a, const double* b, size_t n) {
    double sum = 0.0;
#pragma omp simd reduction(+ : sum)
    for (size_t i = 0; i < n; ++i) sum += a[i] * b[i];
    return sum;
}

// Products of a with four rows of B, each n long and ``stride`` apart: one sum alone would wait for
// itself at every step.
MERCER_INLINE void dots(const double* a, const double* B, size_t stride, size_t n, double* out) {
    const double *b0 = B, *b1 = B + stride, *b2 = B + 2 * stride, *b3 = B + 3 * stride;
    double s0 = 0.0, s1 = 0.0, s2 = 0.0, s3 = 0.0;
#pragma omp simd reduction(+ : s0, s1, s2, s3)
    for (size_t i = 0; i < n; ++i) {
        s0 += a[i] * b0[i];
        s1 += a[i] * b1[i];
        s2 += a[i] * b2[i];
        s3 += a[i] * b3[i];
    }
    out[0] = s0, out[1] = s1, out[2] = s2, out[3] = s3;
}

// Solve L x = c in place of c, in the rows and columns ``first`` to ``last`` of L (p, p), lower
// triangular: forward substitution, four rows at a time.
MERCER_INLINE void forward(const double* L, double* x, size_t p, size_t first, size_t last) {
    size_t r = first;
    double sums[4];
    for (; r + 4 <= last; r += 4) {
        dots(x + first, L + r * p + first, p, r - first, sums);
        for (size_t k = 0; k < 4; ++k) {
            const double* row = L + (r + k) * p;
            for (size_t j = r; j < r + k; ++j) sums[k] += row[j] * x[j];
            x[r + k] = (x[r + k] - sums[k]) / row[r + k];
        }
    }
    for (; r < last; ++r)
        x[r] = (x[r] - dot(L + r * p + first, x + first, r - first)) / L[r * p + r];
}

// A = L L' in place, row-major lower triangle; false if A is not positive definite.
MERCER_CLONES bool cholesky(double* A, size_t p) {
    for (size_t i = 0; i < p; ++i) {
        double* Ai = A + i * p;
        forward(A, Ai, p, 0, i);
        const double pivot = Ai[i] - dot(Ai, Ai, i);
        if (!(pivot > 0.0)) return false;
        Ai[i] = std::sqrt(pivot);
    }
    return true;
}

// X = L^-T by rows, each from its diagonal on; X begins with zeros.
MERCER_CLONES void invert(const double* L, double* X, size_t p) {
    for (size_t i = 0; i < p; ++i) {
        X[i * p + i] = 1.0;
        forward(L, X + i * p, p, i, p);
    }
}

// S = X X' for the X of invert: the covariance of the weights.
MERCER_CLONES void covariance(const double* X, double* S, size_t p) {
    double sums[4];
    for (size_t i = 0; i < p; ++i) {
        size_t j = 0;
        for (; j + 4 <= i + 1; j += 4) {
            dots(X + i * p + i, X + j * p + i, p, p - i, sums);
            for (size_t k = 0; k < 4; ++k) S[i * p + j + k] = S[(j + k) * p + i] = sums[k];
        }
        for (; j <= i; ++j)
            S[i * p + j] = S[j * p + i] = dot(X + i * p + i, X + j * p + i, p - i);
    }
}

// The data of the model: F W F' (p, p), F W t (p), t'W t, the sum of the weights; k flat functions.
struct Data {
    Values gram, right;
    double square, total;
    size_t k;
};

// One state: the posterior of the weights given precisions alpha (M) and noise precision beta.
struct State {
    Values alpha, mu, variances, X;  // X: rows of L^-T, from the diagonal on
    double beta = 1.0, evidence = -INF, fit = 0.0;
    bool valid = false;
};

State evaluate(const Data& data, Values alpha, double beta) {
    const size_t p = data.right.size(), k = data.k;
    State state;
    state.alpha = std::move(alpha);
    state.beta = beta;
    Values L(p * p);
    for (size_t i = 0; i < p * p; ++i) L[i] = beta * data.gram[i];
    double logs = 0.0;
    for (size_t j = k; j < p; ++j) {
        L[j * p + j] += state.alpha[j - k];
        logs += std::log(state.alpha[j - k]);
    }
    if (!cholesky(L.data(), p)) return state;
    Values v(p);
    for (size_t i = 0; i < p; ++i) {
        v[i] = (beta * data.right[i] - dot(&L[i * p], v.data(), i)) / L[i * p + i];
        logs -= 2.0 * std::log(L[i * p + i]);
    }
    state.X.assign(p * p, 0.0);
    state.mu.resize(p);
    state.variances.resize(p);
    invert(L.data(), state.X.data(), p);
    for (size_t i = 0; i < p; ++i) {
        const double* x = &state.X[i * p];
        state.mu[i] = dot(x + i, v.data() + i, p - i);
        state.variances[i] = dot(x + i, x + i, p - i);
    }
    state.fit = beta * data.square - dot(v.data(), v.data(), p);
    state.evidence = 0.5 * (data.total * std::log(beta) + logs - state.fit);
    state.valid = std::isfinite(state.evidence);
    return state;
}

double gamma_of(const Data& data, const State& s) {
    double sum = static_cast<double>(s.mu.size());
    for (size_t j = 0; j < s.alpha.size(); ++j) sum -= s.alpha[j] * s.variances[data.k + j];
    return sum;
}

// beta times the weighted sum of squares about the fit: fit less mu'A mu.
double misfit_of(const Data& data, const State& s) {
    double sum = s.fit;
    for (size_t j = 0; j < s.alpha.size(); ++j)
        sum -= s.alpha[j] * s.mu[data.k + j] * s.mu[data.k + j];
    return sum;
}

double share(double alpha, double s, double q) {
    return 0.5 * (std::log(alpha) - std::log(alpha + s) + q * q / (alpha + s));
}

// Best precision of each function given the others (infinity: out), and its gain.
void best_alone(const Data& data, const State& state, Values& fresh, Values& gain) {
    const size_t M = state.alpha.size();
    fresh.resize(M);
    gain.resize(M);
    for (size_t j = 0; j < M; ++j) {
        const double v = state.variances[data.k + j], alpha = state.alpha[j];
        const double s = std::max(1.0 / v - alpha, 1e-300), q = state.mu[data.k + j] / v;
        const double theta = q * q - s, old = share(alpha, s, q);
        fresh[j] = theta > 0.0 ? s * s / theta : INF;
        gain[j] = (theta > 0.0 ? share(fresh[j], s, q) : 0.0) - old;
    }
}

// Newton's step in the log precisions (and, last, the log noise precision): the Hessian is that of
// the log evidence, made negative definite by a growing ridge where it is not. Returns the promise.
double newton(const Data& data, const State& s, bool noise, Values& step) {
    const size_t M = s.alpha.size(), p = s.mu.size(), k = data.k, q = M + (noise ? 1 : 0);
    step.assign(q, 0.0);
    if (!q) return 0.0;
    Values Sigma(p * p), H(q * q), gradient(q), A(p, 0.0);
    for (size_t j = 0; j < M; ++j) A[k + j] = s.alpha[j];
    covariance(s.X.data(), Sigma.data(), p);
    for (size_t i = 0; i < M; ++i) {
        const double* row = &Sigma[(k + i) * p + k];
        const double mu = s.mu[k + i], a = s.alpha[i];
        for (size_t j = 0; j < M; ++j)
            H[i * q + j] = -0.5 * a * s.alpha[j] * row[j] * (row[j] + 2.0 * mu * s.mu[k + j]);
        const double own = a * (s.variances[k + i] + mu * mu);
        H[i * q + i] += 0.5 * own;
        gradient[i] = 0.5 * (1.0 - own);
    }
    if (noise) {
        Values am(p), moved(p), spread(p);  // A mu, dmu / dlog beta, dSigma_ii / dlog beta
        for (size_t i = 0; i < p; ++i) am[i] = A[i] * s.mu[i];
        double last = 0.0;
        for (size_t i = 0; i < p; ++i) {
            const double* row = &Sigma[i * p];
            moved[i] = dot(row, am.data(), p);
            spread[i] = -s.variances[i];
            for (size_t j = 0; j < p; ++j) spread[i] += row[j] * row[j] * A[j];
            last += A[i] * spread[i] + 2.0 * am[i] * moved[i];
        }
        const double misfit = misfit_of(data, s);
        for (size_t i = 0; i < M; ++i)
            H[i * q + M] = H[M * q + i] =
                0.5 * s.alpha[i] * (spread[k + i] + 2.0 * s.mu[k + i] * moved[k + i]);
        H[M * q + M] = -0.5 * (last - misfit);
        gradient[M] = 0.5 * (data.total - gamma_of(data, s) - misfit);
    }
    double ridge = 0.0;
    for (int attempt = 0; attempt < 60; ++attempt) {
        Values L = H;
        for (size_t i = 0; i < q; ++i) L[i * q + i] += ridge;
        if (cholesky(L.data(), q)) {
            for (size_t i = 0; i < q; ++i)
                step[i] = (gradient[i] - dot(&L[i * q], step.data(), i)) / L[i * q + i];
            for (size_t i = q; i-- > 0;) {
                for (size_t j = i + 1; j < q; ++j) step[i] -= L[j * q + i] * step[j];
                step[i] /= L[i * q + i];
            }
            break;
        }
        ridge = ridge > 0.0 ? 4.0 * ridge : 1e-4;
    }
    const double promise = 0.5 * dot(gradient.data(), step.data(), q);
    for (double& d : step) d = std::min(LONGEST, std::max(-LONGEST, d));
    return promise;
}

// The search over what stays in and how precise it is.
struct Settle {
    Data data;
    State state;
    std::vector<size_t> kept;
    Values trace;
    double cap;
    bool learns;
    int deleted = 0, changed = 0, undone = 0;

    bool accept(State next) {
        if (!next.valid || !(next.evidence > state.evidence + 1e-13 * std::fabs(state.evidence))) {
            ++undone;
            return false;
        }
        state = std::move(next);
        trace.push_back(state.evidence);
        return true;
    }

    bool without(const std::vector<size_t>& out) {
        std::vector<size_t> stay(data.k), names;
        std::iota(stay.begin(), stay.end(), size_t{0});
        Values alpha;
        for (size_t j = 0, o = 0; j < kept.size(); ++j) {
            if (o < out.size() && out[o] == j) {
                ++o;
                continue;
            }
            stay.push_back(data.k + j);
            names.push_back(kept[j]);
            alpha.push_back(state.alpha[j]);
        }
        const size_t p = data.right.size(), r = stay.size();
        Data smaller{Values(r * r), Values(r), data.square, data.total, data.k};
        for (size_t i = 0; i < r; ++i) {
            smaller.right[i] = data.right[stay[i]];
            for (size_t j = 0; j < r; ++j) smaller.gram[i * r + j] = data.gram[stay[i] * p + stay[j]];
        }
        if (!accept(evaluate(smaller, std::move(alpha), state.beta))) return false;
        data = std::move(smaller);
        kept = std::move(names);
        ++deleted;
        return true;
    }

    bool together(const Values& step, bool noise) {
        for (const double part : {1.0, 0.3, 0.1}) {
            Values alpha = state.alpha;
            for (size_t j = 0; j < alpha.size(); ++j) alpha[j] *= std::exp(part * step[j]);
            double beta = state.beta;
            if (noise) beta = std::min(beta * std::exp(part * step.back()), cap);
            if (accept(evaluate(data, std::move(alpha), beta))) return ++changed, true;
        }
        return false;
    }

    bool alone(const Values& fresh, const Values& gain) {
        size_t best = gain.size();
        for (size_t j = 0; j < gain.size(); ++j)
            if (std::isfinite(fresh[j]) && (best == gain.size() || gain[j] > gain[best])) best = j;
        if (best == gain.size()) return false;
        Values alpha = state.alpha;
        alpha[best] = fresh[best];
        return accept(evaluate(data, std::move(alpha), state.beta)) && (++changed, true);
    }

    void run(double tol, int limit) {
        Values fresh, gain, step;
        while (deleted + changed + undone < limit) {
            best_alone(data, state, fresh, gain);
            std::vector<size_t> out;
            size_t first = 0;
            double most = 0.0;
            for (size_t j = 0; j < gain.size(); ++j) {
                most = std::max(most, gain[j]);
                if (std::isfinite(fresh[j])) continue;
                if (out.empty() || gain[j] > gain[first]) first = j;
                out.push_back(j);
            }
            if (!out.empty() && (without(out) || (out.size() > 1 && without({first})))) continue;
            bool noise = learns;
            if (noise && state.beta >= cap * (1.0 - 1e-9))
                noise = data.total - gamma_of(data, state) < misfit_of(data, state);
            const double promise = newton(data, state, noise, step);
            if (std::max(promise, most) < tol) return;
            if (!together(step, noise) && !alone(fresh, gain)) return;
        }
    }
};

// Settle the precisions alpha (M), in place, infinity for what goes out; return beta, the values of
// the evidence (without its constants) step by step, and how many steps were of which kind.
nb::tuple settle(Matrix gram, ConstVector right, Vector alpha, double beta, double square, double total,
                 bool learns, double cap, double tol, int limit) {
    const size_t p = right.shape(0), M = alpha.shape(0);
    if (gram.shape(0) != p || gram.shape(1) != p || M > p)
        throw nb::value_error("shapes do not match");
    Settle work;
    {
        nb::gil_scoped_release release;
        work.data = Data{Values(gram.data(), gram.data() + p * p),
                         Values(right.data(), right.data() + p), square, total, p - M};
        work.cap = cap;
        work.learns = learns;
        work.kept.resize(M);
        std::iota(work.kept.begin(), work.kept.end(), size_t{0});
        work.state = evaluate(work.data, Values(alpha.data(), alpha.data() + M), beta);
        work.trace.push_back(work.state.evidence);
        if (work.state.valid) {
            work.run(tol, limit);
            std::fill(alpha.data(), alpha.data() + M, INF);
            for (size_t j = 0; j < work.kept.size(); ++j)
                alpha.data()[work.kept[j]] = work.state.alpha[j];
        }
    }
    return nb::make_tuple(work.state.valid ? work.state.beta : beta, work.trace, work.deleted,
                          work.changed, work.undone);
}

// For each of M functions in the model the candidate that would gain most in its place: T (m, M) is
// Sigma F B phi_m, v and mu (M) variances and means of the weights, S and Q (m) of the candidates,
// least (m) below which S is rounding; a candidate with least < 0 is closed. Fills best and ratio.
void exchanges(Matrix T, ConstVector v, ConstVector mu, ConstVector S, ConstVector Q,
               ConstVector least, Vector best, Vector ratio) {
    const size_t m = T.shape(0), M = T.shape(1);
    if (v.shape(0) != M || mu.shape(0) != M || best.shape(0) != M || ratio.shape(0) != M ||
        S.shape(0) != m || Q.shape(0) != m || least.shape(0) != m)
        throw nb::value_error("shapes do not match");
    nb::gil_scoped_release release;
    Values inverse(M), pull(M);
    for (size_t j = 0; j < M; ++j) {
        inverse[j] = 1.0 / v.data()[j];
        pull[j] = mu.data()[j] * inverse[j];
    }
    double *top = ratio.data(), *who = best.data();
    std::fill(top, top + M, 0.0);
    std::fill(who, who + M, 0.0);
    for (size_t i = 0; i < m; ++i) {
        const double floor = least.data()[i], S0 = S.data()[i], Q0 = Q.data()[i];
        if (floor < 0.0) continue;
        const double* t = T.data() + i * M;
        const double name = static_cast<double>(i);
#pragma omp simd
        for (size_t j = 0; j < M; ++j) {
            const double s = S0 + t[j] * t[j] * inverse[j], q = Q0 + t[j] * pull[j];
            const double r = s > floor ? q * q / s : 0.0;
            who[j] = r > top[j] ? name : who[j];
            top[j] = r > top[j] ? r : top[j];
        }
    }
}

}  // namespace

NB_MODULE(relevance, m) {
    m.def("settle", &settle, nb::arg("gram"), nb::arg("right"), nb::arg("alpha"), nb::arg("beta"),
          nb::arg("square"), nb::arg("total"), nb::arg("learns"), nb::arg("cap"), nb::arg("tol"),
          nb::arg("limit"));
    m.def("exchanges", &exchanges);
}
