// Relevance search, the part whose size is the number of functions in the model: settling them, the
// best exchanges of one inside for a candidate outside, and what taking one in does to the others.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/vector.h>

#include "relevance/gaussian.hpp"

namespace nb = nanobind;
using Matrix = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Vector = nb::ndarray<double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using ConstVector = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Indices = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Rows = nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

namespace {

using namespace mercer;

const double LOG_2PI = std::log(2.0 * std::acos(-1.0));

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

// The exchanges that gain ``tol``, the best first: for each of M functions in the model the candidate
// that would gain most in its place. T (m, M) is Sigma F B phi_m, v and mu (M) variances and means of
// the weights, alpha (M) their precisions, S and Q (m) those of the candidates, least (m) below which S
// is rounding; a candidate with least < 0 is closed. Returns the place, the candidate, its precision, at
// least ``floor``, and the gain of each.
nb::list exchanges(Matrix T, ConstVector v, ConstVector mu, ConstVector alpha, ConstVector S,
                   ConstVector Q, ConstVector least, double tol, double floor) {
    const size_t m = T.shape(0), M = T.shape(1);
    if (v.shape(0) != M || mu.shape(0) != M || alpha.shape(0) != M || S.shape(0) != m ||
        Q.shape(0) != m || least.shape(0) != m)
        throw nb::value_error("shapes do not match");
    Values inverse(M), pull(M), top(M, 0.0), who(M, 0.0), gains(M);
    {
        nb::gil_scoped_release release;
        for (size_t j = 0; j < M; ++j) {
            inverse[j] = 1.0 / v.data()[j];
            pull[j] = mu.data()[j] * inverse[j];
        }
        for (size_t i = 0; i < m; ++i) {
            const double bar = least.data()[i], S0 = S.data()[i], Q0 = Q.data()[i];
            if (bar < 0.0) continue;
            const double* t = T.data() + i * M;
            const double name = static_cast<double>(i);
#pragma omp simd
            for (size_t j = 0; j < M; ++j) {
                const double s = S0 + t[j] * t[j] * inverse[j], q = Q0 + t[j] * pull[j];
                const double r = s > bar ? q * q / s : 0.0;
                who[j] = r > top[j] ? name : who[j];
                top[j] = r > top[j] ? r : top[j];
            }
        }
    }
    std::vector<size_t> order;
    for (size_t j = 0; j < M; ++j) {
        const double own = alpha.data()[j], gain = 0.5 * (top[j] - 1.0 - std::log(top[j]));
        gains[j] = gain - share(own, inverse[j] - own, pull[j]);
        if (top[j] > 1.0 && gains[j] >= tol) order.push_back(j);
    }
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return gains[a] > gains[b]; });
    nb::list found;
    for (const size_t j : order) {
        const size_t i = size_t(who[j]);
        const double t = T.data()[i * M + j], q = Q.data()[i] + t * pull[j];
        const double s = S.data()[i] + t * t * inverse[j];
        found.append(nb::make_tuple(j, i, std::max(best_precision(s, q), floor), gains[j]));
    }
    return found;
}

void check(bool fine) {
    if (!fine) throw nb::value_error("shapes do not match");
}

// An array that Python code answered with; refused if it is another thing.
template <class T>
T cast(nb::handle found) {
    T array;
    check(nb::try_cast<T>(found, array));
    return array;
}

// Candidates that keep the arrays they read: Phi (n, m); or L (n, r) with inner (r, r), see there.
struct Held : Candidates {
    std::vector<Matrix> matrices;
    std::vector<ConstVector> vectors;

    Held(const Held&) = delete;
    Held(Matrix phi, nb::object given, ConstVector inverse_, ConstVector weights_, ConstVector t_,
         Matrix flat_, Matrix flat_products_, ConstVector targets_, double spread_, nb::object form)
        : matrices{phi, flat_, flat_products_}, vectors{inverse_, weights_, t_, targets_} {
        n = phi.shape(0), m = phi.shape(1), k = flat_.shape(0);
        Phi = phi.data(), inverse = inverse_.data(), weights = weights_.data(), t = t_.data();
        flat = flat_.data(), flat_products = flat_products_.data(), targets = targets_.data();
        spread = spread_;
        if (!given.is_none()) {
            matrices.push_back(cast<Matrix>(given));
            r = m, m = n, inner = matrices.back().data();
            check(matrices.back().shape(0) == r && matrices.back().shape(1) == r);
        }
        check(inverse_.size() == m && weights_.size() == n && t_.size() == n && flat_.shape(1) == n);
        check(flat_products_.shape(0) == k && flat_products_.shape(1) == m && targets_.size() == m);
        if (!form.is_none())
            every = [this, form]() {
                const auto products = cast<Matrix>(form());
                check(products.shape(0) == m && products.shape(1) == m);
                matrices.push_back(products);
                return products.data();
            };
        begin();
    }

