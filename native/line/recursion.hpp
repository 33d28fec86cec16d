// What every stationary Markov process on a line has in common: the filter, the backward recursion of
// de Jong (1989), which divides by no covariance, and products with the covariance, all in O(n).
//
// A model has the state of D entries at each point: over(d) sets its transition A and the covariance Q of
// what is new over a gap d, moved(d) sets A alone, rest is the covariance of the state at any point, and f
// is the sum of the entries that are first. Points are sorted, gaps[i] = x[i] - x[i-1].
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "patience.hpp"

namespace mercer {

namespace nb = nanobind;
using std::size_t;
using Vector = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Orders = nb::ndarray<const int, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Table = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Result = nb::ndarray<double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Results = nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

constexpr double NOT_POSITIVE = std::numeric_limits<double>::quiet_NaN();  // K^-1 + W is not

inline void check(bool fits) {
    if (!fits) throw nb::value_error("shapes do not fit together");
}

// The sum of those entries of a state that are values of f.
template <int D>
struct Observed {
    static constexpr int size = D;
    bool first[D] = {};
    double value(const double* state) const {
        double f = 0.0;
        for (int i = 0; i < D; ++i)
            if (first[i]) f += state[i];
        return f;
    }
    // out <- M h, the covariance of the state with f
    void with_f(const double* M, double* out) const {
        for (int i = 0; i < D; ++i) out[i] = value(M + i * D);
    }
};

template <int D>
void product(const double* L, const double* R, double* out, bool transposed) {
    for (int i = 0; i < D; ++i)
        for (int j = 0; j < D; ++j) {
            double t = 0.0;
            for (int k = 0; k < D; ++k) t += L[i * D + k] * (transposed ? R[j * D + k] : R[k * D + j]);
            out[i * D + j] = t;
        }
}

// M <- A M A' + Q
template <int D>
void predict(const double* A, double* M, const double* Q) {
    double t[D * D];
    product<D>(A, M, t, false);
    product<D>(t, A, M, true);
    if (Q)
        for (int i = 0; i < D * D; ++i) M[i] += Q[i];
}

template <int D>
void multiply(const double* A, const double* s, double* out) {
    for (int i = 0; i < D; ++i) {
        double t = 0.0;
        for (int j = 0; j < D; ++j) t += A[i * D + j] * s[j];
        out[i] = t;
    }
}

template <int D>
void transpose(const double* A, double* out) {
    for (int i = 0; i < D; ++i)
        for (int j = 0; j < D; ++j) out[i * D + j] = A[j * D + i];
}

// N <- h h'/F + (I - gain h')'N (I - gain h') = N - h moved' - moved h' + d h h', where moved = N gain and
// d = 1/F + gain'N gain: what the points from here on say of the state before the observation
template <int D, class Model>
void observed_back(const Model& model, const double* moved, double d, double* N) {
    double t[D * D];
    for (int a = 0; a < D; ++a)
        for (int b = 0; b < D; ++b) {
            double v = N[a * D + b];
            if (model.first[a]) v -= moved[b];
            if (model.first[b]) v -= moved[a];
            if (model.first[a] && model.first[b]) v += d;
            t[a * D + b] = v;
        }
    for (int i = 0; i < D * D; ++i) N[i] = t[i];
}

// sum log|F_i| over points with W != 0, F_i = var of f_i given those before + 1/W_i
template <int D, class Model>
double determinant(Model model, const Vector& gaps, const Vector& W) {
    double P[D * D], ph[D], total = 0.0;
    Patience patience;
    for (int i = 0; i < D * D; ++i) P[i] = model.rest[i];
    for (size_t t = 0; t < W.size(); ++t) {
        if (t % SPELL == 0) patience();
        if (t) {
            model.over(gaps(t - 1));
            predict<D>(model.A, P, model.Q);
        }
        if (W(t) == 0.0) continue;
        model.with_f(P, ph);
        const double F = model.value(ph) + 1.0 / W(t);
        if (!(F * W(t) > 0.0)) return NOT_POSITIVE;
        total += std::log(std::abs(F));
        for (int a = 0; a < D; ++a)
            for (int b = 0; b < D; ++b) P[a * D + b] -= ph[a] * ph[b] / F;
    }
    return total;
}

// solved (n, m) <- C Z, inverse (n,) <- diag C, variance (n,) <- diag (K^-1 + W)^-1; C = (K + 1/W)^-1.
// Returns what determinant does.
template <int D, class Model>
double smooth(Model model, const Vector& gaps, const Vector& W, const Table& Z, Results solved,
              Result inverse, Result variance) {
    const size_t n = W.size(), m = Z.shape(1);
    constexpr int KEEP = D * D + D;  // covariance after the observation; gain ph / F
    Patience patience;
    std::vector<double> kept(n * KEEP), noise(n), state(m * D, 0.0);
    double P[D * D], ph[D], moved[D], total = 0.0;
    for (int i = 0; i < D * D; ++i) P[i] = model.rest[i];
    for (size_t t = 0; t < n; ++t) {
        if (t % SPELL == 0) patience();
        if (t) {
            model.over(gaps(t - 1));
            predict<D>(model.A, P, model.Q);
            for (size_t c = 0; c < m; ++c) {
                multiply<D>(model.A, &state[c * D], moved);
                for (int i = 0; i < D; ++i) state[c * D + i] = moved[i];
            }
        }
        double* gain = &kept[t * KEEP + D * D];
        noise[t] = 0.0;
        if (W(t) != 0.0) {
            model.with_f(P, ph);
            const double F = noise[t] = model.value(ph) + 1.0 / W(t);
            if (!(F * W(t) > 0.0)) return NOT_POSITIVE;
            total += std::log(std::abs(F));
            for (int i = 0; i < D; ++i) gain[i] = ph[i] / F;
            for (size_t c = 0; c < m; ++c) {
                const double v = Z(t, c) - model.value(&state[c * D]);
                solved(t, c) = v / F;
                for (int i = 0; i < D; ++i) state[c * D + i] += gain[i] * v;
            }
            for (int a = 0; a < D; ++a)
                for (int b = 0; b < D; ++b) P[a * D + b] -= ph[a] * gain[b];
        }
        for (int i = 0; i < D * D; ++i) kept[t * KEEP + i] = P[i];
    }
    double N[D * D] = {}, turned[D * D];
    std::fill(state.begin(), state.end(), 0.0);  // now r: what the points after say
    for (size_t t = n; t-- > 0;) {
        if (t % SPELL == 0) patience();
        if (t + 1 < n) {  // N <- A'N A, r <- A'r
            model.moved(gaps(t));
            transpose<D>(model.A, turned);
            predict<D>(turned, N, nullptr);
            for (size_t c = 0; c < m; ++c) {
                multiply<D>(turned, &state[c * D], moved);
                for (int i = 0; i < D; ++i) state[c * D + i] = moved[i];
            }
        }
        const double* after = &kept[t * KEEP];
        const double* gain = after + D * D;
        model.with_f(after, ph);
        multiply<D>(N, ph, moved);
        double s = model.value(ph);
        for (int i = 0; i < D; ++i) s -= ph[i] * moved[i];
        variance(t) = s;
        inverse(t) = 0.0;
        if (noise[t] == 0.0) {
            for (size_t c = 0; c < m; ++c) solved(t, c) = 0.0;
            continue;
        }
        multiply<D>(N, gain, moved);
        double d = 1.0 / noise[t];
        for (int i = 0; i < D; ++i) d += gain[i] * moved[i];
        inverse(t) = d;
        for (size_t c = 0; c < m; ++c) {
            double u = solved(t, c);
            for (int i = 0; i < D; ++i) u -= gain[i] * state[c * D + i];
            solved(t, c) = u;
            for (int i = 0; i < D; ++i)
                if (model.first[i]) state[c * D + i] += u;
        }
        observed_back<D>(model, moved, d, N);
    }
    return total;
}

// out (n, m) <- K V: what comes from the left, with the point itself, and what from the right
template <int D, class Model>
void times(Model model, const Vector& gaps, const Table& V, Results out) {
    const size_t n = V.shape(0), m = V.shape(1);
    Patience patience;
    std::vector<double> state(m * D);
    double source[D], moved[D];
    model.with_f(model.rest, source);
    for (int back = 0; back < 2; ++back) {
        std::fill(state.begin(), state.end(), 0.0);
        for (size_t step = 0; step < n; ++step) {
            if (step % SPELL == 0) patience();
            const size_t t = back ? n - 1 - step : step;
            if (step) model.moved(gaps(back ? t : t - 1));
            for (size_t c = 0; c < m; ++c) {
                double* s = &state[c * D];
                if (step) {
                    multiply<D>(model.A, s, moved);
                    for (int i = 0; i < D; ++i) s[i] = moved[i];
                }
                if (back) out(t, c) += model.value(s);
                for (int i = 0; i < D; ++i) s[i] += source[i] * V(t, c);
                if (!back) out(t, c) = model.value(s);
            }
        }
    }
}

}  // namespace mercer
