// The compiled core: fused rows of stationary kernels, and the gradient contraction of formula (3).
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "columns.hpp"
#include "rows.hpp"
#include "threads.hpp"

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

// Visit the tiles of an n x m matrix, a symmetric one only on and below the diagonal: visit(i0, i1,
// j0, j1). A row of tiles is the work of one thread, from left to right; the longest come first.
template <class Visit>
void for_tiles(std::size_t threads, std::size_t n, std::size_t m, bool symmetric, Visit visit) {
    const std::size_t rows = (n + TILE - 1) / TILE;
    mercer::in_parallel(threads, rows, [&](std::size_t k) {
        const std::size_t i = (rows - 1 - k) * TILE;
        for (std::size_t j = 0; j < (symmetric ? i + 1 : m); j += TILE)
            visit(i, std::min(n, i + TILE), j, std::min(m, j + TILE));
    });
}

// The same where nothing may come between: a matrix that is half turned is no matrix.
template <class Visit>
void for_all_tiles(std::size_t n, Visit visit) {
    for (std::size_t i = 0; i < n; i += TILE)
        for (std::size_t j = 0; j <= i; j += TILE)
            visit(i, std::min(n, i + TILE), j, std::min(n, j + TILE));
}

// Rows i of an upper triangle (n, n), to the end of each: nothing comes between either.
template <class Visit>
void for_upper_rows(std::size_t threads, std::size_t n, Visit visit) {
    constexpr std::size_t ROWS = 32;
    const std::size_t items = (n + ROWS - 1) / ROWS;
    mercer::Pool(std::min(threads, items)).run(items, [&](std::size_t k) {
        for (std::size_t i = k * ROWS; i < std::min(n, (k + 1) * ROWS); ++i) visit(i);
    });
}

// A sum (size,) over the tiles of a matrix: one part for each row of tiles, put together in order.
struct Parts {
    std::size_t size;
    std::vector<double> values;
    Parts(std::size_t n, std::size_t size) : size(size), values((n + TILE - 1) / TILE * size, 0.0) {}
    double* at(std::size_t i0) { return values.data() + i0 / TILE * size; }
    double sum(std::size_t d) const {
        double total = 0.0;
        for (std::size_t k = d; k < values.size(); k += size) total += values[k];
        return total;
    }
};

// out (n, m) = factor profile(s) of the squared distances s of X (n, d) and Z (m, d); profile < 0: s
// itself. same: Z is X, out is filled symmetrically.
void stationary(int profile, ConstMatrix X, ConstMatrix Z, bool same, Matrix out, double factor,
                std::size_t threads) {
    const std::size_t n = X.shape(0), m = Z.shape(0), dims = X.shape(1);
    require(Z.shape(1) == dims && out.shape(0) == n && out.shape(1) == m && (!same || n == m),
            "shapes do not match");
    require(profile <= mercer::MATERN52, UNKNOWN);
    nb::gil_scoped_release release;
    const std::vector<double> columns = columns_of(Z.data(), m, dims);
    double* K = out.data();
    for_tiles(threads, n, m, same, [&](std::size_t i0, std::size_t i1, std::size_t j0, std::size_t j1) {
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
    });
}

// out (n, r) = factor profile(s) V' for V (r, m), one column of the product a row: kernel values are
// formed and used tile by tile, and the n x m matrix is never stored.
void stationary_matmul(int profile, ConstMatrix X, ConstMatrix Z, ConstMatrix V, Matrix out,
                       double factor, std::size_t threads) {
    const std::size_t n = X.shape(0), m = Z.shape(0), dims = X.shape(1), r = V.shape(0);
    require(Z.shape(1) == dims && V.shape(1) == m && out.shape(0) == n && out.shape(1) == r,
            "shapes do not match");
    require(profile >= 0 && profile <= mercer::MATERN52, UNKNOWN);
    nb::gil_scoped_release release;
    const std::vector<double> columns = columns_of(Z.data(), m, dims);
    std::fill(out.data(), out.data() + n * r, 0.0);
    for_tiles(threads, n, m, false, [&](std::size_t i0, std::size_t i1, std::size_t j0, std::size_t j1) {
        double s[TILE], k[TILE];
        for (std::size_t i = i0; i < i1; ++i) {
            mercer::row_sqdist(X.data() + i * dims, columns.data() + j0, m, dims, j1 - j0, s);
            mercer::row_profile(profile, s, j1 - j0, k);
            for (std::size_t c = 0; c < r; ++c)
                out.data()[i * r + c] += mercer::row_dot(k, V.data() + c * m + j0, j1 - j0);
        }
    });
    if (factor != 1.0)
        for (std::size_t i = 0; i < n * r; ++i) out.data()[i] *= factor;
}

