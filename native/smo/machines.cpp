// Bindings of the compiled core for support vector machines.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <type_traits>
#include <vector>

#include "smo/joint.hpp"
#include "smo/single.hpp"
#include "smo/smo.hpp"
#include "threads.hpp"

namespace nb = nanobind;
template <class T> using Matrix = nb::ndarray<T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <class T> using Vector = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Index = Vector<const std::int64_t>;

namespace {

void require(bool fine, const char* message) {
    if (!fine) throw nb::value_error(message);
}

// The rows of X (q, d), four at a time, against the neighbours in columns (d, n). A thread takes ROWS
// of them.
constexpr std::size_t ROWS = 64;
struct Fours {
    const float* X;
    std::size_t q, dims;
    const float* columns;
    std::size_t n;
    std::vector<float> four = std::vector<float>(4 * dims), tail = std::vector<float>(mercer::WIDE * dims);

    // The points of rows r .. r + 3; the last is repeated where there are fewer.
    void take(std::size_t r) {
        for (std::size_t k = 0; k < 4; ++k) {
            const std::size_t from = std::min(r + k, q - 1);
            std::copy(X + from * dims, X + (from + 1) * dims, four.data() + k * dims);
        }
    }
    // The values of the points taken at neighbours j .. j + len - 1.
    void values(std::size_t j, std::size_t len, float* const* out) {
        mercer::rbf_single_four(four.data(), dims, columns + j, n, len, out, tail.data());
    }
};

template <class Visit>
void for_rows(std::size_t threads, std::size_t q, Visit visit) {
    mercer::in_parallel(threads, (q + ROWS - 1) / ROWS,
                        [&](std::size_t k) { visit(k * ROWS, std::min(q, (k + 1) * ROWS)); });
}

// out[slots[r]] = exp(-1/2 |X_r - Z_j|^2) for the rows of X (q, d); columns (d, n) is Z transposed.
void rbf_rows(Matrix<const float> X, Matrix<const float> columns, Index slots, Matrix<float> out,
              std::size_t threads) {
    const std::size_t q = X.shape(0), dims = X.shape(1), n = columns.shape(1);
    require(columns.shape(0) == dims && out.shape(1) == n && slots.shape(0) == q,
            "shapes do not match");
    for (std::size_t r = 0; r < q; ++r)
        require(slots.data()[r] >= 0 && std::size_t(slots.data()[r]) < out.shape(0),
                "a slot lies outside the cache");
    nb::gil_scoped_release release;
    // few rows are asked for at a time, and long ones: the neighbours are split
    constexpr std::size_t SPAN = 2048;
    mercer::in_parallel(threads, (n + SPAN - 1) / SPAN, [&](std::size_t s) {
        Fours fours{X.data(), q, dims, columns.data(), n};
        const std::size_t j = s * SPAN, len = std::min(n, j + SPAN) - j;
        float spare[SPAN];
        for (std::size_t r = 0; r < q; r += 4) {
            float* rows[4];
            fours.take(r);
            for (std::size_t k = 0; k < 4; ++k)
                rows[k] = r + k < q ? out.data() + std::size_t(slots.data()[r + k]) * n + j : spare;
            fours.values(j, len, rows);
        }
    });
}

// Each sum of K(X, Z) alpha in double precision, over all n values of a row of K.
void expand_few(const Fours& all, const double* alpha, std::size_t m, double* out,
                std::size_t threads) {
    for_rows(threads, all.q, [&](std::size_t begin, std::size_t end) {
        Fours fours = all;
        std::vector<float> kept(4 * all.n);
        float* rows[4];
        for (std::size_t k = 0; k < 4; ++k) rows[k] = kept.data() + k * all.n;
        for (std::size_t r = begin; r < end; r += 4) {
            fours.take(r);
            fours.values(0, all.n, rows);
            for (std::size_t k = 0; k < 4 && r + k < end; ++k)
                for (std::size_t c = 0; c < m; ++c)
                    out[(r + k) * m + c] = mercer::dot_single(rows[k], alpha + c * all.n, all.n);
        }
    });
}

// The same for many columns, sixteen at a time: the products of SPAN neighbours are summed in single
// precision, and these sums in double.
void expand_many(const Fours& all, const double* alpha, std::size_t m, double* out,
                 std::size_t threads) {
    using mercer::WIDE, mercer::Wide;
    constexpr std::size_t SPAN = 128;
    const std::size_t groups = (m + WIDE - 1) / WIDE, width = groups * WIDE;
    std::vector<float> weights(all.n * width, 0.0f);
    for (std::size_t c = 0; c < m; ++c)
        for (std::size_t j = 0; j < all.n; ++j) weights[j * width + c] = float(alpha[c * all.n + j]);
    const Wide* v = reinterpret_cast<const Wide*>(weights.data());
    for_rows(threads, all.q, [&](std::size_t begin, std::size_t end) {
        Fours fours = all;
        float kept[4][SPAN];
        float* rows[4] = {kept[0], kept[1], kept[2], kept[3]};
        std::vector<float> part(4 * width);
        Wide* sums = reinterpret_cast<Wide*>(part.data());
        std::fill(out + begin * m, out + end * m, 0.0);
        for (std::size_t j = 0; j < all.n; j += SPAN)
            for (std::size_t r = begin; r < end; r += 4) {
                const std::size_t len = std::min(SPAN, all.n - j);
                fours.take(r);
                fours.values(j, len, rows);
                mercer::product_four(rows, len, v + j * groups, groups, sums);
                for (std::size_t k = 0; k < 4 && r + k < end; ++k)
                    for (std::size_t c = 0; c < m; ++c)
                        out[(r + k) * m + c] += double(part[k * width + c]);
            }
    });
}

constexpr std::size_t MANY = 8;  // columns from which single products, sixteen at once, pay

// out (q, m) = K(X, Z) alpha without storing K; alpha is (m, n) here: one output a row.
void rbf_expand(Matrix<const float> X, Matrix<const float> columns, Matrix<const double> alpha,
                Matrix<double> out, std::size_t threads) {
    const std::size_t q = X.shape(0), dims = X.shape(1), n = columns.shape(1), m = alpha.shape(0);
    require(columns.shape(0) == dims && alpha.shape(1) == n && out.shape(0) == q && out.shape(1) == m,
            "shapes do not match");
    nb::gil_scoped_release release;
    const Fours all{X.data(), q, dims, columns.data(), n};
    (m < MANY ? expand_few : expand_many)(all, alpha.data(), m, out.data(), threads);
}

// Move the rows in slots (ascending) of a table of the given width to its front and keep the columns
// (ascending) only. No place is written before it was read: everything moves to the left.
template <class Real>
void compact(Vector<Real> memory, std::size_t width, Index slots, Index columns) {
    const std::size_t q = slots.shape(0), m = columns.shape(0);
    for (std::size_t c = 0; c < m; ++c)
        require(columns.data()[c] >= 0 && std::size_t(columns.data()[c]) < width &&
                    (c == 0 || columns.data()[c] > columns.data()[c - 1]),
                "columns must ascend within the table");
    for (std::size_t r = 0; r < q; ++r)
        require(slots.data()[r] >= 0 && (std::size_t(slots.data()[r]) + 1) * width <= memory.shape(0) &&
                    (r == 0 || slots.data()[r] > slots.data()[r - 1]),
                "slots must ascend within the memory");
    nb::gil_scoped_release release;
    std::vector<std::int32_t> from(columns.data(), columns.data() + m);
    std::vector<Real> row(m);
    for (std::size_t r = 0; r < q; ++r) {
        mercer::gather(memory.data() + std::size_t(slots.data()[r]) * width, from.data(), m, row.data());
        std::copy(row.begin(), row.end(), memory.data() + r * m);
    }
}

// Raise the programme by up to `limit` steps. Variable t of segment g belongs to column
// segments[g][2] + t - segments[g][0] of K. Rows lie in cache[slot_of[row]]. If `single` (n, d) and
// `columns` (d, n) are given, a missing one is computed here, into a free slot (next_free) or in place
// of the row that was not used for longest; but only `spare` rows that had been there before (seen),
// then the call returns, as it does at once without `single`.
// Returns (steps, violation, row that is wanted or -1, next_free, spare, clock, rows that left, gain).
template <class Real>
nb::tuple climb(Matrix<Real> cache, Vector<std::int64_t> slot_of, Vector<std::int64_t> row_in,
                Vector<std::int64_t> used, Vector<std::uint8_t> seen, std::int64_t next_free,
                std::int64_t spare, Matrix<const float> single, Matrix<const float> columns,
                double variance, Matrix<const std::int64_t> segments,
                Vector<double> F, Vector<double> beta, Vector<const double> low,
                Vector<const double> high, Vector<const double> eps, Vector<const float> diagonal,
                bool bias, double tol, long limit, std::int64_t clock,
                std::size_t threads) {
    const std::size_t n = cache.shape(1), capacity = cache.shape(0), total = F.shape(0);
    const std::size_t dims = single.shape(1);
    const bool fused = single.shape(0) == n && columns.shape(1) == n && columns.shape(0) == dims;
    // two slots: the row of i must not leave when that of j comes
    require(capacity >= std::min<std::size_t>(n, 2), "the cache is too small");
    require(slot_of.shape(0) == n && seen.shape(0) == n && row_in.shape(0) == capacity &&
                used.shape(0) == capacity && beta.shape(0) == total && low.shape(0) == total &&
                high.shape(0) == total && eps.shape(0) == total && diagonal.shape(0) == total &&
                segments.shape(1) == 3,
            "shapes do not match");
    mercer::Pool pool(threads);
    mercer::Programme<Real> program(pool);
    for (std::size_t g = 0; g < segments.shape(0); ++g) {
        const std::int64_t* s = segments.data() + 3 * g;
        require(0 <= s[0] && s[0] < s[1] && std::size_t(s[1]) <= total && 0 <= s[2] &&
                    std::size_t(s[2] + s[1] - s[0]) <= n,
                "a segment lies outside its array");
        program.segments.push_back({std::size_t(s[0]), std::size_t(s[1]), std::size_t(s[2])});
    }
    long steps;
    std::int64_t wanted_row = -1, left = 0;
    {
        nb::gil_scoped_release release;
        program.total = total;
        program.F = F.data();
        program.beta = beta.data();
        program.low = low.data();
        program.high = high.data();
        program.eps = eps.data();
        program.diagonal = diagonal.data();
        program.prepare();
        std::vector<Real> zeros(n, Real(0));
        auto row = [&](std::size_t r) -> const Real* {
            std::int64_t slot = slot_of.data()[r];
            if constexpr (std::is_same_v<Real, float>) {
                if (slot < 0 && fused && (!seen.data()[r] || spare > 0)) {
                    spare -= seen.data()[r];
                    if (std::size_t(next_free) < capacity) {
                        slot = next_free++;
                    } else {
                        slot = mercer::place_of_smallest(used.data(), capacity);
                        slot_of.data()[row_in.data()[slot]] = -1;
                        ++left;
                    }
                    float* to = cache.data() + std::size_t(slot) * n;
                    const std::size_t each = mercer::ONE_SPAN *
                        ((n + pool.threads() * mercer::ONE_SPAN - 1) / (pool.threads() * mercer::ONE_SPAN));
                    pool.run((n + each - 1) / each, [&](std::size_t k) {
                        const std::size_t j = k * each;
                        mercer::rbf_single_one(single.data() + r * dims, dims, columns.data() + j, n,
                                               std::min(each, n - j), float(variance), to + j);
                    });
                    slot_of.data()[r] = slot;
                    row_in.data()[slot] = std::int64_t(r);
                    seen.data()[r] = 1;
                }
            }
            if (slot < 0) {
                wanted_row = std::int64_t(r);
                return nullptr;
            }
            used.data()[slot] = ++clock;  // later than every other: the row of i stays when that of j comes
            return cache.data() + std::size_t(slot) * n;
        };
        steps = program.solve(row, bias, tol, limit, zeros.data());
    }
    return nb::make_tuple(steps, program.violation, wanted_row, next_free, spare, clock, left,
                          program.gained);
}

// The block of one row of a joint hinge: see smo/joint.hpp.
void joint_block(bool box, Vector<const double> v, double q, double c, Vector<double> out) {
    require(out.shape(0) == v.shape(0), "shapes do not match");
    require(q > 0.0 && c > 0.0, "a block has a positive curvature and bound");
    mercer::Block().solve(box, v.data(), v.shape(0), q, c, out.data());
}

// Raise the dual of a joint hinge over k classes by up to `limit` steps; a and f are (n, k). Rows of K
// lie in cache[slot_of[row]]. Returns (steps, violation, row that is wanted or -1, clock, gain).
template <class Real>
nb::tuple climb_joint(Matrix<const Real> cache, Index slot_of, Vector<std::int64_t> used, Index codes,
                      Vector<const double> bound, Vector<const double> q, Matrix<double> a,
                      Matrix<double> f, double bias, bool box, double tol, long limit,
                      std::int64_t clock) {
    const std::size_t n = cache.shape(1), k = a.shape(1);
    require(slot_of.shape(0) == n && used.shape(0) == cache.shape(0) && codes.shape(0) == n &&
                bound.shape(0) == n && q.shape(0) == n && a.shape(0) == n && f.shape(0) == n &&
                f.shape(1) == k,
            "shapes do not match");
    for (std::size_t i = 0; i < n; ++i) {
        require(codes.data()[i] >= 0 && std::size_t(codes.data()[i]) < k, "a class has no column");
        require(slot_of.data()[i] < std::int64_t(cache.shape(0)), "a slot lies outside the cache");
        require(q.data()[i] > 0.0 && bound.data()[i] > 0.0,
                "a block has a positive curvature and bound");
    }
    mercer::Joint<Real> joint{n, k, codes.data(), bound.data(), q.data(), a.data(), f.data(), bias, box};
    std::int64_t wanted = -1;
    long steps;
    {
        nb::gil_scoped_release release;
        auto row = [&](std::size_t i) -> const Real* {
            const std::int64_t slot = slot_of.data()[i];
            if (slot < 0) {
                wanted = std::int64_t(i);
                return nullptr;
            }
            used.data()[slot] = ++clock;
            return cache.data() + std::size_t(slot) * n;
        };
        steps = joint.ascend(row, tol, limit);
    }
    return nb::make_tuple(steps, joint.violation, wanted, clock, joint.gained);
}

}  // namespace

