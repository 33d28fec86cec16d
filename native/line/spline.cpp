// Smoothing splines in O(n): many smoothing parameters in one pass, states, draws and values.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>

#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "line/cavity.hpp"
#include "line/states.hpp"

namespace nb = nanobind;
using Matrix = nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using ConstMatrix = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Vector = nb::ndarray<double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using ConstVector = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

namespace {

using namespace mercer;

constexpr int HIGHEST = 6;

void require(bool fine, const char* message) {
    if (!fine) throw nb::value_error(message);
}

struct Data {
    size_t n;
    const double *gaps, *W, *y, *L1;
    Patience& patience;
};

// Orders up to 3 take WIDTH values of sf at once; higher ones, which are rare, one at a time: vectors of
// their many coefficients would not fit into registers, and take minutes to compile.
template <int M>
using Wide = std::conditional_t<(M <= 3), Lanes, double>;
template <int M>
constexpr int width = M <= 3 ? WIDTH : 1;

// width<M> values of sf: logdet = sum log|Re_ii| + sum log|R_ii| and rss, for each.
template <int M>
MERCER_CLONES void values(const Data& data, const double* sf, double* logdet, double* rss) {
    Wide<M> factor;
    for (int i = 0; i < width<M>; ++i) put(factor, i, sf[i]);
    Sweep<M, Wide<M>> sweep;
    sweep.run(data.n, data.gaps, data.W, data.y, data.L1, factor, data.patience);
    for (int i = 0; i < width<M>; ++i) {
        rss[i] = get(sweep.filter.rss, i), logdet[i] = sweep.logs.sum(i);
        for (int k = 0; k < M; ++k) logdet[i] += std::log(std::fabs(get(sweep.filter.S[k][k], i)));
    }
}

// The same with the derivatives by log sf^2.
template <int M>
MERCER_CLONES void slopes(const Data& data, const double* sf, double* logdet, double* rss,
                          double* d_logdet, double* d_rss) {
    Dual<Wide<M>> factor;
    for (int i = 0; i < width<M>; ++i) put(factor.v, i, sf[i]), put(factor.d, i, 0.5 * sf[i]);
    Sweep<M, Dual<Wide<M>>> sweep;
    sweep.run(data.n, data.gaps, data.W, data.y, data.L1, factor, data.patience);
    for (int i = 0; i < width<M>; ++i) {
        const auto all = get(sweep.filter.rss, i);
        rss[i] = all.v, d_rss[i] = all.d;
        logdet[i] = sweep.logs.sum(i), d_logdet[i] = get(sweep.logs.slope, i);
        for (int k = 0; k < M; ++k) {
            const auto r = get(sweep.filter.S[k][k], i);
            logdet[i] += std::log(std::fabs(r.v)), d_logdet[i] += r.d / r.v;
        }
    }
}

template <int M>
MERCER_CLONES void states(const Data& data, double sf, double* mean, double* cov, double* root_,
                          double* back, double* pulls, double* logdet, double* rss) {
    const Filter<M, double> filter =
        forward<M>(data.n, data.gaps, data.W, data.y, data.L1, sf, back, logdet, data.patience);
    *rss = filter.rss;
    for (int k = 0; k < M; ++k) *logdet += std::log(std::fabs(filter.S[k][k]));
    backward<M>(data.n, data.gaps, data.L1, sf, filter, mean, cov, root_, back, pulls,
                data.patience);
}

template <int M>
MERCER_CLONES void derivatives(const Knots& knots, const Rule& rule, size_t q, const double* at,
                               double* value, double* variance, Patience& patience) {
    evaluate<M>(knots, rule, q, at, value, variance, patience);
}

template <int M>
MERCER_CLONES void apart(const Data& data, double sf, double* mean, double* variance,
                         std::vector<double>& before) {
    cavities<M>(data.n, data.gaps, data.W, data.y, data.L1, sf, mean, variance, before,
                data.patience);
}

template <int M>
void sample(size_t n, const double* root_, const double* back, double* z) {
    draw<M>(n, root_, back, z);
}

template <int M>
void product(size_t n, const double* gaps, const double* L1, const double* v, double* z, double* Kv) {
    multiply<M>(n, gaps, L1, v, z, Kv);
}

// Call with the order as a compile-time constant.
template <class Task>
void with_order(size_t order, Task task) {
    switch (order) {
        case 1: return task(std::integral_constant<int, 1>());
        case 2: return task(std::integral_constant<int, 2>());
        case 3: return task(std::integral_constant<int, 3>());
        case 4: return task(std::integral_constant<int, 4>());
        case 5: return task(std::integral_constant<int, 5>());
        case HIGHEST: return task(std::integral_constant<int, HIGHEST>());
        default: throw nb::value_error("the order must be 1 to 6");
    }
}

// The order of the states, before anything is multiplied by it.
size_t checked(size_t order) {
    require(order >= 1 && order <= size_t(HIGHEST), "the order must be 1 to 6");
    return order;
}

Data data_of(const ConstVector& gaps, const ConstVector& W, const ConstVector& y,
             const ConstMatrix& L1, Patience& patience) {
    const size_t n = y.shape(0);
    require(n >= 1 && gaps.shape(0) + 1 == n && W.shape(0) == n, "shapes do not match");
    require(L1.shape(0) == L1.shape(1), "L1 must be square");
    return {n, gaps.data(), W.data(), y.data(), L1.data(), patience};
}

void sweep(ConstMatrix L1, ConstVector gaps, ConstVector W, ConstVector y, ConstVector sf,
           Vector logdet, Vector rss, std::optional<Matrix> slope) {
    Patience patience;
    const Data data = data_of(gaps, W, y, L1, patience);
    const size_t k = sf.shape(0);
    require(logdet.shape(0) == k && rss.shape(0) == k, "shapes do not match");
    require(!slope || (slope->shape(0) == 2 && slope->shape(1) == k), "shapes do not match");
    nb::gil_scoped_release release;
    with_order(L1.shape(0), [&](auto m) {
        constexpr int M = decltype(m)::value;
        constexpr size_t at_once = width<M>;
        for (size_t start = 0; start < k; start += at_once) {
            double in[at_once], out[4][at_once];
            const size_t count = std::min(at_once, k - start);
            for (size_t i = 0; i < at_once; ++i) in[i] = sf.data()[start + std::min(i, count - 1)];
            if (slope) slopes<M>(data, in, out[0], out[1], out[2], out[3]);
            else values<M>(data, in, out[0], out[1]);
            patience.check();
            for (size_t i = 0; i < count; ++i) {
                logdet.data()[start + i] = out[0][i], rss.data()[start + i] = out[1][i];
                if (slope)
                    slope->data()[start + i] = out[2][i], slope->data()[k + start + i] = out[3][i];
            }
        }
    });
}

std::pair<double, double> smooth(ConstMatrix L1, ConstVector gaps, ConstVector W, ConstVector y,
                                 double sf, Matrix mean, Matrix cov, Matrix root_, Matrix back,
                                 std::optional<Matrix> pulls) {
    Patience patience;
    const Data data = data_of(gaps, W, y, L1, patience);
    const size_t M = checked(L1.shape(0)), n = data.n;
    require(mean.shape(0) == n && mean.shape(1) == M && cov.shape(0) == n &&
                cov.shape(1) == size_t(pairs(M)) && root_.shape(0) == M && root_.shape(1) == M &&
                back.shape(0) == n - 1 && back.shape(1) == size_t(room(M)),
            "shapes do not match");
    require(!pulls || (pulls->shape(0) == n && pulls->shape(1) == M), "shapes do not match");
    double* after = pulls ? pulls->data() : nullptr;
    double logdet = 0.0, rss = 0.0;
    nb::gil_scoped_release release;
    with_order(M, [&](auto m) {
        states<decltype(m)::value>(data, sf, mean.data(), cov.data(), root_.data(), back.data(),
                                   after, &logdet, &rss);
    });
    patience.check();
    return {logdet, rss};
}

void others(ConstMatrix L1, ConstVector gaps, ConstVector W, ConstVector y, double sf, Vector mean,
            Vector variance) {
    Patience patience;
    const Data data = data_of(gaps, W, y, L1, patience);
    require(mean.shape(0) == data.n && variance.shape(0) == data.n, "shapes do not match");
    nb::gil_scoped_release release;
    with_order(L1.shape(0), [&](auto m) {
        constexpr int M = decltype(m)::value;
        std::vector<double> before(data.n * M * (M + 1));
        apart<M>(data, sf, mean.data(), variance.data(), before);
    });
    patience.check();
}

void draws(ConstMatrix root_, ConstMatrix back, Matrix z) {
    const size_t M = checked(root_.shape(0)), n = z.shape(0);
    require(n >= 1 && z.shape(1) == M && root_.shape(1) == M && back.shape(0) == n - 1 &&
                back.shape(1) == size_t(room(M)),
            "shapes do not match");
    nb::gil_scoped_release release;
    with_order(M, [&](auto m) {
        sample<decltype(m)::value>(n, root_.data(), back.data(), z.data());
    });
}

void matmul(ConstMatrix L1, ConstVector gaps, ConstVector v, Vector Kv) {
    const size_t n = v.shape(0), M = L1.shape(0);
    require(L1.shape(1) == M && gaps.shape(0) == n && Kv.shape(0) == n, "shapes do not match");
    std::vector<double> z(n * M);
    nb::gil_scoped_release release;
    with_order(M, [&](auto m) {
        product<decltype(m)::value>(n, gaps.data(), L1.data(), v.data(), z.data(), Kv.data());
    });
}

void at(ConstVector x, double unit, double variance, ConstMatrix mean, ConstMatrix cov,
        ConstMatrix back, int order, ConstMatrix weights, ConstVector bridge, double outside,
        ConstVector queries, Vector value, std::optional<Vector> spread) {
    const size_t n = x.shape(0), M = checked(mean.shape(1)), q = queries.shape(0);
    require(n >= 1 && mean.shape(0) == n && cov.shape(0) == n && cov.shape(1) == size_t(pairs(M)) &&
                back.shape(0) == n - 1 && back.shape(1) == size_t(room(M)),
            "shapes do not match");
    require(weights.shape(0) == M && weights.shape(1) == 2 * M && value.shape(0) == q &&
                (!spread || spread->shape(0) == q) && order >= 0,
            "shapes do not match");
    require(!spread || order < int(M), "no variance beyond the derivatives in the state");
    const Knots knots{n, x.data(), mean.data(), cov.data(), back.data(), unit, variance};
    const Rule rule{order, weights.data(), bridge.data(), int(bridge.shape(0)), outside};
    double* second = spread ? spread->data() : nullptr;
    Patience patience;
    nb::gil_scoped_release release;
    with_order(M, [&](auto m) {
        derivatives<decltype(m)::value>(knots, rule, q, queries.data(), value.data(), second,
                                        patience);
    });
    patience.check();
}

}  // namespace