// sums[d] = sum_ij Q_ij profile'(s_ij) (x_id - z_jd)^2; returns sum_ij Q_ij profile(s_ij).
// same: Z is X and Q is symmetric.
double stationary_pullback(int profile, ConstMatrix X, ConstMatrix Z, bool same, ConstMatrix Q,
                           Vector sums, std::size_t threads) {
    const std::size_t n = X.shape(0), m = Z.shape(0), dims = X.shape(1);
    require(Z.shape(1) == dims && Q.shape(0) == n && Q.shape(1) == m && sums.shape(0) == dims &&
                (!same || n == m),
            "shapes do not match");
    require(profile >= 0 && profile <= mercer::MATERN52, UNKNOWN);
    nb::gil_scoped_release release;
    const std::vector<double> columns = columns_of(Z.data(), m, dims);
    Parts parts(n, dims + 1);
    for_tiles(threads, n, m, same, [&](std::size_t i0, std::size_t i1, std::size_t j0, std::size_t j1) {
        double s[TILE], k[TILE], slope[TILE], weighted[TILE];
        const std::size_t len = j1 - j0;
        const double factor = same && i0 != j0 ? 2.0 : 1.0;
        double* part = parts.at(i0);
        for (std::size_t i = i0; i < i1; ++i) {
            const double* x = X.data() + i * dims;
            mercer::row_sqdist(x, columns.data() + j0, m, dims, len, s);
            mercer::row_profile_slope(profile, s, len, k, slope);
            part[dims] += factor * mercer::row_weigh(Q.data() + i * m + j0, k, slope, len, weighted);
            mercer::row_spread(x, columns.data() + j0, m, dims, len, weighted, factor, part);
        }
    });
    for (std::size_t d = 0; d < dims; ++d) sums.data()[d] = parts.sum(d);
    return parts.sum(dims);
}

// The shares of columns, null if there are none.
const double* shares_of(const ConstVector& shares, std::size_t dims) {
    require(shares.shape(0) == 0 || shares.shape(0) == dims, "shapes do not match");
    return shares.shape(0) ? shares.data() : nullptr;
}

// out (n, m) = factor times the product over the columns of X (n, d) and Z (m, d), mixed with
// constants by shares (d,), none: (0,). same: Z is X, out is filled symmetrically.
void separable(int profile, ConstMatrix X, ConstMatrix Z, bool same, ConstVector shares, Matrix out,
               double factor, std::size_t threads) {
    const std::size_t n = X.shape(0), m = Z.shape(0), dims = X.shape(1);
    require(Z.shape(1) == dims && out.shape(0) == n && out.shape(1) == m && (!same || n == m),
            "shapes do not match");
    require(profile >= 0 && profile <= mercer::MATERN52, UNKNOWN);
    const double* w = shares_of(shares, dims);
    nb::gil_scoped_release release;
    const std::vector<double> columns = columns_of(Z.data(), m, dims);
    double* K = out.data();
    for_tiles(threads, n, m, same, [&](std::size_t i0, std::size_t i1, std::size_t j0, std::size_t j1) {
        for (std::size_t i = i0; i < i1; ++i) {
            double* row = K + i * m + j0;
            mercer::row_product(profile, X.data() + i * dims, columns.data() + j0, m, dims, j1 - j0, w, row);
            if (factor != 1.0)
                for (std::size_t j = 0; j < j1 - j0; ++j) row[j] *= factor;
        }
        if (same && i0 != j0)
            for (std::size_t j = j0; j < j1; ++j)
                for (std::size_t i = i0; i < i1; ++i) K[j * m + i] = K[i * m + j];
    });
}