NB_MODULE(machines, module) {
    using nb::literals::operator""_a;
    module.doc() = "Compiled core of mercer for support vector machines.";
    module.def("rbf_rows", &rbf_rows, "X"_a.noconvert(), "columns"_a.noconvert(), "slots"_a,
               "out"_a.noconvert(), "threads"_a = 1);
    module.def("rbf_expand", &rbf_expand, "X"_a.noconvert(), "columns"_a.noconvert(), "alpha"_a,
               "out"_a.noconvert(), "threads"_a = 1);
    module.def("compact", &compact<float>, "memory"_a.noconvert(), "width"_a, "slots"_a, "columns"_a);
    module.def("compact", &compact<double>, "memory"_a.noconvert(), "width"_a, "slots"_a, "columns"_a);
    module.def("climb", &climb<float>, "cache"_a.noconvert(), "slot_of"_a.noconvert(),
               "row_in"_a.noconvert(), "used"_a.noconvert(), "seen"_a.noconvert(), "next_free"_a,
               "spare"_a, "single"_a, "columns"_a,
               "variance"_a, "segments"_a, "F"_a.noconvert(), "beta"_a.noconvert(), "low"_a, "high"_a,
               "eps"_a, "diagonal"_a, "bias"_a, "tol"_a, "limit"_a, "clock"_a,
               "threads"_a = 1);
    module.def("climb", &climb<double>, "cache"_a.noconvert(), "slot_of"_a.noconvert(),
               "row_in"_a.noconvert(), "used"_a.noconvert(), "seen"_a.noconvert(), "next_free"_a,
               "spare"_a, "single"_a, "columns"_a,
               "variance"_a, "segments"_a, "F"_a.noconvert(), "beta"_a.noconvert(), "low"_a, "high"_a,
               "eps"_a, "diagonal"_a, "bias"_a, "tol"_a, "limit"_a, "clock"_a,
               "threads"_a = 1);
    module.def("joint_block", &joint_block, "box"_a, "v"_a, "q"_a, "c"_a, "out"_a.noconvert());
    module.def("climb_joint", &climb_joint<float>, "cache"_a.noconvert(), "slot_of"_a.noconvert(),
               "used"_a.noconvert(), "codes"_a, "bound"_a, "q"_a, "a"_a.noconvert(), "f"_a.noconvert(),
               "bias"_a, "box"_a, "tol"_a, "limit"_a, "clock"_a);
    module.def("climb_joint", &climb_joint<double>, "cache"_a.noconvert(), "slot_of"_a.noconvert(),
               "used"_a.noconvert(), "codes"_a, "bound"_a, "q"_a, "a"_a.noconvert(), "f"_a.noconvert(),
               "bias"_a, "box"_a, "tol"_a, "limit"_a, "clock"_a);
}
