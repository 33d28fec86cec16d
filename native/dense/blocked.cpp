// Cholesky factor and inverse by halves, over the BLAS that SciPy carries.
//
// OpenBLAS solves with a triangle at about half the rate at which it multiplies, and dpotrf and
// dtrtri spend much of their time there. Here a matrix is split into halves until a block has LEAF
// columns: all the rest is dgemm, dsyrk and dtrmm on large blocks, and the solves with the last
// triangles are done below, on vectors of eight rows. The operations are those of LAPACK in another
// order: substitution, never a product with the inverse of a block, so the factor is as stable.
//
// Several threads share the bands of a large block, each with a BLAS that has one thread: the bands
// are the same whatever the number of threads, and so is every bit of the result.
//
// Matrices are LAPACK's: column-major, the lower triangle is meant.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "threads.hpp"

namespace nb = nanobind;
using Matrix = nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using ConstMatrix = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Vector = nb::ndarray<double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && !defined(__clang__)
#define MERCER_WIDE 1
#else
#define MERCER_WIDE 0
#endif

namespace {

using std::size_t;
using Text = const char*;
using Int = const int*;
using In = const double*;
using Out = double*;

struct Routines {
    void (*gemm)(Text, Text, Int, Int, Int, In, In, Int, In, Int, In, Out, Int) = nullptr;
    void (*syrk)(Text, Text, Int, Int, In, In, Int, In, Out, Int) = nullptr;
    void (*trsm)(Text, Text, Text, Text, Int, Int, In, In, Int, Out, Int) = nullptr;
    void (*trmm)(Text, Text, Text, Text, Int, Int, In, In, Int, Out, Int) = nullptr;
    void (*potrf)(Text, Int, Out, Int, int*) = nullptr;
    void (*trtri)(Text, Text, Int, Out, Int, int*) = nullptr;
    void (*lauum)(Text, Int, Out, Int, int*) = nullptr;
} blas;

constexpr int LEAF = 64;  // columns of the triangles that are solved with directly
constexpr int WIDE = 8, COLUMNS = 8, ROWS = 3 * WIDE;  // 24 registers hold ROWS x COLUMNS results
constexpr int BAND = 1024;  // rows or columns of a large block that one thread works on at a time
constexpr int PANEL = 256;  // columns of rows that are turned for it
constexpr double ONE = 1.0, MINUS = -1.0;

// The first half of n columns, in whole leaves.
int half(int n) { return (n / 2 + LEAF - 1) / LEAF * LEAF; }

#if MERCER_WIDE
typedef double Lanes __attribute__((vector_size(8 * WIDE), aligned(8), may_alias));

// Where the number of columns k and j stands: those that are used together lie together.
inline size_t place(size_t n, size_t k, size_t j) { return (j / COLUMNS * n + k) * COLUMNS + j % COLUMNS; }

// X (ROWS, n) <- X L^-T (forward) or X L^-1, n a multiple of COLUMNS. p[place(n, k, j)]
// multiplies column k of the result in column j; solved (ROWS, n) is room for the columns that are done.
template <bool forward>
__attribute__((target("arch=x86-64-v4"))) void solve_rows(int n, const double* p,
                                                          const double* inverse, double* X,
                                                          size_t ld, double* solved) {
    for (int step = 0; step < n; step += COLUMNS) {
        const int j0 = forward ? step : n - step - COLUMNS;
        Lanes a[COLUMNS][3];
#pragma GCC unroll 8
        for (int c = 0; c < COLUMNS; ++c)
#pragma GCC unroll 3
            for (int r = 0; r < 3; ++r) a[c][r] = ((const Lanes*)(X + (j0 + c) * ld))[r];
        for (int k = forward ? 0 : j0 + COLUMNS; k < (forward ? j0 : n); ++k) {
            const Lanes* x = (const Lanes*)(solved + k * ROWS);
            const Lanes x0 = x[0], x1 = x[1], x2 = x[2];
#pragma GCC unroll 8
            for (int c = 0; c < COLUMNS; ++c) {
                const double q = p[place(n, k, j0) + c];
                a[c][0] -= x0 * q, a[c][1] -= x1 * q, a[c][2] -= x2 * q;
            }
        }
#pragma GCC unroll 8
        for (int turn = 0; turn < COLUMNS; ++turn) {  // the triangle within these columns
            const int c = forward ? turn : COLUMNS - 1 - turn;
            const double d = inverse[j0 + c];
            a[c][0] *= d, a[c][1] *= d, a[c][2] *= d;
#pragma GCC unroll 8
            for (int e = 0; e < COLUMNS; ++e)
                if (forward ? e > c : e < c) {
                    const double q = p[place(n, j0 + c, j0) + e];
                    a[e][0] -= a[c][0] * q, a[e][1] -= a[c][1] * q, a[e][2] -= a[c][2] * q;
                }
        }
#pragma GCC unroll 8
        for (int c = 0; c < COLUMNS; ++c)
#pragma GCC unroll 3
            for (int r = 0; r < 3; ++r)
                ((Lanes*)(X + (j0 + c) * ld))[r] = ((Lanes*)(solved + (j0 + c) * ROWS))[r] = a[c][r];
    }
}

// The same for the first m - m % ROWS rows of X (m, LEAF); returns how many were done.
template <bool forward>
int solve_leaf(int m, const double* L, double* X, size_t ld) {
    alignas(64) double p[LEAF * LEAF], inverse[LEAF], solved[ROWS * LEAF];
    for (int j = 0; j < LEAF; ++j) {
        inverse[j] = 1.0 / L[j + j * ld];
        for (int i = j + 1; i < LEAF; ++i)
            p[forward ? place(LEAF, j, i) : place(LEAF, i, j)] = L[i + j * ld];
    }
    int i = 0;
    for (; i + ROWS <= m; i += ROWS) solve_rows<forward>(LEAF, p, inverse, X + i, ld, solved);
    return i;
}

// Turn 8 rows of 8 numbers into columns.
__attribute__((target("arch=x86-64-v4"))) inline void turn(const double* from, size_t apart,
                                                           double* to, size_t beside) {
    typedef long long Order __attribute__((vector_size(8 * WIDE)));
    Lanes a[WIDE], b[WIDE];
    for (int r = 0; r < WIDE; ++r) a[r] = *(const Lanes*)(from + r * apart);
    for (int r = 0; r < WIDE; r += 2) {
        b[r] = __builtin_shuffle(a[r], a[r + 1], Order{0, 8, 2, 10, 4, 12, 6, 14});
        b[r + 1] = __builtin_shuffle(a[r], a[r + 1], Order{1, 9, 3, 11, 5, 13, 7, 15});
    }
    for (int r = 0; r < WIDE; r += 4)
        for (int e = 0; e < 2; ++e) {
            a[r + e] = __builtin_shuffle(b[r + e], b[r + e + 2], Order{0, 1, 8, 9, 4, 5, 12, 13});
            a[r + e + 2] = __builtin_shuffle(b[r + e], b[r + e + 2], Order{2, 3, 10, 11, 6, 7, 14, 15});
        }
    for (int r = 0; r < 4; ++r) {
        *(Lanes*)(to + r * beside) = __builtin_shuffle(a[r], a[r + 4], Order{0, 1, 2, 3, 8, 9, 10, 11});
        *(Lanes*)(to + (r + 4) * beside) =
            __builtin_shuffle(a[r], a[r + 4], Order{4, 5, 6, 7, 12, 13, 14, 15});
    }
}

// Rows X (q, c) <- X L^-T (forward) or X L^-1, row-major, c <= PANEL columns; the squares of a row of
// the result are added to its sum where there is one. ROWS of them are turned, solved, turned back.
template <bool forward>
void solve_panel(int q, int c, const double* L, size_t ld, double* X, size_t width, double* squares) {
    const int n = (c + COLUMNS - 1) / COLUMNS * COLUMNS, whole = c / WIDE * WIDE;
    std::vector<double> held(size_t(n) * n + n + 2 * size_t(ROWS) * n + WIDE, 0.0);
    const size_t off = reinterpret_cast<std::uintptr_t>(held.data()) / 8 % WIDE;
    double* turned = held.data() + (WIDE - off) % WIDE;  // a vector begins where a line of cache does
    double *solved = turned + ROWS * n, *p = solved + ROWS * n, *inverse = p + size_t(n) * n;
    std::fill(inverse, inverse + n, 1.0);  // columns beyond c stay zero
    for (int j = 0; j < c; ++j) {
        inverse[j] = 1.0 / L[j * ld + j];
        for (int i = j + 1; i < c; ++i) p[forward ? place(n, j, i) : place(n, i, j)] = L[i * ld + j];
    }
    for (int i = 0; i < q; i += ROWS) {
        const int rows = std::min(ROWS, q - i), full = rows == ROWS ? whole : 0;
        double* x = X + i * width;
        for (int j = 0; j < full; j += WIDE)
            for (int r = 0; r < ROWS; r += WIDE) turn(x + r * width + j, width, turned + j * ROWS + r, ROWS);
        for (int r = 0; r < rows; ++r)
            for (int j = full; j < c; ++j) turned[j * ROWS + r] = x[r * width + j];
        solve_rows<forward>(n, p, inverse, turned, ROWS, solved);
        for (int j = 0; j < full; j += WIDE)
            for (int r = 0; r < ROWS; r += WIDE) turn(turned + j * ROWS + r, ROWS, x + r * width + j, width);
        for (int r = 0; r < rows; ++r)
            for (int j = full; j < c; ++j) x[r * width + j] = turned[j * ROWS + r];
        if (squares) {
            double sums[ROWS] = {};
            for (int j = 0; j < c; ++j)
                for (int r = 0; r < ROWS; ++r) sums[r] += turned[j * ROWS + r] * turned[j * ROWS + r];
            for (int r = 0; r < rows; ++r) squares[i + r] += sums[r];
        }
    }
}
#else
template <bool forward>
int solve_leaf(int, const double*, double*, size_t) {
    return 0;
}
template <bool forward>
void solve_panel(int, int, const double*, size_t, double*, size_t, double*) {}
#endif

// The same for any number of columns m, of rows that are `width` apart.
template <bool forward>
void whiten(int q, int m, const double* L, int ld, double* X, int width, double* squares) {
    if (m <= PANEL) return solve_panel<forward>(q, m, L, ld, X, width, squares);
    const int panels = (m + PANEL - 1) / PANEL, each = (m + panels - 1) / panels;
    const int h = (each + WIDE - 1) / WIDE * WIDE * (panels / 2), r = m - h;
    const double* below = L + size_t(h) * ld;
    if (forward) {
        whiten<true>(q, h, L, ld, X, width, squares);
        blas.gemm("T", "N", &r, &q, &h, &MINUS, below, &ld, X, &width, &ONE, X + h, &width);
        whiten<true>(q, r, below + h, ld, X + h, width, squares);
    } else {
        whiten<false>(q, r, below + h, ld, X + h, width, squares);
        blas.gemm("N", "N", &h, &q, &r, &MINUS, below, &ld, X + h, &width, &ONE, X, &width);
        whiten<false>(q, h, L, ld, X, width, squares);
    }
}

// X (m, n) <- X L^-T (forward) or X L^-1
template <bool forward>
void solve(int m, int n, const double* L, double* X, int ld) {
    if (n <= LEAF) {
        const int done = n == LEAF ? solve_leaf<forward>(m, L, X, ld) : 0, rest = m - done;
        if (rest) blas.trsm("R", "L", forward ? "T" : "N", "N", &rest, &n, &ONE, L, &ld, X + done, &ld);
        return;
    }
    const int h = half(n), r = n - h;
    const double* below = L + h;
    const double* corner = below + size_t(h) * ld;
    double* right = X + size_t(h) * ld;
    if (forward) {
        solve<true>(m, h, L, X, ld);
        blas.gemm("N", "T", &m, &r, &h, &MINUS, X, &ld, below, &ld, &ONE, right, &ld);
        solve<true>(m, r, corner, right, ld);
    } else {
        solve<false>(m, r, corner, right, ld);
        blas.gemm("N", "N", &m, &h, &r, &MINUS, right, &ld, below, &ld, &ONE, X, &ld);
        solve<false>(m, h, L, X, ld);
    }
}

// Threads for the bands of a block, and Ctrl-C between two of them.
class Team {
    mercer::Pool pool;
    mercer::Patience patience;

