// The compiled core: fused rows of stationary kernels, and the gradient contraction of formula (3).
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "patience.hpp"
#include "rows.hpp"

namespace nb = nanobind;
using Matrix = nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using ConstMatrix = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using ConstVector = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Vector = nb::ndarray<double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

namespace {

constexpr std::size_t TILE = 128;
constexpr const char* UNKNOWN = "there is no such profile";

// The columns of Z, each contiguous, so that loops over neighbours have unit stride.
std::vector<double> columns_of(const double* Z, std::size_t m, std::size_t dims) {
    std::vector<double> columns(m * dims);
    for (std::size_t j = 0; j < m; ++j)
        for (std::size_t d = 0; d < dims; ++d) columns[d * m + j] = Z[j * dims + d];
    return columns;
}

void require(bool fine, const char* message) {
    if (!fine) throw nb::value_error(message);
}

// Visit the tiles of an n x m matrix; a symmetric one only on and below the diagonal. after() follows
// each row of tiles.
template <class Visit, class After>
void for_tiles(std::size_t n, std::size_t m, bool symmetric, Visit visit, After after) {
    for (std::size_t i = 0; i < n; i += TILE) {
        for (std::size_t j = 0; j < (symmetric ? i + 1 : m); j += TILE)
            visit(i, std::min(n, i + TILE), j, std::min(m, j + TILE));
        after();
    }
}

// The same where nothing may come between: a matrix that is half turned is no matrix.
template <class Visit>
void for_all_tiles(std::size_t n, Visit visit) {
    for_tiles(n, n, true, visit, [] {});
}

// out (n, m) = factor profile(s) of the squared distances s of X (n, d) and Z (m, d); profile < 0: s
// itself. same: Z is X, out is filled symmetrically.
void stationary(int profile, ConstMatrix X, ConstMatrix Z, bool same, Matrix out, double factor) {
    const std::size_t n = X.shape(0), m = Z.shape(0), dims = X.shape(1);
    require(Z.shape(1) == dims && out.shape(0) == n && out.shape(1) == m && (!same || n == m),
            "shapes do not match");
    require(profile <= mercer::MATERN52, UNKNOWN);
    nb::gil_scoped_release release;
    const std::vector<double> columns = columns_of(Z.data(), m, dims);
    double* K = out.data();
    for_tiles(n, m, same, [&](std::size_t i0, std::size_t i1, std::size_t j0, std::size_t j1) {
        double s[TILE];
        for (std::size_t i = i0; i < i1; ++i) {
            double* row = K + i * m + j0;
            double* distances = profile < 0 ? row : s;
            mercer::row_sqdist(X.data() + i * dims, columns.data() + j0, m, dims, j1 - j0, distances);
            if (profile >= 0) mercer::row_profile(profile, s, j1 - j0, row);
            if (factor != 1.0)
                for (std::size_t j = 0; j < j1 - j0; ++j) row[j] *= factor;
        }
        if (same && i0 != j0)
            for (std::size_t j = j0; j < j1; ++j)
                for (std::size_t i = i0; i < i1; ++i) K[j * m + i] = K[i * m + j];
    }, mercer::Patience());
}

// out (n, r) = factor profile(s) V' for V (r, m), one column of the product a row: kernel values are
// formed and used tile by tile, and the n x m matrix is never stored.
void stationary_matmul(int profile, ConstMatrix X, ConstMatrix Z, ConstMatrix V, Matrix out,
                       double factor) {
    const std::size_t n = X.shape(0), m = Z.shape(0), dims = X.shape(1), r = V.shape(0);
    require(Z.shape(1) == dims && V.shape(1) == m && out.shape(0) == n && out.shape(1) == r,
            "shapes do not match");
    require(profile >= 0 && profile <= mercer::MATERN52, UNKNOWN);
    nb::gil_scoped_release release;
    const std::vector<double> columns = columns_of(Z.data(), m, dims);
    std::fill(out.data(), out.data() + n * r, 0.0);
    for_tiles(n, m, false, [&](std::size_t i0, std::size_t i1, std::size_t j0, std::size_t j1) {
        double s[TILE], k[TILE];
        for (std::size_t i = i0; i < i1; ++i) {
            mercer::row_sqdist(X.data() + i * dims, columns.data() + j0, m, dims, j1 - j0, s);
            mercer::row_profile(profile, s, j1 - j0, k);
            for (std::size_t c = 0; c < r; ++c)
                out.data()[i * r + c] += mercer::row_dot(k, V.data() + c * m + j0, j1 - j0);
        }
    }, mercer::Patience());
    if (factor != 1.0)
        for (std::size_t i = 0; i < n * r; ++i) out.data()[i] *= factor;
}

// sums[d] = sum_ij Q_ij profile'(s_ij) (x_id - z_jd)^2; returns sum_ij Q_ij profile(s_ij).
// same: Z is X and Q is symmetric.
double stationary_pullback(int profile, ConstMatrix X, ConstMatrix Z, bool same, ConstMatrix Q,
                           Vector sums) {
    const std::size_t n = X.shape(0), m = Z.shape(0), dims = X.shape(1);
    require(Z.shape(1) == dims && Q.shape(0) == n && Q.shape(1) == m && sums.shape(0) == dims &&
                (!same || n == m),
            "shapes do not match");
    require(profile >= 0 && profile <= mercer::MATERN52, UNKNOWN);
    nb::gil_scoped_release release;
    const std::vector<double> columns = columns_of(Z.data(), m, dims);
    double total = 0.0;
    std::fill(sums.data(), sums.data() + dims, 0.0);
    for_tiles(n, m, same, [&](std::size_t i0, std::size_t i1, std::size_t j0, std::size_t j1) {
        double s[TILE], k[TILE], slope[TILE], weighted[TILE];
        const std::size_t len = j1 - j0;
        const double factor = same && i0 != j0 ? 2.0 : 1.0;
        for (std::size_t i = i0; i < i1; ++i) {
            const double* x = X.data() + i * dims;
            mercer::row_sqdist(x, columns.data() + j0, m, dims, len, s);
            mercer::row_profile_slope(profile, s, len, k, slope);
            total += factor * mercer::row_weigh(Q.data() + i * m + j0, k, slope, len, weighted);
            mercer::row_spread(x, columns.data() + j0, m, dims, len, weighted, factor, sums.data());
        }
    }, mercer::Patience());
    return total;
}

// sums[d] = sum_ij M_ij (x_id - z_jd)^2 for any weights M (n, m).
void weighted_spread(ConstMatrix X, ConstMatrix Z, ConstMatrix M, Vector sums) {
    const std::size_t n = X.shape(0), m = Z.shape(0), dims = X.shape(1);
    require(Z.shape(1) == dims && M.shape(0) == n && M.shape(1) == m && sums.shape(0) == dims,
            "shapes do not match");
    nb::gil_scoped_release release;
    const std::vector<double> columns = columns_of(Z.data(), m, dims);
    std::fill(sums.data(), sums.data() + dims, 0.0);
    for_tiles(n, m, false, [&](std::size_t i0, std::size_t i1, std::size_t j0, std::size_t j1) {
        for (std::size_t i = i0; i < i1; ++i)
            mercer::row_spread(X.data() + i * dims, columns.data() + j0, m, dims, j1 - j0,
                               M.data() + i * m + j0, 1.0, sums.data());
    }, mercer::Patience());
}

// Copy the upper triangle to the lower one, tile by tile.
void mirror_upper(Matrix A) {
    const std::size_t n = A.shape(0);
    require(A.shape(1) == n, "the matrix must be square");
    nb::gil_scoped_release release;
    double* a = A.data();
    for_all_tiles(n, [&](std::size_t i0, std::size_t i1, std::size_t j0, std::size_t j1) {
        for (std::size_t i = i0; i < i1; ++i)
            for (std::size_t j = j0; j < std::min(j1, i); ++j) a[i * n + j] = a[j * n + i];
    });
}

// Exchange the strictly upper and the strictly lower triangle: a transpose in place.
void swap_triangles(Matrix A) {
    const std::size_t n = A.shape(0);
    require(A.shape(1) == n, "the matrix must be square");
    nb::gil_scoped_release release;
    double* a = A.data();
    for_all_tiles(n, [&](std::size_t i0, std::size_t i1, std::size_t j0, std::size_t j1) {
        for (std::size_t i = i0; i < i1; ++i)
            for (std::size_t j = j0; j < std::min(j1, i); ++j) std::swap(a[i * n + j], a[j * n + i]);
    });
}

// Upper triangle: M_ij += s_i s_j A_ij for i <= j.
void add_scaled_upper(ConstMatrix A, ConstVector s, Matrix M) {
    const std::size_t n = A.shape(0);
    require(A.shape(1) == n && s.shape(0) == n && M.shape(0) == n && M.shape(1) == n,
            "shapes do not match");
    nb::gil_scoped_release release;
    const double* w = s.data();
    for (std::size_t i = 0; i < n; ++i) {
        const double* from = A.data() + i * n;
        double* row = M.data() + i * n;
        const double si = w[i];
#pragma omp simd
        for (std::size_t j = i; j < n; ++j) row[j] += from[j] * (si * w[j]);
    }
}

// Upper triangles: out_ij = s_i s_j A_ij for i < j, out_ii = diagonal. out may be A.
void scale_upper(ConstMatrix A, ConstVector s, double diagonal, Matrix out) {
    const std::size_t n = A.shape(0);
    require(A.shape(1) == n && s.shape(0) == n && out.shape(0) == n && out.shape(1) == n,
            "shapes do not match");
    nb::gil_scoped_release release;
    const double* w = s.data();
    for (std::size_t i = 0; i < n; ++i) {
        const double* from = A.data() + i * n;
        double* row = out.data() + i * n;
        const double si = w[i];
        row[i] = diagonal;
#pragma omp simd
        for (std::size_t j = i + 1; j < n; ++j) row[j] = from[j] * (si * w[j]);
    }
}

// In place, from the upper triangle of an inverse: A_ij <- (sum_k a_ik a_jk - count s_i s_j A_ij) / 2.
void gradient_weights(Matrix A, ConstVector s, ConstMatrix a, double count) {
    const std::size_t n = A.shape(0), m = a.shape(1);
    require(A.shape(1) == n && s.shape(0) == n && a.shape(0) == n, "shapes do not match");
    nb::gil_scoped_release release;
    double* q = A.data();
    const double* w = s.data();
    const std::vector<double> columns = columns_of(a.data(), n, m);
    for_tiles(n, n, true, [&](std::size_t i0, std::size_t i1, std::size_t j0, std::size_t j1) {
        // (j, i) is the upper tile: rows j0..j1, columns i0..i1.
        for (std::size_t j = j0; j < j1; ++j) {
            const std::size_t first = std::max(i0, j);
            double* row = q + j * n;
            const double sj = 0.5 * count * w[j];
            for (std::size_t i = first; i < i1; ++i) row[i] *= -sj * w[i];
            for (std::size_t k = 0; k < m; ++k) {
                const double* c = columns.data() + k * n;
                const double half = 0.5 * c[j];
                for (std::size_t i = first; i < i1; ++i) row[i] += half * c[i];
            }
        }
        for (std::size_t i = i0; i < i1; ++i)
            for (std::size_t j = j0; j < std::min(j1, i); ++j) q[i * n + j] = q[j * n + i];
    }, mercer::Patience());
}

}  // namespace

