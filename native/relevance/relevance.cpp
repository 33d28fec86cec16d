// Relevance search, the part whose size is the number of functions in the model: settling them, the
// best exchanges of one inside for a candidate outside, and what taking one in does to the others.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/vector.h>

#include "relevance/climb.hpp"

namespace nb = nanobind;
using Matrix = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Vector = nb::ndarray<double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using ConstVector = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Indices = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using View1 = nb::ndarray<nb::numpy, const double, nb::ndim<1>>;
using View2 = nb::ndarray<nb::numpy, const double, nb::ndim<2>>;
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

// See exchanges_of; returns the place, the candidate, its precision and the gain of each.
nb::list exchanges(Matrix T, ConstVector v, ConstVector mu, ConstVector alpha, ConstVector S,
                   ConstVector Q, ConstVector least, double tol, double floor) {
    const size_t m = T.shape(0), M = T.shape(1);
    if (v.shape(0) != M || mu.shape(0) != M || alpha.shape(0) != M || S.shape(0) != m ||
        Q.shape(0) != m || least.shape(0) != m)
        throw nb::value_error("shapes do not match");
    nb::list found;
    for (const Exchange& one : exchanges_of(T.data(), m, M, v.data(), mu.data(), alpha.data(), S.data(),
                                            Q.data(), least.data(), tol, floor))
        found.append(nb::make_tuple(one.goes, one.comes, one.alpha, one.gain));
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
                nb::gil_scoped_acquire acquire;
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

    // See posterior; returns the misfit and the log evidence, or None.
    nb::object evaluate(Indices active, ConstVector prior, double beta, double least, Rows R, Vector mu,
                        Vector rest) {
        const size_t M = known(active), p = k + M;
        check(prior.shape(0) == M && mu.shape(0) == p && rest.shape(0) == n && R.shape(0) == p &&
              R.shape(1) == p);
        double misfit, evidence;
        if (!posterior(active.data(), M, prior.data(), beta, least, R.data(), mu.data(), rest.data(),
                       misfit, evidence))
            return nb::none();
        return nb::make_tuple(misfit, evidence);
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

    // Climb from the flat functions with noise precision beta; see Climb. ``usable`` (m) is 0 for what is
    // no candidate. Where digits or speed are better kept by LAPACK, ``hard`` (active, prior, beta)
    // returns R', mu and the evidence, ``wide`` (active, R', mu, beta) returns V, S and Q, and ``back``
    // (R', V) Sigma F B phi_m (m, p). Returns active, prior, beta, the evidence after each step, how many
    // steps were of which kind, and whether it converged.
    nb::tuple ascend(ConstVector usable, double beta, double square, double cap, bool learns, bool held,
                     double tol, long limit, double pivot, nb::object hard, nb::object wide,
                     nb::object back) {
        check(usable.shape(0) == m);
        const auto names = [](const Names& active) {
            nb::list list;
            for (const auto i : active) list.append(i);
            return list;
        };
        Climb run{*this, usable.data(), square, cap, tol, pivot, limit, learns};
        const auto triangle = [](const Model& one) {
            const size_t p = one.mu.size();
            return View2(one.R.data(), {p, p}).cast();
        };
        const auto weights = [](const Values& x) { return View1(x.data(), {x.size()}).cast(); };
        run.hard = [&](Model& one) {
            nb::gil_scoped_acquire acquire;
            const nb::tuple found(hard(names(one.active), weights(one.prior), one.beta));
            const auto R = cast<Matrix>(found[0]);
            const auto mu = cast<ConstVector>(found[1]);
            check(R.size() == one.R.size() && mu.size() == one.mu.size());
            std::copy(R.data(), R.data() + R.size(), one.R.begin());
            std::copy(mu.data(), mu.data() + mu.size(), one.mu.begin());
            one.evidence = nb::cast<double>(found[2]);
        };
        run.wide = [&](const Model& one, double* V, double* S, double* Q) {
            nb::gil_scoped_acquire acquire;
            const nb::tuple found(wide(names(one.active), triangle(one), weights(one.mu), one.beta));
            const auto rows = cast<Matrix>(found[0]);
            const auto s = cast<ConstVector>(found[1]), q = cast<ConstVector>(found[2]);
            check(rows.size() == one.mu.size() * m && s.size() == m && q.size() == m);
            std::copy(rows.data(), rows.data() + rows.size(), V);
            std::copy(s.data(), s.data() + m, S);
            std::copy(q.data(), q.data() + m, Q);
        };
        run.back = [&](const Model& one, const double* V, double* T) {
            nb::gil_scoped_acquire acquire;
            const size_t p = one.mu.size();
            const auto found = cast<Matrix>(back(triangle(one), View2(V, {p, m}).cast()));
            check(found.shape(0) == m && found.shape(1) == p - k);
            std::copy(found.data(), found.data() + found.size(), T);
        };
        {
            nb::gil_scoped_release release;
            run.begin(beta);
            run.ascend(held);
        }
        return nb::make_tuple(names(run.model.active), run.model.prior, run.model.beta, run.trace,
                              std::vector<long>(run.counts, run.counts + 5), run.converged);
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

// See chosen_of; S must exceed ``least`` (m), closed if < 0, and ``source`` is Candidates, or a function
// that gives products. Returns the candidates, their precisions, and what the first gains.
nb::tuple additions(nb::object source, double scale, ConstVector S, ConstVector Q, ConstVector least,
                    Rows V, size_t p, double tol, double part, size_t limit, double floor) {
    const size_t m = S.shape(0);
    check(Q.shape(0) == m && least.shape(0) == m && V.shape(1) == m && p + limit <= V.shape(0) + 1);
    Held* own = nb::isinstance<Held>(source) ? nb::cast<Held*>(source) : nullptr;
    check(!own || own->m == m);
    Values s(S.data(), S.data() + m), q(Q.data(), Q.data() + m), closed(m);
    for (size_t j = 0; j < m; ++j) closed[j] = least.data()[j] < 0.0 ? INF : least.data()[j];
    ConstVector found;  // lives as long as what it points to is read
    const auto products = [&](long i) -> const double* {
        if (own) return own->product(size_t(i));
        found = cast<ConstVector>(source(i));
        check(found.shape(0) == m);
        return found.data();
    };
    const Additions all =
        chosen_of(products, scale, s, q, closed, V.data(), p, tol, part, limit, floor);
    return nb::make_tuple(all.chosen, all.alphas, all.first);
}

}  // namespace

NB_MODULE(relevance, m) {
    m.attr("COLLINEAR") = COLLINEAR;
    m.attr("SHARE") = SHARE;
    m.attr("FEW") = FEW;
    m.attr("SETTLED") = SETTLED;
    m.attr("FINE") = FINE;
    m.attr("EXCHANGE") = EXCHANGE;
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
        .def("ascend", &Held::ascend, nb::arg("usable"), nb::arg("beta"), nb::arg("square"),
             nb::arg("cap"), nb::arg("learns"), nb::arg("held"), nb::arg("tol"), nb::arg("limit"),
             nb::arg("pivot"), nb::arg("hard"), nb::arg("wide"), nb::arg("back"))
        .def("products", &Held::products, nb::arg("active"), nb::arg("out").noconvert())
        .def("functions", &Held::functions, nb::arg("active"), nb::arg("out").noconvert());
    m.def("weighted_squares", &weighted_squares, nb::arg("A"), nb::arg("b"),
          nb::arg("sums").noconvert());
    m.def("additions", &additions, nb::arg("source"), nb::arg("scale"), nb::arg("S"), nb::arg("Q"),
          nb::arg("least"), nb::arg("V").noconvert(), nb::arg("p"), nb::arg("tol"), nb::arg("part"),
          nb::arg("limit"), nb::arg("floor"));
}