  public:
    Team(size_t threads, int n) : pool(std::min(threads, size_t(n) / BAND + 1)) {}

    void look() { patience(); }

    // visit(first, count) for each band of n rows or columns.
    template <class Visit>
    void bands(int n, Visit&& visit) {
        const auto one = [&](size_t k) {
            const int first = int(k) * BAND;
            visit(first, std::min(BAND, n - first));
        };
        pool.run(size_t(n + BAND - 1) / BAND, one, [&] { return patience.over(); });
        patience.check();
    }
};

// X (m, n) <- X L^-T (forward) or X L^-1: rows are solved for on their own.
template <bool forward>
void solve_bands(int m, int n, const double* L, double* X, int ld, Team& team) {
    team.bands(m, [&](int i, int rows) { solve<forward>(rows, n, L, X + i, ld); });
}

// C (n, n) += sign A A' for A (n, k), or sign A'A for A (k, n), of the lower triangle
void add_square(bool turned, int n, int k, double sign, const double* A, double* C, int ld, Team& team) {
    const Text t = turned ? "T" : "N", u = turned ? "N" : "T";
    team.bands(n, [&](int j, int columns) {
        const double* own = A + (turned ? size_t(j) * ld : j);
        const double* rest = A + (turned ? size_t(j + columns) * ld : j + columns);
        double* corner = C + size_t(j) * ld + j;
        const int below = n - j - columns;
        blas.syrk("L", t, &columns, &k, &sign, own, &ld, &ONE, corner, &ld);
        if (below)
            blas.gemm(t, u, &below, &columns, &k, &sign, rest, &ld, own, &ld, &ONE, corner + columns, &ld);
    });
}

// B (m, n) <- sign L B, or sign L'B, for a lower triangle L (m, m)
void multiply(bool turned, int m, int n, double sign, const double* L, double* B, int ld, Team& team) {
    team.bands(n, [&](int j, int columns) {
        blas.trmm("L", "L", turned ? "T" : "N", "N", &m, &columns, &sign, L, &ld, B + size_t(j) * ld, &ld);
    });
}

// A = L L' over A; returns 0 or the order of the first leading minor that is not positive.
int factor(int n, double* A, int ld, Team& team) {
    int info = 0;
    team.look();
    if (n <= 2 * LEAF) {
        blas.potrf("L", &n, A, &ld, &info);
        return info;
    }
    const int h = half(n), r = n - h;
    double* below = A + h;
    double* corner = below + size_t(h) * ld;
    if ((info = factor(h, A, ld, team))) return info;
    solve_bands<true>(r, h, A, below, ld, team);
    add_square(false, r, h, MINUS, below, corner, ld, team);
    info = factor(r, corner, ld, team);
    return info ? info + h : 0;
}

// L^-1 over L. Lower left block: -L22^-1 L21 L11^-1, the left product with an inverse and the right
// by substitution, as dtrtri does it (Higham, Accuracy and Stability, section 14.2.2, method 2C).
void invert(int n, double* L, int ld, Team& team) {
    team.look();
    if (n <= LEAF) {
        int info = 0;
        blas.trtri("L", "N", &n, L, &ld, &info);
        return;
    }
    const int h = half(n), r = n - h;
    double* below = L + h;
    double* corner = below + size_t(h) * ld;
    invert(r, corner, ld, team);
    multiply(false, r, h, MINUS, corner, below, ld, team);
    solve_bands<false>(r, h, L, below, ld, team);
    invert(h, L, ld, team);
}

// L'L over L, the lower triangle: L11'L11 + L21'L21, L22'L21 and L22'L22.
void square(int n, double* L, int ld, Team& team) {
    team.look();
    if (n <= BAND) {
        int info = 0;
        blas.lauum("L", &n, L, &ld, &info);
        return;
    }
    const int h = half(n), r = n - h;
    double* below = L + h;
    double* corner = below + size_t(h) * ld;
    square(h, L, ld, team);
    add_square(true, h, r, ONE, below, L, ld, team);
    multiply(true, r, h, ONE, corner, below, ld, team);
    square(r, corner, ld, team);
}

template <class Square>
int order_of(const Square& A) {
    if (A.shape(0) != A.shape(1)) throw nb::value_error("the matrix must be square");
    if (A.shape(0) > size_t(std::numeric_limits<int>::max()))
        throw nb::value_error("the matrix is too large for this BLAS");
    if (!blas.gemm) throw nb::value_error("connect() comes first");
    return int(A.shape(0));
}

int cholesky(Matrix A, size_t threads) {
    const int n = order_of(A);
    nb::gil_scoped_release release;
    Team team(threads, n);
    return factor(n, A.data(), std::max(n, 1), team);
}

// X (q, m) <- X L^-T (forward) or X L^-1, with L the lower triangle of a row-major (m, m); squares
// (q,), if it has any, gets the sum of the squares of each row.
void solve_triangle(ConstMatrix L, Matrix X, bool forward, Vector squares, size_t threads) {
    const int m = order_of(L);
    if (int(X.shape(1)) != m || (squares.shape(0) && squares.shape(0) != X.shape(0)))
        throw nb::value_error("shapes do not match");
    nb::gil_scoped_release release;
    double* sums = squares.shape(0) ? squares.data() : nullptr;
    if (sums) std::fill(sums, sums + squares.shape(0), 0.0);
    constexpr size_t MANY = 100 * ROWS;  // rows between two looks at Ctrl-C
    const size_t n = m ? X.shape(0) : 0;
    mercer::in_parallel(threads, (n + MANY - 1) / MANY, [&](size_t k) {
        const size_t i = k * MANY;
        const int q = int(std::min(MANY, n - i));
        (forward ? whiten<true> : whiten<false>)(q, m, L.data(), m, X.data() + i * m, m,
                                                 sums ? sums + i : nullptr);
    });
}

void half_inverse(Matrix A, size_t threads) {
    const int n = order_of(A);
    nb::gil_scoped_release release;
    Team team(threads, n);
    invert(n, A.data(), std::max(n, 1), team);
}

void inverse_of_half(Matrix A, size_t threads) {
    const int n = order_of(A);
    nb::gil_scoped_release release;
    Team team(threads, n);
    square(n, A.data(), std::max(n, 1), team);
}

// Sums of the squares in each row of the upper triangle (row-major): with the half inverse in it,
// the diagonal of the inverse.
void row_squares(Matrix A, Vector out) {
    const size_t n = A.shape(0);
    if (A.shape(1) != n || out.shape(0) != n) throw nb::value_error("shapes do not match");
    nb::gil_scoped_release release;
    for (size_t i = 0; i < n; ++i) {
        const double* row = A.data() + i * n;
        double sum = 0.0;
#pragma omp simd reduction(+ : sum)
        for (size_t j = i; j < n; ++j) sum += row[j] * row[j];
        out.data()[i] = sum;
    }
}

// The address in SciPy's table of a routine, if its arguments are of the types that we pass: the
// capsule's name is the declaration, with a typedef that ends in _d for double.
template <class Function>
bool take(nb::dict table, const char* name, const std::string& kinds, Function& target) {
    if (!table.contains(name)) return false;
    PyObject* capsule = nb::object(table[name]).ptr();
    if (!PyCapsule_CheckExact(capsule)) return false;
    const char* declared = PyCapsule_GetName(capsule);
    const std::string text = declared ? declared : "";
    std::string found;
    for (size_t at = text.find('('), end; at != std::string::npos && at + 1 < text.size(); at = end) {
        end = text.find_first_of(",)", at + 1);
        const std::string one = text.substr(at + 1, end == std::string::npos ? end : end - at - 1);
        if (one.find("char *") != std::string::npos) found += 'c';
        else if (one.find("_d *") != std::string::npos) found += 'd';
        else if (one == "int *" || one == " int *") found += 'i';
        else found += '?';
        if (end == std::string::npos || text[end] == ')') break;
    }
    if (text.rfind("void (", 0) != 0 || found != kinds) return false;
    target = reinterpret_cast<Function>(PyCapsule_GetPointer(capsule, declared));
    return target != nullptr;
}

// Whether this processor has the vectors, and the tables all the routines, that the above needs.
bool connect(nb::dict blas_table, nb::dict lapack_table) {
#if MERCER_WIDE
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512vl") ||
        !__builtin_cpu_supports("avx512dq") || !__builtin_cpu_supports("avx512bw"))
        return false;
    Routines found;
    const bool all = take(blas_table, "dgemm", "cciiiddididdi", found.gemm) &&
                     take(blas_table, "dsyrk", "cciiddiddi", found.syrk) &&
                     take(blas_table, "dtrsm", "cccciiddidi", found.trsm) &&
                     take(blas_table, "dtrmm", "cccciiddidi", found.trmm) &&
                     take(lapack_table, "dpotrf", "cidii", found.potrf) &&
                     take(lapack_table, "dtrtri", "ccidii", found.trtri) &&
                     take(lapack_table, "dlauum", "cidii", found.lauum);
    if (all) blas = found;
    return all;
#else
    return false;
#endif
}

}  // namespace

NB_MODULE(blocked, module) {
    using nb::literals::operator""_a;
    module.doc() = "Cholesky factor and inverse by halves, over SciPy's BLAS.";
    module.def("connect", &connect, "blas_table"_a, "lapack_table"_a);
    module.def("cholesky", &cholesky, "A"_a.noconvert(), "threads"_a = 1);
    module.def("solve_triangle", &solve_triangle, "L"_a, "X"_a.noconvert(), "forward"_a,
               "squares"_a.noconvert(), "threads"_a = 1);
    module.def("half_inverse", &half_inverse, "A"_a.noconvert(), "threads"_a = 1);
    module.def("inverse_of_half", &inverse_of_half, "A"_a.noconvert(), "threads"_a = 1);
    module.def("row_squares", &row_squares, "A"_a.noconvert(), "out"_a.noconvert());
}