NB_MODULE(core, module) {
    // Arrays that are written to are taken as they are or refused: a converted copy would be lost.
    using nb::literals::operator""_a;
    module.doc() = "Compiled core of mercer: fused kernel rows and gradient contractions.";
    module.def("stationary", &stationary, "profile"_a, "X"_a, "Z"_a, "same"_a, "out"_a.noconvert(), "factor"_a = 1.0);
    module.def("stationary_matmul", &stationary_matmul, "profile"_a, "X"_a, "Z"_a, "V"_a,
               "out"_a.noconvert(), "factor"_a = 1.0);
    module.def("stationary_pullback", &stationary_pullback, "profile"_a, "X"_a, "Z"_a, "same"_a,
               "Q"_a, "sums"_a.noconvert());
    module.def("weighted_spread", &weighted_spread, "X"_a, "Z"_a, "M"_a, "sums"_a.noconvert());
    module.def("mirror_upper", &mirror_upper, "A"_a.noconvert());
    module.def("swap_triangles", &swap_triangles, "A"_a.noconvert());
    module.def("add_scaled_upper", &add_scaled_upper, "A"_a, "s"_a, "M"_a.noconvert());
    module.def("scale_upper", &scale_upper, "A"_a, "s"_a, "diagonal"_a, "out"_a.noconvert());
    module.def("gradient_weights", &gradient_weights, "A"_a.noconvert(), "s"_a, "a"_a, "count"_a);
}
