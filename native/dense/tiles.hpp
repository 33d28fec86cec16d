// Cholesky factor, inverse and product of square matrices of some hundred columns, by tiles.
//
// A tile of ROWS x COLS results stays in registers while the products that it is made of run by;
// LAPACK's routines come to a third of this rate at such sizes. Matrices are column-major and
// padded by the columns of the identity to a multiple of ROWS; triangles are lower unless said.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include "rows.hpp"

#define MERCER_MEMBER inline __attribute__((always_inline))

namespace mercer {

constexpr std::size_t ROWS = 16, COLS = 4;

// Memory of matrices that are done with, for the next ones: at these sizes the system's own goes back
// and forth page by page, which costs as much as the work.
struct Room {
    std::vector<std::vector<double>> spare;
};

struct Square {
    Room* room = nullptr;
    std::size_t p = 0, ld = 0;  // columns that mean something, and all of them
    std::vector<double> values;

    Square() = default;
    Square(Room& room, std::size_t p) : room(&room), p(p), ld((p + ROWS - 1) / ROWS * ROWS) {
        take();
        values.assign(ld * ld, 0.0);
        for (std::size_t j = p; j < ld; ++j) column(j)[j] = 1.0;
    }
    Square(const Square& other) : room(other.room), p(other.p), ld(other.ld) {
        take();
        values = other.values;
    }
    Square(Square&& other) noexcept { swap(other); }
    Square& operator=(Square other) noexcept {
        swap(other);
        return *this;
    }
    ~Square() {
        if (room && values.capacity()) room->spare.push_back(std::move(values));
    }
    double* column(std::size_t j) { return values.data() + j * ld; }
    const double* column(std::size_t j) const { return values.data() + j * ld; }

private:
    void take() {
        if (room->spare.empty()) return;
        values = std::move(room->spare.back());
        room->spare.pop_back();
    }
    void swap(Square& other) noexcept {
        std::swap(room, other.room);
        std::swap(p, other.p);
        std::swap(ld, other.ld);
        values.swap(other.values);
    }
};

namespace tiles {

typedef double Lanes __attribute__((vector_size(64), aligned(8), may_alias));

// The triangle L_jj (COLS, COLS): below[c][e] = L[j + e, j + c], inverse[c] = 1 / L[j + c, j + c].
struct Corner {
    double below[COLS][COLS], inverse[COLS];
};

struct Tile {
    Lanes a[COLS][2];

