// Examples of a stream, one after the other: the quadratic bound on the logistic, and a small factor.
//
//     sigma(z) >= sigma(xi) exp{(z - xi)/2 - l(xi) (z^2 - xi^2)},    l(xi) = tanh(xi/2)/(4 xi)
//
// Each label waits for the one before it, so there is nothing to vectorise but the update of those
// that follow. Reference: Jaakkola & Haussler (1999), (8) with its sign corrected, (14), (18)-(23).
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "patience.hpp"

namespace nb = nanobind;
using Matrix = nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using ConstMatrix = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using ConstVector = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

namespace {

// l(xi), 1/8 at zero.
double curvature(double xi) {
    if (xi < 0.01) {
        const double t = xi * xi;
        return 1.0 / 8 - t * (1.0 / 96 - t * (1.0 / 960 - t * 17.0 / 161280));
    }
    return std::tanh(0.5 * xi) / (4.0 * xi);
}

// dl/dxi = (1/2 sech^2(xi/2) - tanh(xi/2)/xi)/(4 xi), by its series where the two terms cancel.
double curvature_slope(double xi) {
    if (xi < 0.1) {
        const double t = xi * xi;
        return -xi * (1.0 / 48 - t * (1.0 / 240 - t * (17.0 / 26880 - t * 31.0 / 362880)));
    }
    const double half = std::tanh(0.5 * xi);
    return (0.5 * (1.0 - half * half) - half / xi) / (4.0 * xi);
}

// The root of xi^2 = q kappa + q^2 (M + w S kappa/2)^2, q = 1/(1 + 2 w l(xi) kappa): (23), with w
// equal examples in place of one. Newton's step, or the middle of the bracket where it leaves that:
// plain iteration needs hundreds of steps for a vague prior.
double best_xi(double M, double kappa, double S, double w) {
    if (kappa == 0.0) return std::fabs(M);
    const double centre = M + 0.5 * w * S * kappa;
    double low = 0.0, high = std::sqrt(kappa + centre * centre);  // the right side at l = 0
    double xi = high;
    for (int step = 0; step < 200; ++step) {
        const double q = 1.0 / (1.0 + 2.0 * w * curvature(xi) * kappa);
        const double root = std::sqrt(q * kappa + q * centre * q * centre);
        const double excess = root - xi;
        (excess >= 0.0 ? low : high) = xi;
        const double growth = -(kappa + 2.0 * q * centre * centre) * q * q * w * kappa *
                              curvature_slope(xi) / root;
        double next = growth < 1.0 ? xi + excess / (1.0 - growth) : 0.5 * (low + high);
        if (!(low <= next && next <= high)) next = 0.5 * (low + high);
        if (std::fabs(next - xi) <= 4e-16 * next) return next;
        xi = next;
    }
    return xi;
}

// The log of the lower bound on E[sigma(S f)^w], f ~ N(M, kappa): the closed form of (14), without a
// division by kappa.
double log_bound(double M, double kappa, double S, double w, double xi) {
    const double lam = curvature(xi), d = 1.0 + 2.0 * w * lam * kappa;
    const double own = -std::log1p(std::exp(-xi)) - 0.5 * xi + lam * xi * xi;
    const double moved = w * S * M + 0.25 * w * w * kappa - 2.0 * w * lam * M * M;
    return w * own - 0.5 * std::log(d) + moved / (2.0 * d);
}

// Build R (b, b), R R' = cov + diag(1/(2 w l)), column by column, and v = R^-1 (y - mean), y = S/(4 l).
// found (4, b) receives v, xi, and mean and variance of each example just before it was absorbed.
// Return the sum of the log bounds, and that of log(1 + 2 w l kappa).
std::pair<double, double> absorb(ConstVector mean, ConstMatrix cov, ConstVector S, ConstVector w,
                                 Matrix R, Matrix found) {
    const std::size_t b = mean.shape(0);
    if (cov.shape(0) != b || cov.shape(1) != b || S.shape(0) != b || w.shape(0) != b ||
        R.shape(0) != b || R.shape(1) != b || found.shape(0) != 4 || found.shape(1) != b)
        throw nb::value_error("shapes do not match");
    nb::gil_scoped_release release;
    double *r = R.data(), *v = found.data(), *xi = v + b, *M = xi + b, *kappas = M + b;
    for (std::size_t k = 0; k < b; ++k) {
        std::copy(cov.data() + k * b, cov.data() + k * b + k + 1, r + k * b);
        std::fill(r + k * b + k + 1, r + (k + 1) * b, 0.0);
        M[k] = mean.data()[k];
    }
    double log_q = 0.0, gain = 0.0;
    std::vector<double> column(b);
    mercer::Patience patience;
    for (std::size_t s = 0; s < b; ++s) {
        patience();
        const double label = S.data()[s], weight = w.data()[s];
        const double kappa = std::max(r[s * b + s], 0.0);  // repeated rows of a vast prior
        xi[s] = best_xi(M[s], kappa, label, weight);
        const double lam = curvature(xi[s]);
        const double pivot = std::sqrt(kappa + 0.5 / (weight * lam));  // c_s^-1/2, (20)
        r[s * b + s] = pivot;
        v[s] = (label / (4.0 * lam) - M[s]) / pivot;
        kappas[s] = kappa;
        log_q += log_bound(M[s], kappa, label, weight, xi[s]);
        gain += std::log1p(2.0 * weight * lam * kappa);
        for (std::size_t k = s + 1; k < b; ++k) column[k] = r[k * b + s] /= pivot;
        for (std::size_t k = s + 1; k < b; ++k) {
            const double entry = column[k];
            M[k] += entry * v[s];  // (19)
            double* row = r + k * b;
            for (std::size_t j = s + 1; j <= k; ++j) row[j] -= entry * column[j];  // (18)
        }
    }
    return {log_q, gain};
}

}  // namespace

NB_MODULE(sequential, m) {
    m.def("curvature", &curvature);
    m.def("curvature_slope", &curvature_slope);
    m.def("best_xi", &best_xi);
    m.def("log_bound", &log_bound);
    m.def("absorb", &absorb);
}
