// Relevance search, the part whose size is the number of functions in the model: settling them, the
// best exchanges of one inside for a candidate outside, and what taking one in does to the others.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/vector.h>

#include "relevance/settle.hpp"

namespace nb = nanobind;
using Matrix = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Vector = nb::ndarray<double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using ConstVector = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Indices = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Rows = nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

namespace {

using namespace mercer;

// Settle the precisions alpha (M), in place, infinity for what goes out; return beta, the values of
// the evidence (without its constants) step by step, and how many steps were of which kind.
nb::tuple settle(Room& room, Matrix gram, ConstVector right, Vector alpha, double beta, double square,
                 double total, bool learns, double cap, double tol, int limit) {
    const size_t p = right.shape(0), M = alpha.shape(0);
    if (gram.shape(0) != p || gram.shape(1) != p || M > p)
        throw nb::value_error("shapes do not match");
    Settle work;
    {
        nb::gil_scoped_release release;
        work.data = Data{Square(room, p), Values(right.data(), right.data() + p), square, total, p - M};
        for (size_t j = 0; j < p; ++j)
            std::copy(gram.data() + j * p, gram.data() + (j + 1) * p, work.data.gram.column(j));
        work.cap = cap;
        work.learns = learns;
        work.kept.resize(M);
        std::iota(work.kept.begin(), work.kept.end(), size_t{0});
        work.state = evaluate(work.data, Values(alpha.data(), alpha.data() + M), beta);
        work.trace.push_back(work.state.evidence);
        if (work.state.valid) {
            work.run(tol, limit);
            std::fill(alpha.data(), alpha.data() + M, INF);
            for (size_t j = 0; j < work.kept.size(); ++j)
                alpha.data()[work.kept[j]] = work.state.alpha[j];
        }
    }
    return nb::make_tuple(work.state.valid ? work.state.beta : beta, work.trace, work.deleted,
                          work.changed, work.undone);
}

// For each of M functions in the model the candidate that would gain most in its place: T (m, M) is
// Sigma F B phi_m, v and mu (M) variances and means of the weights, S and Q (m) of the candidates,
// least (m) below which S is rounding; a candidate with least < 0 is closed. Fills best and ratio.
void exchanges(Matrix T, ConstVector v, ConstVector mu, ConstVector S, ConstVector Q,
               ConstVector least, Vector best, Vector ratio) {
    const size_t m = T.shape(0), M = T.shape(1);
    if (v.shape(0) != M || mu.shape(0) != M || best.shape(0) != M || ratio.shape(0) != M ||
        S.shape(0) != m || Q.shape(0) != m || least.shape(0) != m)
        throw nb::value_error("shapes do not match");
    nb::gil_scoped_release release;
    Values inverse(M), pull(M);
    for (size_t j = 0; j < M; ++j) {
        inverse[j] = 1.0 / v.data()[j];
        pull[j] = mu.data()[j] * inverse[j];
    }
    double *top = ratio.data(), *who = best.data();
    std::fill(top, top + M, 0.0);
    std::fill(who, who + M, 0.0);
    for (size_t i = 0; i < m; ++i) {
        const double floor = least.data()[i], S0 = S.data()[i], Q0 = Q.data()[i];
        if (floor < 0.0) continue;
        const double* t = T.data() + i * M;
        const double name = static_cast<double>(i);
#pragma omp simd
        for (size_t j = 0; j < M; ++j) {
            const double s = S0 + t[j] * t[j] * inverse[j], q = Q0 + t[j] * pull[j];
            const double r = s > floor ? q * q / s : 0.0;
            who[j] = r > top[j] ? name : who[j];
            top[j] = r > top[j] ? r : top[j];
        }
    }
}

// x (m) plus the sum over r < p of c[r] times the row at[r] of V (.., m), row-major.
MERCER_CLONES void add_rows(double* x, const double* V, size_t m, size_t p, const double* c,
                            const std::int64_t* at) {
    size_t r = 0;
    for (; r + 4 <= p; r += 4) {
        const double *v0 = V + at[r] * m, *v1 = V + at[r + 1] * m;
        const double *v2 = V + at[r + 2] * m, *v3 = V + at[r + 3] * m;
        const double c0 = c[r], c1 = c[r + 1], c2 = c[r + 2], c3 = c[r + 3];
#pragma omp simd
        for (size_t j = 0; j < m; ++j)
            x[j] += (c0 * v0[j] + c1 * v1[j]) + (c2 * v2[j] + c3 * v3[j]);
    }
    for (; r < p; ++r) {
        const double *v = V + at[r] * m, one = c[r];
#pragma omp simd
        for (size_t j = 0; j < m; ++j) x[j] += one * v[j];
    }
}

// Posterior of the weights: the triangle of beta gram + diag(precisions) = R'R (p, p), written to R as
// its transpose, and the mean mu = (R'R)^-1 beta right (p). False: a pivot has less than ``least`` of
// its diagonal left, and nothing is to be used.
bool posterior(Room& room, Matrix gram, ConstVector right, ConstVector precisions, double beta,
               double least, Rows R, Vector mu) {
    const size_t p = right.shape(0);
    if (gram.shape(0) != p || gram.shape(1) != p || precisions.shape(0) != p || mu.shape(0) != p ||
        R.shape(0) != p || R.shape(1) != p)
        throw nb::value_error("shapes do not match");
    Square L(room, p);
    Values whole(p), v(p);
    for (size_t j = 0; j < p; ++j) {
        double* column = L.column(j);
        for (size_t i = 0; i < p; ++i) column[i] = beta * gram.data()[j * p + i];
        whole[j] = column[j] += precisions.data()[j];
        v[j] = beta * right.data()[j];
    }
    if (!cholesky(L)) return false;
    for (size_t j = 0; j < p; ++j)
        if (!(L.column(j)[j] * L.column(j)[j] > least * whole[j])) return false;
    forward(L, v);
    backward(L, v);
    std::copy(v.begin(), v.end(), mu.data());
    for (size_t i = 0; i < p; ++i)
        for (size_t j = 0; j < p; ++j) R.data()[i * p + j] = j <= i ? L.column(j)[i] : 0.0;
    return true;
}

void check_rows(Matrix rows, Indices places) {
    for (size_t i = 0; i < places.shape(0); ++i)
        if (places.data()[i] < 0 || size_t(places.data()[i]) >= rows.shape(0))
            throw nb::value_error("a row is out of range");
}

// Add to out (m) the sum of c (M) times the rows ``places`` (M).
void mix(Matrix rows, Indices places, ConstVector c, Vector out) {
    if (c.shape(0) != places.shape(0) || out.shape(0) != rows.shape(1))
        throw nb::value_error("shapes do not match");
    check_rows(rows, places);
    add_rows(out.data(), rows.data(), rows.shape(1), c.shape(0), c.data(), places.data());
}

// out[i, j] = rows[places[i], columns[j]].
void gather(Matrix rows, Indices places, Indices columns, Rows out) {
    const size_t M = columns.shape(0), m = rows.shape(1);
    if (out.shape(0) != places.shape(0) || out.shape(1) != M)
        throw nb::value_error("shapes do not match");
    check_rows(rows, places);
    for (size_t j = 0; j < M; ++j)
        if (columns.data()[j] < 0 || size_t(columns.data()[j]) >= m)
            throw nb::value_error("a column is out of range");
    for (size_t i = 0; i < places.shape(0); ++i) {
        const double* row = rows.data() + places.data()[i] * m;
        for (size_t j = 0; j < M; ++j) out.data()[i * M + j] = row[columns.data()[j]];
    }
}

// The candidate of the largest Q^2 / S, closed where S does not exceed ``least``; -1 if there is none.
nb::tuple best(ConstVector S, ConstVector Q, ConstVector least) {
    const size_t m = S.shape(0);
    if (Q.shape(0) != m || least.shape(0) != m) throw nb::value_error("shapes do not match");
    double top = 0.0;
    long who = -1;
    for (size_t j = 0; j < m; ++j) {
        const double s = S.data()[j], q = Q.data()[j];
        if (s > least.data()[j] && q * q > top * s) {
            top = q * q / s;
            who = static_cast<long>(j);
        }
    }
    return nb::make_tuple(who, top);
}

// Take in candidate i, of precision alpha, whose ``products`` (m) are phi_i'B phi_m: row p of V, and S
// and Q (m), follow as relevance_forward.py says.
void take_in(ConstVector products, Rows V, size_t p, size_t i, double alpha, Vector S, Vector Q) {
    const size_t m = S.shape(0);
    if (products.shape(0) != m || V.shape(1) != m || Q.shape(0) != m || p >= V.shape(0) || i >= m)
        throw nb::value_error("shapes do not match");
    nb::gil_scoped_release release;
    double *row = V.data() + p * m, *s = S.data(), *q = Q.data();
    std::copy(products.data(), products.data() + m, row);
    Values known(p);
    std::vector<std::int64_t> at(p);
    for (size_t r = 0; r < p; ++r) known[r] = -V.data()[r * m + i], at[r] = std::int64_t(r);
    add_rows(row, V.data(), m, p, known.data(), at.data());
    const double root = 1.0 / std::sqrt(alpha + s[i]), pull = q[i] * root;
    for (size_t j = 0; j < m; ++j) {
        row[j] *= root;
        s[j] -= row[j] * row[j];
        q[j] -= pull * row[j];
    }
}

}  // namespace

NB_MODULE(relevance, m) {
    nb::class_<Room>(m, "Room").def(nb::init<>());
    m.def("settle", &settle, nb::arg("room"), nb::arg("gram"), nb::arg("right"), nb::arg("alpha"),
          nb::arg("beta"), nb::arg("square"), nb::arg("total"), nb::arg("learns"), nb::arg("cap"),
          nb::arg("tol"), nb::arg("limit"));
    m.def("exchanges", &exchanges);
    m.def("posterior", &posterior, nb::arg("room"), nb::arg("gram"), nb::arg("right"),
          nb::arg("precisions"), nb::arg("beta"), nb::arg("least"), nb::arg("R").noconvert(),
          nb::arg("mu").noconvert());
    m.def("mix", &mix);
    m.def("gather", &gather);
    m.def("best", &best);
    m.def("take_in", &take_in);
}