    MERCER_MEMBER void load(const double* A, std::size_t ld) {
        for (std::size_t c = 0; c < COLS; ++c)
            for (int r = 0; r < 2; ++r) a[c][r] = ((const Lanes*)(A + c * ld))[r];
    }
    MERCER_MEMBER void store(double* A, std::size_t ld) const {
        for (std::size_t c = 0; c < COLS; ++c)
            for (int r = 0; r < 2; ++r) ((Lanes*)(A + c * ld))[r] = a[c][r];
    }
    // less X (ROWS, k) Y (COLS, k)' for columns first <= k < last
    MERCER_MEMBER void subtract(const double* X, const double* Y, std::size_t ld, std::size_t first,
                                std::size_t last) {
        for (std::size_t k = first; k < last; ++k) {
            const Lanes *x = (const Lanes*)(X + k * ld), x0 = x[0], x1 = x[1];
#pragma GCC unroll 4
            for (std::size_t c = 0; c < COLS; ++c) {
                const double y = Y[k * ld + c];
                a[c][0] -= x0 * y;
                a[c][1] -= x1 * y;
            }
        }
    }
    // times L_jj^-T
    MERCER_MEMBER void solve(const Corner& corner) {
#pragma GCC unroll 4
        for (std::size_t c = 0; c < COLS; ++c)
            for (int r = 0; r < 2; ++r) {
                a[c][r] *= corner.inverse[c];
#pragma GCC unroll 4
                for (std::size_t e = c + 1; e < COLS; ++e) a[e][r] -= a[c][r] * corner.below[c][e];
            }
    }
};

MERCER_INLINE Corner corner_of(const double* L, std::size_t ld, std::size_t j) {
    Corner corner;
    for (std::size_t c = 0; c < COLS; ++c) {
        const double* column = L + (j + c) * ld + j;
        corner.inverse[c] = 1.0 / column[c];
        for (std::size_t e = c + 1; e < COLS; ++e) corner.below[c][e] = column[e];
    }
    return corner;
}

// The COLS x COLS matrix at A = L L' in place; false if a pivot is not positive.
MERCER_INLINE bool corner_cholesky(double* A, std::size_t ld) {
    for (std::size_t c = 0; c < COLS; ++c) {
        double* column = A + c * ld;
        if (!(column[c] > 0.0)) return false;
        column[c] = std::sqrt(column[c]);
        for (std::size_t e = c + 1; e < COLS; ++e) column[e] /= column[c];
        for (std::size_t d = c + 1; d < COLS; ++d)
            for (std::size_t e = d; e < COLS; ++e) A[d * ld + e] -= column[d] * column[e];
    }
    return true;
}

MERCER_CLONES inline bool factor(double* A, std::size_t ld) {
    Tile tile;
    double save[COLS][COLS];
    for (std::size_t j = 0; j < ld; j += COLS) {
        const std::size_t top = j / ROWS * ROWS;
        tile.load(A + j * ld + top, ld);
        tile.subtract(A + top, A + j, ld, 0, j);
        tile.store(A + j * ld + top, ld);
        if (!corner_cholesky(A + j * ld + j, ld)) return false;
        const Corner corner = corner_of(A, ld, j);
        for (std::size_t c = 0; c < COLS; ++c)
            for (std::size_t e = 0; e < COLS; ++e) save[c][e] = e >= c ? A[(j + c) * ld + j + e] : 0.0;
        tile.solve(corner);  // right below the corner; above and in it the results are known
        tile.store(A + j * ld + top, ld);
        for (std::size_t c = 0; c < COLS; ++c) {
            double* column = A + (j + c) * ld;
            std::fill(column + top, column + j, 0.0);
            std::copy(save[c], save[c] + COLS, column + j);
        }
        for (std::size_t i = top + ROWS; i < ld; i += ROWS) {
            tile.load(A + j * ld + i, ld);
            tile.subtract(A + i, A + j, ld, 0, j);
            tile.solve(corner);
            tile.store(A + j * ld + i, ld);
        }
    }
    return true;
}

MERCER_CLONES inline void invert_transposed(const double* L, double* X, std::size_t ld) {
    Tile tile;
    for (std::size_t j = 0; j < ld; j += COLS) {
        const Corner corner = corner_of(L, ld, j);
        for (std::size_t i = 0; i <= j; i += ROWS) {
            tile.load(X + j * ld + i, ld);
            tile.subtract(X + i, L + j, ld, i, j);
            tile.solve(corner);
            tile.store(X + j * ld + i, ld);
        }
    }
}

MERCER_CLONES inline void square_upper(const double* X, double* S, std::size_t ld) {
    Tile tile;
    for (std::size_t j = 0; j < ld; j += COLS)
        for (std::size_t i = j / ROWS * ROWS; i < ld; i += ROWS) {
            for (auto& column : tile.a) column[0] = column[1] = Lanes{};
            tile.subtract(X + i, X + j, ld, i, ld);
            for (auto& column : tile.a) column[0] = -column[0], column[1] = -column[1];
            tile.store(S + j * ld + i, ld);
        }
}

}  // namespace tiles

// A = L L' in place, zeros above; false if A is not positive definite. Reads the lower triangle.
inline bool cholesky(Square& A) { return tiles::factor(A.values.data(), A.ld); }

// L^-T, upper triangular.
inline Square inverse_transposed(const Square& L) {
    Square X(*L.room, L.p);
    for (std::size_t j = 0; j < L.p; ++j) X.column(j)[j] = 1.0;
    tiles::invert_transposed(L.values.data(), X.values.data(), L.ld);
    return X;
}

// The lower triangle of X X' for an upper triangular X.
inline Square square_of_upper(const Square& X) {
    Square S(*X.room, X.p);
    tiles::square_upper(X.values.data(), S.values.data(), X.ld);
    return S;
}

}  // namespace mercer
