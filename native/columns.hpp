// Rows of kernels that are products over the columns, one tile row at a time.
//
// k = prod_d (1 - w_d + w_d m(r_d)) with r_d = |x_d - z_d| of scaled columns and m the profile; no
// shares w: the product of the profiles. As in rows.hpp, every loop runs over `len` neighbours of one
// point with unit stride.
#pragma once
#include "rows.hpp"

namespace mercer {

constexpr std::size_t GROUP = 8;  // columns whose exponentials are one

// m = e^-u f: the polynomial f of a profile at r, and u.
template <int PROFILE>
MERCER_INLINE double polynomial_of(double r) {
    if constexpr (PROFILE == MATERN32) return 1.0 + r;
    if constexpr (PROFILE == MATERN52) return 1.0 + r + r * r * (1.0 / 3.0);
    return 1.0;
}

template <int PROFILE>
MERCER_INLINE double exponent_of(double r) {
    return PROFILE == RBF ? 0.5 * r * r : r;
}

// -r m'(r) = e^-u g: what the logarithm of the length scale moves m by.
template <int PROFILE>
MERCER_INLINE double steepness_of(double r) {
    if constexpr (PROFILE == MATERN12) return r;
    if constexpr (PROFILE == MATERN52) return r * r * (1.0 + r) * (1.0 / 3.0);
    return r * r;
}

// -m'(r) = e^-u h: what m falls by along its column.
template <int PROFILE>
MERCER_INLINE double fall_of(double r) {
    if constexpr (PROFILE == MATERN12) return 1.0;
    if constexpr (PROFILE == MATERN52) return r * (1.0 + r) * (1.0 / 3.0);
    return r;
}

MERCER_INLINE double apart(double x, double z) {
    const double r = x < z ? z - x : x - z;
    return r < NOTHING_FROM ? r : NOTHING_FROM;
}

// k[j] = the product over all columns; w: shares (dims,) or null.
template <int PROFILE>
MERCER_INLINE void row_product_of(const double* x, const double* columns, std::size_t stride,
                                  std::size_t dims, std::size_t len, const double* w, double* k) {
    for (std::size_t j = 0; j < len; ++j) k[j] = 1.0;
    if (w) {
        for (std::size_t d = 0; d < dims; ++d) {
            const double* c = columns + d * stride;
            const double xd = x[d], wd = w[d];
            for (std::size_t j = 0; j < len; ++j) {
                const double r = apart(xd, c[j]);
                k[j] *= 1.0 - wd + wd * polynomial_of<PROFILE>(r) * exp_negative(-exponent_of<PROFILE>(r));
            }
        }
        return;
    }
    for (std::size_t first = 0; first < dims; first += GROUP) {
        const std::size_t last = std::min(dims, first + GROUP);
        for (std::size_t j = 0; j < len; ++j) {
            double u = 0.0, f = 1.0;
            for (std::size_t d = first; d < last; ++d) {
                const double r = apart(x[d], columns[d * stride + j]);
                u += exponent_of<PROFILE>(r);
                f *= polynomial_of<PROFILE>(r);
            }
            k[j] *= f * exp_negative(-u);
        }
    }
}

// With weighted[j] = q_j k_j: scales[d] += factor sum_j weighted[j] w_d e^-u g / (1 - w_d + w_d m), and
// shares[d] += factor sum_j weighted[j] (m - 1) / (1 - w_d + w_d m), if there are any.
template <int PROFILE>
MERCER_INLINE void row_product_slopes_of(const double* x, const double* columns, std::size_t stride,
                                         std::size_t dims, std::size_t len, const double* w,
                                         const double* weighted, double factor, double* scales,
                                         double* shares) {
    for (std::size_t d = 0; d < dims; ++d) {
        const double* c = columns + d * stride;
        const double xd = x[d];
        double scale = 0.0, share = 0.0;
        if (w) {
            const double wd = w[d];
#pragma omp simd reduction(+ : scale, share)
            for (std::size_t j = 0; j < len; ++j) {
                const double r = apart(xd, c[j]), e = exp_negative(-exponent_of<PROFILE>(r));
                const double m = polynomial_of<PROFILE>(r) * e;
                const double part = weighted[j] / (1.0 - wd + wd * m);
                scale += part * wd * e * steepness_of<PROFILE>(r);
                share += part * (m - 1.0);
            }
            shares[d] += factor * share;
        } else {
#pragma omp simd reduction(+ : scale)
            for (std::size_t j = 0; j < len; ++j) {
                const double r = apart(xd, c[j]);
                scale += weighted[j] * steepness_of<PROFILE>(r) / polynomial_of<PROFILE>(r);
            }
        }
        scales[d] += factor * scale;
    }
}

// With weighted[j] = q_j k_j: moved[d] += sum_j weighted[j] d log k_j / d x_d; the point itself pulls nothing.
template <int PROFILE>
MERCER_INLINE void row_product_moves_of(const double* x, const double* columns, std::size_t stride,
                                        std::size_t dims, std::size_t len, const double* w,
                                        const double* weighted, double* moved) {
    for (std::size_t d = 0; d < dims; ++d) {
        const double* c = columns + d * stride;
        const double xd = x[d], wd = w ? w[d] : 1.0;
        double total = 0.0;
#pragma omp simd reduction(+ : total)
        for (std::size_t j = 0; j < len; ++j) {
            const double r = apart(xd, c[j]), away = xd > c[j] ? -1.0 : xd < c[j] ? 1.0 : 0.0;
            double part = weighted[j] * away * fall_of<PROFILE>(r);
            if (w) {
                const double e = exp_negative(-exponent_of<PROFILE>(r));
                part *= wd * e / (1.0 - wd + wd * polynomial_of<PROFILE>(r) * e);
            } else {
                part /= polynomial_of<PROFILE>(r);
            }
            total += part;
        }
        moved[d] += total;
    }
}

MERCER_CLONES void row_product(int profile, const double* x, const double* columns,
                               std::size_t stride, std::size_t dims, std::size_t len,
                               const double* w, double* k) {
    switch (profile) {
        case RBF: row_product_of<RBF>(x, columns, stride, dims, len, w, k); break;
        case MATERN12: row_product_of<MATERN12>(x, columns, stride, dims, len, w, k); break;
        case MATERN32: row_product_of<MATERN32>(x, columns, stride, dims, len, w, k); break;
        default: row_product_of<MATERN52>(x, columns, stride, dims, len, w, k);
    }
}

MERCER_CLONES void row_product_slopes(int profile, const double* x, const double* columns,
                                      std::size_t stride, std::size_t dims, std::size_t len,
                                      const double* w, const double* weighted, double factor,
                                      double* scales, double* shares) {
    switch (profile) {
        case RBF:
            row_product_slopes_of<RBF>(x, columns, stride, dims, len, w, weighted, factor, scales, shares);
            break;
        case MATERN12:
            row_product_slopes_of<MATERN12>(x, columns, stride, dims, len, w, weighted, factor, scales, shares);
            break;
        case MATERN32:
            row_product_slopes_of<MATERN32>(x, columns, stride, dims, len, w, weighted, factor, scales, shares);
            break;
        default:
            row_product_slopes_of<MATERN52>(x, columns, stride, dims, len, w, weighted, factor, scales, shares);
    }
}

MERCER_CLONES void row_product_moves(int profile, const double* x, const double* columns,
                                     std::size_t stride, std::size_t dims, std::size_t len,
                                     const double* w, const double* weighted, double* moved) {
    switch (profile) {
        case RBF: row_product_moves_of<RBF>(x, columns, stride, dims, len, w, weighted, moved); break;
        case MATERN12: row_product_moves_of<MATERN12>(x, columns, stride, dims, len, w, weighted, moved); break;
        case MATERN32: row_product_moves_of<MATERN32>(x, columns, stride, dims, len, w, weighted, moved); break;
        default: row_product_moves_of<MATERN52>(x, columns, stride, dims, len, w, weighted, moved);
    }
}

}  // namespace mercer