// by_scale[d] = sum_ij Q_ij dk_ij / d log(length scale d), by_share[d] the same for the shares; returns
// sum_ij Q_ij k_ij. same: Z is X and Q is symmetric.
double separable_pullback(int profile, ConstMatrix X, ConstMatrix Z, bool same, ConstVector shares,
                          ConstMatrix Q, Vector by_scale, Vector by_share, std::size_t threads) {
    const std::size_t n = X.shape(0), m = Z.shape(0), dims = X.shape(1);
    require(Z.shape(1) == dims && Q.shape(0) == n && Q.shape(1) == m && by_scale.shape(0) == dims &&
                by_share.shape(0) == dims && (!same || n == m),
            "shapes do not match");
    require(profile >= 0 && profile <= mercer::MATERN52, UNKNOWN);
    const double* w = shares_of(shares, dims);
    nb::gil_scoped_release release;
    const std::vector<double> columns = columns_of(Z.data(), m, dims);
    Parts parts(n, 2 * dims + 1);
    for_tiles(threads, n, m, same, [&](std::size_t i0, std::size_t i1, std::size_t j0, std::size_t j1) {
        double k[TILE], weighted[TILE];
        const std::size_t len = j1 - j0;
        const double factor = same && i0 != j0 ? 2.0 : 1.0;
        double* part = parts.at(i0);
        for (std::size_t i = i0; i < i1; ++i) {
            const double* x = X.data() + i * dims;
            const double* q = Q.data() + i * m + j0;
            mercer::row_product(profile, x, columns.data() + j0, m, dims, len, w, k);
            part[2 * dims] += factor * mercer::row_weigh(q, k, k, len, weighted);
            mercer::row_product_slopes(profile, x, columns.data() + j0, m, dims, len, w, weighted,
                                       factor, part, part + dims);
        }
    });
    for (std::size_t d = 0; d < dims; ++d) {
        by_scale.data()[d] = parts.sum(d);
        by_share.data()[d] = parts.sum(dims + d);
    }
    return parts.sum(2 * dims);
}

// moved (n, d) = d sum_ij Q_ij k_ij / d X.
void separable_moves(int profile, ConstMatrix X, ConstMatrix Z, ConstVector shares, ConstMatrix Q, Matrix moved,
                     std::size_t threads) {
    const std::size_t n = X.shape(0), m = Z.shape(0), dims = X.shape(1);
    require(Z.shape(1) == dims && Q.shape(0) == n && Q.shape(1) == m && moved.shape(0) == n &&
                moved.shape(1) == dims,
            "shapes do not match");
    require(profile >= 0 && profile <= mercer::MATERN52, UNKNOWN);
    const double* w = shares_of(shares, dims);
    nb::gil_scoped_release release;
    const std::vector<double> columns = columns_of(Z.data(), m, dims);
    std::fill(moved.data(), moved.data() + n * dims, 0.0);
    for_tiles(threads, n, m, false, [&](std::size_t i0, std::size_t i1, std::size_t j0, std::size_t j1) {
        double k[TILE], weighted[TILE];
        const std::size_t len = j1 - j0;
        for (std::size_t i = i0; i < i1; ++i) {
            const double* x = X.data() + i * dims;
            mercer::row_product(profile, x, columns.data() + j0, m, dims, len, w, k);
            mercer::row_weigh(Q.data() + i * m + j0, k, k, len, weighted);
            mercer::row_product_moves(profile, x, columns.data() + j0, m, dims, len, w, weighted,
                                      moved.data() + i * dims);
        }
    });
}