    size_t known(const Indices& active) const {
        for (size_t j = 0; j < active.shape(0); ++j)
            if (active.data()[j] < 0 || size_t(active.data()[j]) >= m)
                throw nb::value_error("a candidate is out of range");
        return active.shape(0);
    }

    // F W F' (p, p) and F W t (p) of the flat functions and those of ``active`` (M).
    void given(Indices active, Rows gram, Vector right) {
        const size_t M = known(active), p = k + M;
        check(gram.shape(0) == p && gram.shape(1) == p && right.shape(0) == p);
        Square whole(room, p);
        Values products(p);
        inner_products(active.data(), M, whole, products);
        for (size_t j = 0; j < p; ++j)
            std::copy(whole.column(j), whole.column(j) + p, gram.data() + j * p);
        std::copy(products.begin(), products.end(), right.data());
    }

    // Posterior of the weights of functions ``active`` with precisions ``prior`` (M) and noise precision
    // beta: the triangle of R'R, written to R (p, p) as its transpose, their means mu (p), what is left
    // of the targets (n). Returns beta times the squares of that, and the log evidence; None where a
    // pivot has less than ``least`` of its diagonal left, and nothing is to be used.
    nb::object evaluate(Indices active, ConstVector prior, double beta, double least, Rows R, Vector mu,
                        Vector rest) {
        const size_t M = known(active), p = k + M;
        check(prior.shape(0) == M && mu.shape(0) == p && rest.shape(0) == n && R.shape(0) == p &&
              R.shape(1) == p);
        Square L(room, p);
        Values v(p), precisions(p, 0.0);
        std::copy(prior.data(), prior.data() + M, precisions.begin() + k);
        inner_products(active.data(), M, L, v);
        if (!posterior_of(L, v, precisions.data(), beta, least)) return nb::none();
        std::copy(v.begin(), v.end(), mu.data());
        double logs = total * (std::log(beta) - LOG_2PI) + double(k) * LOG_2PI;
        for (size_t i = 0; i < p; ++i) {
            for (size_t j = 0; j < p; ++j) R.data()[i * p + j] = j <= i ? L.column(j)[i] : 0.0;
            logs -= 2.0 * std::log(L.column(i)[i]) + precisions[i] * v[i] * v[i];
            if (i >= k) logs += std::log(precisions[i]);
        }
        const double misfit =
            beta * (residuals(active.data(), M, mu.data(), rest.data()) + spread);
        return nb::make_tuple(misfit, 0.5 * (logs - misfit));
    }

    // S, Q (m) and the first p rows of V (.., m) seen from such a posterior.
    void seen(Indices active, Matrix R, ConstVector mu, double beta, Rows V, Vector S, Vector Q) {
        const size_t M = known(active), p = k + M;
        check(R.shape(0) == p && R.shape(1) == p && mu.shape(0) == p && V.shape(0) >= p &&
              V.shape(1) == m && S.shape(0) == m && Q.shape(0) == m);
        outside(active.data(), M, R.data(), mu.data(), beta, V.data(), S.data(), Q.data());
    }

    // Rows of products of the flat functions and of ``active`` with all candidates, to out (p, m).
    void products(Indices active, Rows out) {
        const size_t M = known(active);
        check(out.shape(0) == k + M && out.shape(1) == m);
        if (M > MODEL) fill();
        std::copy(flat_products, flat_products + k * m, out.data());
        for (size_t j = 0; j < M; ++j) {
            const double* row = product(active.data()[j]);
            std::copy(row, row + m, out.data() + (k + j) * m);
        }
    }

    // The candidates ``active`` at the rows, to out (M, n).
    void functions(Indices active, Rows out) {
        const size_t M = known(active);
        check(out.shape(0) == M && out.shape(1) == n);
        for (size_t j = 0; j < M; ++j)
            std::copy(column(active.data()[j]), column(active.data()[j]) + n, out.data() + j * n);
    }
};

// Add to sums (m) the squares of the columns of A (n, m), a row counting b (n).
void weighted_squares(Matrix A, ConstVector b, Vector sums) {
    check(b.shape(0) == A.shape(0) && sums.shape(0) == A.shape(1));
    nb::gil_scoped_release release;
    add_squares(A.data(), A.shape(0), A.shape(1), b.data(), sums.data());
}

