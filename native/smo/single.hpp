// Rows of the RBF kernel in single precision, for machines that need many rows and few digits.
#pragma once
#include <cstddef>
#include <cstdint>

#include "rows.hpp"

namespace mercer {

// exp(x) for x <= 0 in single precision, relative error below 2e-7; zero below exp(-87).
MERCER_INLINE float exp_negative_single(float x) {
    const float magic = 12582912.0f;  // 1.5 * 2^23
    float clipped = x < -87.0f ? -87.0f : x;
    float t = clipped * 1.44269504f + magic;
    float n = t - magic;
    float r = (clipped - n * 0.693359375f) + n * 2.12194440e-4f;
    float p = 1.0f / 5040.0f;
    p = p * r + 1.0f / 720.0f;
    p = p * r + 1.0f / 120.0f;
    p = p * r + 1.0f / 24.0f;
    p = p * r + 1.0f / 6.0f;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    std::uint32_t bits = __builtin_bit_cast(std::uint32_t, t);
    float scale = __builtin_bit_cast(float, (bits + 127u) << 23);
    return x < -87.0f ? 0.0f : p * scale;
}

// Four points against `len` neighbours: out[r][j] = exp(-1/2 |x_r - z_j|^2). Neighbours are stored by
// columns (stride apart), so that one load of a coordinate serves the four points.
MERCER_CLONES void rbf_single_four(const float* x, std::size_t dims, const float* columns,
                                   std::size_t stride, std::size_t len, float* const* out) {
    constexpr std::size_t LANES = 256;
    float s0[LANES], s1[LANES], s2[LANES], s3[LANES];
    for (std::size_t j0 = 0; j0 < len; j0 += LANES) {
        const std::size_t m = len - j0 < LANES ? len - j0 : LANES;
        for (std::size_t j = 0; j < m; ++j) s0[j] = s1[j] = s2[j] = s3[j] = 0.0f;
        for (std::size_t d = 0; d < dims; ++d) {
            const float* c = columns + d * stride + j0;
            const float a = x[d], b = x[dims + d], e = x[2 * dims + d], f = x[3 * dims + d];
            for (std::size_t j = 0; j < m; ++j) {
                const float z = c[j];
                s0[j] += (a - z) * (a - z);
                s1[j] += (b - z) * (b - z);
                s2[j] += (e - z) * (e - z);
                s3[j] += (f - z) * (f - z);
            }
        }
        for (std::size_t j = 0; j < m; ++j) out[0][j0 + j] = exp_negative_single(-0.5f * s0[j]);
        for (std::size_t j = 0; j < m; ++j) out[1][j0 + j] = exp_negative_single(-0.5f * s1[j]);
        for (std::size_t j = 0; j < m; ++j) out[2][j0 + j] = exp_negative_single(-0.5f * s2[j]);
        for (std::size_t j = 0; j < m; ++j) out[3][j0 + j] = exp_negative_single(-0.5f * s3[j]);
    }
}

// One point against `len` neighbours: out[j] = variance exp(-1/2 |x - z_j|^2), four coordinates a turn.
MERCER_CLONES void rbf_single_one(const float* x, std::size_t dims, const float* columns,
                                  std::size_t stride, std::size_t len, float variance, float* out) {
    constexpr std::size_t LANES = 512;
    float s[LANES];
    for (std::size_t j0 = 0; j0 < len; j0 += LANES) {
        const std::size_t m = len - j0 < LANES ? len - j0 : LANES;
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