NB_MODULE(markov, module) {
    using nb::literals::operator""_a;
    module.doc() = "Smoothing splines in O(n): square-root information filter and smoother.";
    module.attr("HIGHEST") = HIGHEST;
    module.def("room", [](size_t order) { return room(int(checked(order))); }, "order"_a);
    module.def("sweep", &sweep, "L1"_a, "gaps"_a, "W"_a, "y"_a, "sf"_a, "logdet"_a.noconvert(),
               "rss"_a.noconvert(), "slope"_a.noconvert().none() = nb::none());
    module.def("smooth", &smooth, "L1"_a, "gaps"_a, "W"_a, "y"_a, "sf"_a, "mean"_a.noconvert(),
               "cov"_a.noconvert(), "root"_a.noconvert(), "back"_a.noconvert(),
               "pulls"_a.noconvert().none() = nb::none());
    module.def("others", &others, "L1"_a, "gaps"_a, "W"_a, "y"_a, "sf"_a, "mean"_a.noconvert(),
               "variance"_a.noconvert());
    module.def("draws", &draws, "root"_a, "back"_a, "z"_a.noconvert());
    module.def("matmul", &matmul, "L1"_a, "gaps"_a, "v"_a, "Kv"_a.noconvert());
    module.def("at", &at, "x"_a, "unit"_a, "variance"_a, "mean"_a, "cov"_a, "back"_a, "order"_a,
               "weights"_a, "bridge"_a, "outside"_a, "queries"_a, "value"_a.noconvert(),
               "spread"_a.noconvert().none() = nb::none());
}