// Candidates to take in together: again the one that gains most, seen after those before it, while it
// gains ``tol`` and ``part`` of what the first does, and not more than ``limit``. S and Q (m) are as seen
// from a state, S must exceed ``least`` (m), closed if < 0; V (p.., m) has room for them. The products of a candidate
// are scale times those of ``source``: Candidates, or a function. Returns the candidates, their
// precisions, at least ``floor``, and what the first gains.
nb::tuple additions(nb::object source, double scale, ConstVector S, ConstVector Q, ConstVector least,
                    Rows V, size_t p, double tol, double part, size_t limit, double floor) {
    const size_t m = S.shape(0);
    check(Q.shape(0) == m && least.shape(0) == m && V.shape(1) == m && p + limit <= V.shape(0) + 1);
    Held* own = nb::isinstance<Held>(source) ? nb::cast<Held*>(source) : nullptr;
    check(!own || own->m == m);
    Values s(S.data(), S.data() + m), q(Q.data(), Q.data() + m), closed(m);
    for (size_t j = 0; j < m; ++j) closed[j] = least.data()[j] < 0.0 ? INF : least.data()[j];
    std::vector<long> chosen;
    Values alphas;
    double first = 0.0;
    while (limit > 0) {
        const auto [i, ratio] = largest(s.data(), q.data(), closed.data(), m);
        const double gain = ratio > 1.0 ? 0.5 * (ratio - 1.0 - std::log(ratio)) : 0.0;
        if (i < 0 || !(gain >= std::max(tol, part * first))) break;
        if (chosen.empty()) first = gain;
        chosen.push_back(i);
        alphas.push_back(std::max(best_precision(s[i], q[i]), floor));
        if (chosen.size() == limit) break;  // what is left need not be known
        ConstVector found;  // lives as long as what it points to is read
        if (!own) {
            found = cast<ConstVector>(source(i));
            check(found.shape(0) == m);
        }
        const double* row = own ? own->product(size_t(i)) : found.data();
        take(row, scale, V.data(), m, p++, size_t(i), alphas.back(), s.data(), q.data());
        closed[i] = INF;
    }
    return nb::make_tuple(chosen, alphas, first);
}

}  // namespace

NB_MODULE(relevance, m) {
    nb::class_<Room>(m, "Room").def(nb::init<>());
    m.def("settle", &settle, nb::arg("room"), nb::arg("gram"), nb::arg("right"), nb::arg("alpha"),
          nb::arg("beta"), nb::arg("square"), nb::arg("total"), nb::arg("learns"), nb::arg("cap"),
          nb::arg("tol"), nb::arg("limit"));
    m.def("exchanges", &exchanges);
    nb::class_<Held>(m, "Candidates")
        .def(nb::init<Matrix, nb::object, ConstVector, ConstVector, ConstVector, Matrix, Matrix,
                      ConstVector, double, nb::object>(),
             nb::arg("Phi"), nb::arg("inner").none(), nb::arg("inverse"), nb::arg("weights"),
             nb::arg("t"), nb::arg("flat"), nb::arg("flat_products"), nb::arg("targets"),
             nb::arg("spread"), nb::arg("every").none())
        .def("given", &Held::given, nb::arg("active"), nb::arg("gram").noconvert(),
             nb::arg("right").noconvert())
        .def("evaluate", &Held::evaluate, nb::arg("active"), nb::arg("prior"), nb::arg("beta"),
             nb::arg("least"), nb::arg("R").noconvert(), nb::arg("mu").noconvert(),
             nb::arg("rest").noconvert())
        .def("seen", &Held::seen, nb::arg("active"), nb::arg("R"), nb::arg("mu"), nb::arg("beta"),
             nb::arg("V").noconvert(), nb::arg("S").noconvert(), nb::arg("Q").noconvert())
        .def("products", &Held::products, nb::arg("active"), nb::arg("out").noconvert())
        .def("functions", &Held::functions, nb::arg("active"), nb::arg("out").noconvert());
    m.def("weighted_squares", &weighted_squares, nb::arg("A"), nb::arg("b"),
          nb::arg("sums").noconvert());
    m.def("additions", &additions, nb::arg("source"), nb::arg("scale"), nb::arg("S"), nb::arg("Q"),
          nb::arg("least"), nb::arg("V").noconvert(), nb::arg("p"), nb::arg("tol"), nb::arg("part"),
          nb::arg("limit"), nb::arg("floor"));
}
