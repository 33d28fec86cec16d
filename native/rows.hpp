// Rows of squared distances and of the kernels that depend on them, one tile row at a time.
//
// Every loop here runs over `len` neighbours of one point with unit stride, so that the compiler
// turns it into SIMD code; on x86-64 Linux each function is built three times and the best one for
// the processor is chosen when the module is loaded. No reassociation is allowed except in the sums
// that say so, so results do not depend on -ffast-math liberties.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(MERCER_ONE_CLONE)
#define MERCER_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define MERCER_CLONES
#endif
#define MERCER_INLINE static inline __attribute__((always_inline))

namespace mercer {

// Profiles k(s) of the squared distance s = r^2 / length_scale^2.
enum Profile { RBF = 0, MATERN12 = 1, MATERN32 = 2, MATERN52 = 3 };

// A distance from which on exp(-r) is zero: an infinite one would make infinity times zero of it.
constexpr double NOTHING_FROM = 1e4;

// exp(x) for x <= 0, relative error below 2.5e-16; zero below exp(-708) = 3e-308, where doubles end.
MERCER_INLINE double exp_negative(double x) {
    const double magic = 6755399441055744.0;  // 1.5 * 2^52: adding it rounds to an integer
    double clipped = x < -708.0 ? -708.0 : x;
    double t = clipped * 1.4426950408889634 + magic;
    double n = t - magic;
    double r = (clipped - n * 6.93147180369123816490e-01) - n * 1.90821492927058770002e-10;
    double p = 1.0 / 6227020800.0;  // Taylor to order 13 on |r| <= log(2)/2: remainder 4e-18
    p = p * r + 1.0 / 479001600.0;
    p = p * r + 1.0 / 39916800.0;
    p = p * r + 1.0 / 3628800.0;
    p = p * r + 1.0 / 362880.0;
    p = p * r + 1.0 / 40320.0;
    p = p * r + 1.0 / 5040.0;
    p = p * r + 1.0 / 720.0;
    p = p * r + 1.0 / 120.0;
    p = p * r + 1.0 / 24.0;
    p = p * r + 1.0 / 6.0;
    p = p * r + 0.5;
    p = p * r + 1.0;
    p = p * r + 1.0;
    std::uint64_t bits = __builtin_bit_cast(std::uint64_t, t);
    double scale = __builtin_bit_cast(double, (bits + 1023u) << 52);
    return x < -708.0 ? 0.0 : p * scale;
}

// s[j] = sum_d (x[d] - columns[d * stride + j])^2, by differences: exact for coincident points. As
// many sums as registers hold are formed at a time.
MERCER_CLONES void row_sqdist(const double* x, const double* columns, std::size_t stride,
                              std::size_t dims, std::size_t len, double* s) {
    constexpr std::size_t HELD = 32;
    std::size_t j = 0;
    for (; j + HELD <= len; j += HELD) {
        double sums[HELD] = {};
        for (std::size_t d = 0; d < dims; ++d) {
            const double* c = columns + d * stride + j;
            const double xd = x[d];
#pragma omp simd
            for (std::size_t i = 0; i < HELD; ++i) {
                double diff = xd - c[i];
                sums[i] += diff * diff;
            }
        }
        for (std::size_t i = 0; i < HELD; ++i) s[j + i] = sums[i];
    }
    for (std::size_t i = j; i < len; ++i) s[i] = 0.0;
    for (std::size_t d = 0; d < dims; ++d) {
        const double* c = columns + d * stride;
        const double xd = x[d];
        for (std::size_t i = j; i < len; ++i) {
            double diff = xd - c[i];
            s[i] += diff * diff;
        }
    }
}

// k[j] = profile(s[j])
MERCER_CLONES void row_profile(int profile, const double* s, std::size_t len, double* k) {
    switch (profile) {
        case RBF:
            for (std::size_t j = 0; j < len; ++j) k[j] = exp_negative(-0.5 * s[j]);
            break;
        case MATERN12:
            for (std::size_t j = 0; j < len; ++j) k[j] = exp_negative(-std::sqrt(s[j]));
            break;
        case MATERN32:
            for (std::size_t j = 0; j < len; ++j) {
                double r = std::min(std::sqrt(3.0 * s[j]), NOTHING_FROM);
                k[j] = (1.0 + r) * exp_negative(-r);
            }
            break;
        default:
            for (std::size_t j = 0; j < len; ++j) {
                double r = std::min(std::sqrt(5.0 * s[j]), NOTHING_FROM);
                k[j] = (1.0 + r + r * r * (1.0 / 3.0)) * exp_negative(-r);
            }
    }
}

// k[j] = profile(s[j]) and slope[j] = d profile / d s. Matern 1/2 has no slope at s = 0: there the
// factor (x_d - z_d)^2 that multiplies it is zero, and zero is stored.
MERCER_CLONES void row_profile_slope(int profile, const double* s, std::size_t len, double* k,
                                     double* slope) {
    switch (profile) {
        case RBF:
            for (std::size_t j = 0; j < len; ++j) {
                k[j] = exp_negative(-0.5 * s[j]);
                slope[j] = -0.5 * k[j];
            }
            break;
        case MATERN12:
            for (std::size_t j = 0; j < len; ++j) {
                double r = std::sqrt(s[j]);
                k[j] = exp_negative(-r);
                slope[j] = s[j] > 0.0 ? -0.5 * k[j] / r : 0.0;
            }
            break;
        case MATERN32:
            for (std::size_t j = 0; j < len; ++j) {
                double r = std::min(std::sqrt(3.0 * s[j]), NOTHING_FROM);
                double e = exp_negative(-r);
                k[j] = (1.0 + r) * e;
                slope[j] = -1.5 * e;
            }
            break;
        default:
            for (std::size_t j = 0; j < len; ++j) {
                double r = std::min(std::sqrt(5.0 * s[j]), NOTHING_FROM);
                double e = exp_negative(-r);
                k[j] = (1.0 + r + r * r * (1.0 / 3.0)) * e;
                slope[j] = (-5.0 / 6.0) * (1.0 + r) * e;
            }
    }
}

// sum_j k[j] * v[j]
MERCER_CLONES double row_dot(const double* k, const double* v, std::size_t len) {
    double total = 0.0;
#pragma omp simd reduction(+ : total)
    for (std::size_t j = 0; j < len; ++j) total += k[j] * v[j];
    return total;
}

// m[j] = q[j] * slope[j]; returns sum_j q[j] * k[j]
MERCER_CLONES double row_weigh(const double* q, const double* k, const double* slope,
                               std::size_t len, double* m) {
    double total = 0.0;
#pragma omp simd reduction(+ : total)
    for (std::size_t j = 0; j < len; ++j) {
        m[j] = q[j] * slope[j];
        total += q[j] * k[j];
    }
    return total;
}

// sums[d] += factor * sum_j m[j] * (x[d] - columns[d * stride + j])^2
MERCER_CLONES void row_spread(const double* x, const double* columns, std::size_t stride,
                              std::size_t dims, std::size_t len, const double* m, double factor,
                              double* sums) {
    std::size_t d = 0;
    for (; d + 4 <= dims; d += 4) {  // four sums at a time: one waits for its own last addition
        const double* c = columns + d * stride;
        const double x0 = x[d], x1 = x[d + 1], x2 = x[d + 2], x3 = x[d + 3];
        double t0 = 0.0, t1 = 0.0, t2 = 0.0, t3 = 0.0;
#pragma omp simd reduction(+ : t0, t1, t2, t3)
        for (std::size_t j = 0; j < len; ++j) {
            double d0 = x0 - c[j], d1 = x1 - c[stride + j], d2 = x2 - c[2 * stride + j],
                   d3 = x3 - c[3 * stride + j];
            t0 += m[j] * d0 * d0;
            t1 += m[j] * d1 * d1;
            t2 += m[j] * d2 * d2;
            t3 += m[j] * d3 * d3;
        }
        sums[d] += factor * t0;
        sums[d + 1] += factor * t1;
        sums[d + 2] += factor * t2;
        sums[d + 3] += factor * t3;
    }
    for (; d < dims; ++d) {
        const double* c = columns + d * stride;
        const double xd = x[d];
        double total = 0.0;
#pragma omp simd reduction(+ : total)
        for (std::size_t j = 0; j < len; ++j) {
            double diff = xd - c[j];
            total += m[j] * diff * diff;
        }
        sums[d] += factor * total;
    }
}

}  // namespace mercer
