// Precisions and noise of a Gaussian model with given inner products settle, functions go out.
#pragma once
#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "dense/tiles.hpp"
#include "patience.hpp"

namespace mercer {

using std::size_t;
using Values = std::vector<double>;
constexpr double INF = HUGE_VAL;
constexpr double LONGEST = 3.0;  // of a step in log precision
// Ridges that make a Hessian definite: the first, and how they grow.
constexpr double FIRST_RIDGE = 1e-3, STEEPER = 8.0;

MERCER_INLINE double dot(const double* a, const double* b, size_t n) {
    double sum = 0.0;
#pragma omp simd reduction(+ : sum)
    for (size_t i = 0; i < n; ++i) sum += a[i] * b[i];
    return sum;
}

// Solve L x = c, and L'x = c, in place of c.
inline void forward(const Square& L, Values& x) {
    for (size_t j = 0; j < x.size(); ++j) {
        const double *column = L.column(j), value = x[j] /= column[j];
        for (size_t i = j + 1; i < x.size(); ++i) x[i] -= column[i] * value;
    }
}

inline void backward(const Square& L, Values& x) {
    for (size_t j = x.size(); j-- > 0;) {
        const double* column = L.column(j);
        x[j] -= dot(column + j + 1, x.data() + j + 1, x.size() - j - 1);
        x[j] /= column[j];
    }
}

// The data of the model: F W F' (p, p), F W t (p), t'W t, the sum of the weights; k flat functions.
struct Data {
    Square gram;
    Values right;
    double square, total;
    size_t k;
};

// One state: the posterior of the weights given precisions alpha (M) and noise precision beta.
struct State {
    Values alpha, mu, variances;
    Square X;  // L^-T
    double beta = 1.0, evidence = -INF, fit = 0.0;
    bool valid = false;
};

inline State evaluate(const Data& data, Values alpha, double beta) {
    const size_t p = data.right.size(), k = data.k;
    State state;
    state.alpha = std::move(alpha);
    state.beta = beta;
    Square L = data.gram;
    for (double& value : L.values) value *= beta;
    double logs = 0.0;
    for (size_t j = k; j < p; ++j) {
        L.column(j)[j] += state.alpha[j - k];
        logs += std::log(state.alpha[j - k]);
    }
    for (size_t j = p; j < L.ld; ++j) L.column(j)[j] = 1.0;
    if (!cholesky(L)) return state;
    Values v(p);
    for (size_t i = 0; i < p; ++i) v[i] = beta * data.right[i];
    forward(L, v);
    for (size_t i = 0; i < p; ++i) logs -= 2.0 * std::log(L.column(i)[i]);
    state.X = inverse_transposed(L);
    state.mu.assign(p, 0.0);
    state.variances.assign(p, 0.0);
    for (size_t j = 0; j < p; ++j) {
        const double* x = state.X.column(j);
        for (size_t i = 0; i <= j; ++i) {
            state.mu[i] += x[i] * v[j];
            state.variances[i] += x[i] * x[i];
        }
    }
    state.fit = beta * data.square - dot(v.data(), v.data(), p);
    state.evidence = 0.5 * (data.total * std::log(beta) + logs - state.fit);
    state.valid = std::isfinite(state.evidence);
    return state;
}

inline double gamma_of(const Data& data, const State& s) {
    double sum = static_cast<double>(s.mu.size());
    for (size_t j = 0; j < s.alpha.size(); ++j) sum -= s.alpha[j] * s.variances[data.k + j];
    return sum;
}

// beta times the weighted sum of squares about the fit: fit less mu'A mu.
inline double misfit_of(const Data& data, const State& s) {
    double sum = s.fit;
    for (size_t j = 0; j < s.alpha.size(); ++j)
        sum -= s.alpha[j] * s.mu[data.k + j] * s.mu[data.k + j];
    return sum;
}

inline double share(double alpha, double s, double q) {
    return 0.5 * (std::log(alpha) - std::log(alpha + s) + q * q / (alpha + s));
}

// The precision that maximises share; infinity if the function is better out.
inline double best_precision(double s, double q) {
    const double theta = q * q - s;
    return theta > 0.0 ? s * s / theta : INF;
}

// Best precision of each function given the others (infinity: out), and its gain.
inline void best_alone(const Data& data, const State& state, Values& fresh, Values& gain) {
    const size_t M = state.alpha.size();
    fresh.resize(M);
    gain.resize(M);
    for (size_t j = 0; j < M; ++j) {
        const double v = state.variances[data.k + j], alpha = state.alpha[j];
        const double s = std::max(1.0 / v - alpha, 1e-300), q = state.mu[data.k + j] / v;
        fresh[j] = best_precision(s, q);
        gain[j] = (fresh[j] < INF ? share(fresh[j], s, q) : 0.0) - share(alpha, s, q);
    }
}

// Newton's step in the log precisions (and, last, the log noise precision): the Hessian is that of
// the log evidence, made negative definite by a ridge where it is not; ``ridge`` is the last that was
// needed, and becomes this one. Returns the promise.
inline double newton(const Data& data, const State& s, bool noise, double& ridge, Values& step) {
    const size_t M = s.alpha.size(), p = s.mu.size(), k = data.k, q = M + (noise ? 1 : 0);
    step.assign(q, 0.0);
    if (!q) return 0.0;
    const Square Sigma = square_of_upper(s.X);  // its lower triangle
    Square H(*s.X.room, q);                     // minus the Hessian, its lower triangle
    Values gradient(q);
    for (size_t j = 0; j < M; ++j) {
        const double *column = Sigma.column(k + j) + k, *mu = s.mu.data() + k, *a = s.alpha.data();
        double* to = H.column(j);
        const double mine = -0.5 * a[j], twice = 2.0 * mu[j];
        for (size_t i = j; i < M; ++i)
            to[i] = mine * a[i] * column[i] * (column[i] + twice * mu[i]);
        const double own = a[j] * (s.variances[k + j] + mu[j] * mu[j]);
        to[j] += 0.5 * own;
        gradient[j] = 0.5 * (1.0 - own);
    }
    if (noise) {
        Values A(p, 0.0), am(p), moved(p, 0.0), spread(p);  // A mu, dmu and dSigma_ii by log beta
        for (size_t j = 0; j < M; ++j) A[k + j] = s.alpha[j];
        for (size_t i = 0; i < p; ++i) am[i] = A[i] * s.mu[i], spread[i] = -s.variances[i];
        for (size_t j = 0; j < p; ++j) {
            const double* column = Sigma.column(j);
            double mine = column[j] * am[j], wide = column[j] * column[j] * A[j];
            for (size_t i = j + 1; i < p; ++i) {
                const double square = column[i] * column[i];
                mine += column[i] * am[i];
                wide += square * A[i];
                moved[i] += column[i] * am[j];
                spread[i] += square * A[j];
            }
            moved[j] += mine;
            spread[j] += wide;
        }
        double last = 0.0;
        for (size_t i = 0; i < p; ++i) last += A[i] * spread[i] + 2.0 * am[i] * moved[i];
        const double misfit = misfit_of(data, s);
        for (size_t i = 0; i < M; ++i)
            H.column(i)[M] = 0.5 * s.alpha[i] * (spread[k + i] + 2.0 * s.mu[k + i] * moved[k + i]);
        H.column(M)[M] = -0.5 * (last - misfit);
        gradient[M] = 0.5 * (data.total - gamma_of(data, s) - misfit);
    }
    double trial = ridge > FIRST_RIDGE ? ridge / STEEPER : 0.0;
    for (int attempt = 0; attempt < 60; ++attempt) {
        Square L = H;
        for (size_t i = 0; i < q; ++i) L.column(i)[i] += trial;
        if (cholesky(L)) {
            step = gradient;
            forward(L, step);
            backward(L, step);
            ridge = trial;
            break;
        }
        trial = trial > 0.0 ? STEEPER * trial : FIRST_RIDGE;
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
    double cap, ridge = 0.0;
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
        const size_t r = stay.size();
        Data smaller{Square(*data.gram.room, r), Values(r), data.square, data.total, data.k};
        for (size_t j = 0; j < r; ++j) {
            smaller.right[j] = data.right[stay[j]];
            const double* from = data.gram.column(stay[j]);
            for (size_t i = 0; i < r; ++i) smaller.gram.column(j)[i] = from[stay[i]];
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
        Patience patience;
        while (deleted + changed + undone < limit) {
            patience();
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
            const double promise = newton(data, state, noise, ridge, step);
            if (std::max(promise, most) < tol) return;
            if (!together(step, noise) && !alone(fresh, gain)) return;
        }
    }
};

}  // namespace mercer
