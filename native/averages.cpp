// A softmax averaged over a Gaussian by a fixed rule of points and their mirror images.
//
// Loops run over a tile of points with unit stride, as in rows.hpp, from which the exponential is.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "rows.hpp"

namespace nb = nanobind;
using std::size_t;
using Vector = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Table = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Result = nb::ndarray<double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

namespace {

constexpr size_t TILE = 256;
constexpr size_t TERMS = 8;  // coefficients of a cell of the table
constexpr double FAR = 1e30;  // in cells of the table: A is zero well before

// log(s) for a normal s >= 1, absolute error below 1e-15: s = 2^n r, sqrt(1/2) < r <= sqrt(2).
MERCER_INLINE double log_positive(double s) {
    const std::uint64_t bits = __builtin_bit_cast(std::uint64_t, s);
    double n = __builtin_bit_cast(double, (bits >> 52) | 0x4330000000000000u) - 4503599627370496.0;
    double r = __builtin_bit_cast(double, (bits & 0x000fffffffffffffu) | 0x3ff0000000000000u);
    const bool high = r > 1.4142135623730951;
    r = high ? 0.5 * r : r;
    n = (high ? n + 1.0 : n) - 1023.0;
    const double z = (r - 1.0) / (r + 1.0), w = z * z;  // log r = 2 artanh z, |z| < 0.172
    double p = 1.0 / 21.0;
    p = p * w + 1.0 / 19.0;
    p = p * w + 1.0 / 17.0;
    p = p * w + 1.0 / 15.0;
    p = p * w + 1.0 / 13.0;
    p = p * w + 1.0 / 11.0;
    p = p * w + 1.0 / 9.0;
    p = p * w + 1.0 / 7.0;
    p = p * w + 1.0 / 5.0;
    p = p * w + 1.0 / 3.0;
    p = p * w + 1.0;
    return n * 0.6931471805599453 + 2.0 * z * p;
}

// top[j] = max_k f_k, total[j] = sum_k exp(f_k - top), f_k = m_k + sign shift[k][j]
MERCER_INLINE void sums(const double* m, const double* shift, size_t stride, size_t classes,
                        double sign, size_t len, double* top, double* total) {
    for (size_t j = 0; j < len; ++j) top[j] = m[0] + sign * shift[j], total[j] = 0.0;
    for (size_t k = 1; k < classes; ++k) {
        const double* s = shift + k * stride;
        for (size_t j = 0; j < len; ++j) {
            const double f = m[k] + sign * s[j];
            top[j] = f > top[j] ? f : top[j];
        }
    }
    for (size_t k = 0; k < classes; ++k) {
        const double* s = shift + k * stride;
        for (size_t j = 0; j < len; ++j) {
            const double f = m[k] + sign * s[j];
            total[j] += mercer::exp_negative(f - top[j]);
        }
    }
}

// Sum over a tile of A(t), t = own + sign lean - log sum_k exp(f_k). The table has log A(-x), for x in
// steps of which there are `rate` in a unit; A(x) = 1 - A(-x). In its last cell, which has no end, it
// is a parabola.
MERCER_CLONES double conditional_tile(double own, const double* lean, const double* m,
                                      const double* shift, size_t stride, size_t classes, double sign,
                                      size_t len, const double* table, size_t cells, double rate) {
    double t[TILE], u[TILE], found = 0.0;
    std::int32_t cell[TILE];
    sums(m, shift, stride, classes, sign, len, t, u);
    const double last = double(cells - 1);
    for (size_t j = 0; j < len; ++j) {
        t[j] = own + sign * lean[j] - (t[j] + log_positive(u[j]));
        const double far = (t[j] < 0.0 ? -t[j] : t[j]) * rate;
        const double x = far > FAR ? FAR : far;  // its powers stay finite, and a NaN a NaN
        cell[j] = std::int32_t(x < last ? x : last);  // of a NaN: the last cell
        u[j] = x - double(cell[j]);
    }
    for (size_t j = 0; j < len; ++j) {
        const double *a = table + TERMS * size_t(cell[j]), z = u[j], w = z * z;
        const double low = (a[0] + a[1] * z) + (a[2] + a[3] * z) * w;
        const double high = (a[4] + a[5] * z) + (a[6] + a[7] * z) * w;
        u[j] = low + high * (w * w);
    }
#pragma omp simd reduction(+ : found)
    for (size_t j = 0; j < len; ++j) {
        const double below = mercer::exp_negative(u[j]);
        found += t[j] < 0.0 ? below : 1.0 - below;
    }
    return found;
}

// out[k] += sum over a tile of the softmax of f
MERCER_CLONES void plain_tile(const double* m, const double* shift, size_t stride, size_t classes,
                              double sign, size_t len, double* out) {
    double top[TILE], total[TILE];
    sums(m, shift, stride, classes, sign, len, top, total);
    for (size_t j = 0; j < len; ++j) total[j] = 1.0 / total[j];
    for (size_t k = 0; k < classes; ++k) {
        const double* s = shift + k * stride;
        double sum = 0.0;
#pragma omp simd reduction(+ : sum)
        for (size_t j = 0; j < len; ++j) {
            const double f = m[k] + sign * s[j];
            sum += mercer::exp_negative(f - top[j]) * total[j];
        }
        out[k] += sum;
    }
}

void check(bool fits) {
    if (!fits) throw nb::value_error("shapes do not fit together");
}

double conditional(double own, Vector lean, Vector m, Table shift, Table table, double rate) {
    const size_t n = lean.size(), classes = m.size();
    check(n > 0 && classes > 0 && shift.shape(0) == classes && shift.shape(1) == n);
    check(table.shape(0) > 0 && table.shape(1) == TERMS && rate > 0.0);
    nb::gil_scoped_release release;
    double total = 0.0;
    for (size_t j = 0; j < n; j += TILE)
        for (double sign : {1.0, -1.0})
            total += conditional_tile(own, lean.data() + j, m.data(), shift.data() + j, n, classes,
                                      sign, std::min(TILE, n - j), table.data(), table.shape(0), rate);
    return 0.5 * total / double(n);
}

void plain(Vector m, Table shift, Result out) {
    const size_t n = shift.shape(1), classes = m.size();
    check(n > 0 && classes > 0 && shift.shape(0) == classes && out.size() == classes);
    nb::gil_scoped_release release;
    double* p = out.data();
    std::fill(p, p + classes, 0.0);
    for (size_t j = 0; j < n; j += TILE)
        for (double sign : {1.0, -1.0})
            plain_tile(m.data(), shift.data() + j, n, classes, sign, std::min(TILE, n - j), p);
    for (size_t k = 0; k < classes; ++k) p[k] *= 0.5 / double(n);
}

}  // namespace

NB_MODULE(averages, module) {
    using nb::literals::operator""_a;
    module.doc() = "A softmax averaged over a Gaussian by a fixed rule of points and mirror images.";
    module.attr("TERMS") = TERMS;
    module.def("conditional", &conditional, "own"_a, "lean"_a, "m"_a, "shift"_a, "table"_a, "rate"_a);
    module.def("plain", &plain, "m"_a, "shift"_a, "out"_a.noconvert());
}
