// Rows of the RBF kernel in single precision, for machines that need many rows and few digits.
#pragma once
#include <cstddef>
#include <cstdint>

#include "rows.hpp"

namespace mercer {

constexpr std::size_t WIDE = 16;
typedef float Wide __attribute__((vector_size(64), aligned(4), may_alias));
typedef std::uint32_t WideBits __attribute__((vector_size(64), aligned(4), may_alias));

// exp(x) for x <= 0 in single precision, relative error below 2e-7; zero below exp(-87). One number or
// sixteen of them.
template <class Real, class Bits>
MERCER_INLINE Real exp_negative_of(Real x) {
    const float magic = 12582912.0f;  // 1.5 * 2^23
    const Real none{}, least = none - 87.0f;
    const Real clipped = x < least ? least : x;
    const Real t = clipped * 1.44269504f + magic;
    const Real n = t - magic;
    const Real r = (clipped - n * 0.693359375f) + n * 2.12194440e-4f;
    Real p = none + 1.0f / 5040.0f;
    p = p * r + 1.0f / 720.0f;
    p = p * r + 1.0f / 120.0f;
    p = p * r + 1.0f / 24.0f;
    p = p * r + 1.0f / 6.0f;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    const Bits bits = __builtin_bit_cast(Bits, t);
    const Real scale = __builtin_bit_cast(Real, (bits + 127u) << 23);
    return x < least ? none : p * scale;
}
MERCER_INLINE float exp_negative_single(float x) { return exp_negative_of<float, std::uint32_t>(x); }

// Four points (x: one after the other) against sixteen neighbours, whose coordinates lie `stride`
// apart: values[r] = exp(-1/2 |x_r - z_j|^2). All of it stays in registers.
MERCER_INLINE void rbf_sixteen(const float* x, std::size_t dims, const float* columns,
                               std::size_t stride, Wide* values) {
    Wide a{}, b{}, e{}, f{};
    for (std::size_t d = 0; d < dims; ++d) {
        const Wide z = *reinterpret_cast<const Wide*>(columns + d * stride);
        const Wide p = x[d] - z, q = x[dims + d] - z, r = x[2 * dims + d] - z, t = x[3 * dims + d] - z;
        a += p * p;
        b += q * q;
        e += r * r;
        f += t * t;
    }
    values[0] = exp_negative_of<Wide, WideBits>(-0.5f * a);
    values[1] = exp_negative_of<Wide, WideBits>(-0.5f * b);
    values[2] = exp_negative_of<Wide, WideBits>(-0.5f * e);
    values[3] = exp_negative_of<Wide, WideBits>(-0.5f * f);
}

// Four points against `len` neighbours: out[r][j] = exp(-1/2 |x_r - z_j|^2). Neighbours are stored by
// columns (stride apart), so that one load of a coordinate serves the four points. tail: room for 16
// neighbours, the last of which need not exist.
MERCER_CLONES void rbf_single_four(const float* x, std::size_t dims, const float* columns,
                                   std::size_t stride, std::size_t len, float* const* out,
                                   float* tail) {
    Wide values[4];
    std::size_t j = 0;
    for (; j + WIDE <= len; j += WIDE) {
        rbf_sixteen(x, dims, columns + j, stride, values);
        for (std::size_t r = 0; r < 4; ++r) *reinterpret_cast<Wide*>(out[r] + j) = values[r];
    }
    if (j == len) return;
    for (std::size_t d = 0; d < dims; ++d)
        for (std::size_t k = 0; k < len - j; ++k) tail[d * WIDE + k] = columns[d * stride + j + k];
    rbf_sixteen(x, dims, tail, WIDE, values);
    for (std::size_t r = 0; r < 4; ++r)
        for (std::size_t k = 0; k < len - j; ++k) out[r][j + k] = values[r][k];
}

// sums[r * groups + g] = sum_j k[r][j] v[j * groups + g] for four rows of k: sixteen products a group.
MERCER_CLONES void product_four(const float* const* k, std::size_t len, const Wide* v,
                                std::size_t groups, Wide* sums) {
    for (std::size_t g = 0; g < groups; ++g) {
        Wide a{}, b{}, e{}, f{};
        for (std::size_t j = 0; j < len; ++j) {
            const Wide w = v[j * groups + g];
            a += k[0][j] * w;
            b += k[1][j] * w;
            e += k[2][j] * w;
            f += k[3][j] * w;
        }
        sums[g] = a;
        sums[groups + g] = b;
        sums[2 * groups + g] = e;
        sums[3 * groups + g] = f;
    }
}

constexpr std::size_t ONE_SPAN = 512;  // neighbours of one point that are worked on at a time

// One point against `len` neighbours: out[j] = variance exp(-1/2 |x - z_j|^2), four coordinates a turn.
MERCER_CLONES void rbf_single_one(const float* x, std::size_t dims, const float* columns,
                                  std::size_t stride, std::size_t len, float variance, float* out) {
    float s[ONE_SPAN];
    for (std::size_t j0 = 0; j0 < len; j0 += ONE_SPAN) {
        const std::size_t m = len - j0 < ONE_SPAN ? len - j0 : ONE_SPAN;
        for (std::size_t j = 0; j < m; ++j) s[j] = 0.0f;
        std::size_t d = 0;
        for (; d + 4 <= dims; d += 4) {
            const float *a = columns + d * stride + j0, *b = a + stride, *c = b + stride, *e = c + stride;
            const float xa = x[d], xb = x[d + 1], xc = x[d + 2], xe = x[d + 3];
            for (std::size_t j = 0; j < m; ++j) {
                const float p = xa - a[j], q = xb - b[j], r = xc - c[j], t = xe - e[j];
                s[j] += (p * p + q * q) + (r * r + t * t);
            }
        }
        for (; d < dims; ++d) {
            const float* a = columns + d * stride + j0;
            for (std::size_t j = 0; j < m; ++j) s[j] += (x[d] - a[j]) * (x[d] - a[j]);
        }
        for (std::size_t j = 0; j < m; ++j) out[j0 + j] = variance * exp_negative_single(-0.5f * s[j]);
    }
}

// The place of the smallest value; two passes that vectorise instead of one that does not.
MERCER_CLONES std::int64_t place_of_smallest(const std::int64_t* values, std::size_t len) {
    std::int64_t least = values[0];
#pragma omp simd reduction(min : least)
    for (std::size_t j = 0; j < len; ++j) least = values[j] < least ? values[j] : least;
    std::size_t j = 0;
    while (values[j] != least) ++j;
    return std::int64_t(j);
}

// out[j] = row[from[j]]
template <class Real>
MERCER_INLINE void gather_any(const Real* row, const std::int32_t* from, std::size_t len, Real* out) {
    for (std::size_t j = 0; j < len; ++j) out[j] = row[from[j]];
}
MERCER_CLONES void gather(const float* row, const std::int32_t* from, std::size_t len, float* out) {
    gather_any(row, from, len, out);
}
MERCER_CLONES void gather(const double* row, const std::int32_t* from, std::size_t len, double* out) {
    gather_any(row, from, len, out);
}

// sum_j k[j] * a[j] in double precision
MERCER_CLONES double dot_single(const float* k, const double* a, std::size_t len) {
    double total = 0.0;
#pragma omp simd reduction(+ : total)
    for (std::size_t j = 0; j < len; ++j) total += double(k[j]) * a[j];
    return total;
}

}  // namespace mercer