// sums[d] = sum_ij M_ij (x_id - z_jd)^2 for any weights M (n, m).
void weighted_spread(ConstMatrix X, ConstMatrix Z, ConstMatrix M, Vector sums,
                     std::size_t threads) {
    const std::size_t n = X.shape(0), m = Z.shape(0), dims = X.shape(1);
    require(Z.shape(1) == dims && M.shape(0) == n && M.shape(1) == m && sums.shape(0) == dims,
            "shapes do not match");
    nb::gil_scoped_release release;
    const std::vector<double> columns = columns_of(Z.data(), m, dims);
    Parts parts(n, dims);
    for_tiles(threads, n, m, false, [&](std::size_t i0, std::size_t i1, std::size_t j0, std::size_t j1) {
        for (std::size_t i = i0; i < i1; ++i)
            mercer::row_spread(X.data() + i * dims, columns.data() + j0, m, dims, j1 - j0,
                               M.data() + i * m + j0, 1.0, parts.at(i0));
    });
    for (std::size_t d = 0; d < dims; ++d) sums.data()[d] = parts.sum(d);
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
void add_scaled_upper(ConstMatrix A, ConstVector s, Matrix M, std::size_t threads) {
    const std::size_t n = A.shape(0);
    require(A.shape(1) == n && s.shape(0) == n && M.shape(0) == n && M.shape(1) == n,
            "shapes do not match");
    nb::gil_scoped_release release;
    const double* w = s.data();
    for_upper_rows(threads, n, [&](std::size_t i) {
        const double* from = A.data() + i * n;
        double* row = M.data() + i * n;
        const double si = w[i];
#pragma omp simd
        for (std::size_t j = i; j < n; ++j) row[j] += from[j] * (si * w[j]);
    });
}

// Upper triangles: out_ij = s_i s_j A_ij for i < j, out_ii = diagonal. out may be A.
void scale_upper(ConstMatrix A, ConstVector s, double diagonal, Matrix out, std::size_t threads) {
    const std::size_t n = A.shape(0);
    require(A.shape(1) == n && s.shape(0) == n && out.shape(0) == n && out.shape(1) == n,
            "shapes do not match");
    nb::gil_scoped_release release;
    const double* w = s.data();
    for_upper_rows(threads, n, [&](std::size_t i) {
        const double* from = A.data() + i * n;
        double* row = out.data() + i * n;
        const double si = w[i];
        row[i] = diagonal;
#pragma omp simd
        for (std::size_t j = i + 1; j < n; ++j) row[j] = from[j] * (si * w[j]);
    });
}

// In place, from the upper triangle of an inverse: A_ij <- (sum_k a_ik a_jk - count s_i s_j A_ij) / 2.
void gradient_weights(Matrix A, ConstVector s, ConstMatrix a, double count,
                      std::size_t threads) {
    const std::size_t n = A.shape(0), m = a.shape(1);
    require(A.shape(1) == n && s.shape(0) == n && a.shape(0) == n, "shapes do not match");
    nb::gil_scoped_release release;
    double* q = A.data();
    const double* w = s.data();
    const std::vector<double> columns = columns_of(a.data(), n, m);
    for_tiles(threads, n, n, true, [&](std::size_t i0, std::size_t i1, std::size_t j0, std::size_t j1) {
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
    });
}

}  // namespace

NB_MODULE(core, module) {
    // Arrays that are written to are taken as they are or refused: a converted copy would be lost.
    using nb::literals::operator""_a;
    module.doc() = "Compiled core of mercer: fused kernel rows and gradient contractions.";
    module.def("stationary", &stationary, "profile"_a, "X"_a, "Z"_a, "same"_a,
               "out"_a.noconvert(), "factor"_a = 1.0, "threads"_a = 1);
    module.def("stationary_matmul", &stationary_matmul, "profile"_a, "X"_a, "Z"_a, "V"_a,
               "out"_a.noconvert(), "factor"_a = 1.0, "threads"_a = 1);
    module.def("stationary_pullback", &stationary_pullback, "profile"_a, "X"_a, "Z"_a, "same"_a,
               "Q"_a, "sums"_a.noconvert(), "threads"_a = 1);
    module.def("separable", &separable, "profile"_a, "X"_a, "Z"_a, "same"_a, "shares"_a,
               "out"_a.noconvert(), "factor"_a = 1.0, "threads"_a = 1);
    module.def("separable_pullback", &separable_pullback, "profile"_a, "X"_a, "Z"_a, "same"_a,
               "shares"_a, "Q"_a, "by_scale"_a.noconvert(), "by_share"_a.noconvert(),
               "threads"_a = 1);
    module.def("separable_moves", &separable_moves, "profile"_a, "X"_a, "Z"_a, "shares"_a, "Q"_a,
               "moved"_a.noconvert(), "threads"_a = 1);
    module.def("weighted_spread", &weighted_spread, "X"_a, "Z"_a, "M"_a, "sums"_a.noconvert(),
               "threads"_a = 1);
    module.def("mirror_upper", &mirror_upper, "A"_a.noconvert());
    module.def("swap_triangles", &swap_triangles, "A"_a.noconvert());
    module.def("add_scaled_upper", &add_scaled_upper, "A"_a, "s"_a, "M"_a.noconvert(),
               "threads"_a = 1);
    module.def("scale_upper", &scale_upper, "A"_a, "s"_a, "diagonal"_a, "out"_a.noconvert(),
               "threads"_a = 1);
    module.def("gradient_weights", &gradient_weights, "A"_a.noconvert(), "s"_a, "a"_a, "count"_a,
               "threads"_a = 1);
}
