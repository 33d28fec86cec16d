// Linear algebra of any stationary Gaussian process on a line with a rational spectrum, in O(n).
//
// The state is a stack of independent blocks, ds = F s dx + noise of intensity N, with the covariance P:
// F P + P F' + N = 0. f is the sum of the first entries of the blocks: k(r) = sum_b [exp(F_b r) P_b]_00.
// Reference: Hartikainen & Sarkka, 2010; Sarkka & Solin, Applied Stochastic Differential Equations, 2019.
// F, N, P are blocks of sizes p_b, row by row, one after the other: sum_b p_b^2 numbers each.
#include "line/recursion.hpp"

namespace {

using namespace mercer;

constexpr int LARGEST = 16;     // of all states together
constexpr double SHORT = 0.5;   // |F| times a step whose exponential is a short Taylor series
constexpr int TERMS = 16;       // of it; of the covariance, whose terms shrink half as fast, below
constexpr int MORE_TERMS = 22;

// out (p, p) <- L R
void block_product(int p, const double* L, const double* R, double* out) {
    for (int i = 0; i < p; ++i)
        for (int j = 0; j < p; ++j) {
            double t = 0.0;
            for (int k = 0; k < p; ++k) t += L[i * p + k] * R[k * p + j];
            out[i * p + j] = t;
        }
}

// Return how often a step of d is halved until it is short, and the step.
int halvings(double norm, double d, double* step) {
    int count = 0;
    for (*step = d; norm * *step > SHORT && count < 1000; ++count) *step *= 0.5;
    return count;
}

// One block: a (p, p) <- exp(F d), and unless it is null q (p, p) <- the integral of exp(F s) N exp(F's)
// over s from 0 to d: Taylor series of a short step, in which entries of high order in d keep their digits,
// then Q(2 d) = A Q A' + Q and A(2 d) = A A, sums of positive matrices.
template <int D>
void step(int p, const double* F, const double* N, double norm, double d, double* a, double* q) {
    const int size = p * p;
    double h, term[D * D], next[D * D], half[D * D];
    const int count = halvings(norm, d, &h);
    for (int i = 0; i < size; ++i) a[i] = term[i] = i % (p + 1) ? 0.0 : 1.0;
    for (int j = 1; j <= TERMS; ++j) {
        block_product(p, term, F, next);
        for (int i = 0; i < size; ++i) a[i] += term[i] = next[i] * (h / j);
    }
    if (q) {
        for (int i = 0; i < size; ++i) q[i] = term[i] = N[i] * h;
        for (int j = 2; j <= MORE_TERMS; ++j) {
            block_product(p, F, term, next);
            for (int i = 0; i < p; ++i)
                for (int k = 0; k < p; ++k)
                    half[i * p + k] = (next[i * p + k] + next[k * p + i]) * (h / j);
            for (int i = 0; i < size; ++i) q[i] += term[i] = half[i];
        }
    }
    for (int c = 0; c < count; ++c) {
        if (q) {
            block_product(p, a, q, next);
            for (int i = 0; i < p; ++i)
                for (int j = 0; j < p; ++j) {
                    double t = 0.0;
                    for (int k = 0; k < p; ++k) t += next[i * p + k] * a[j * p + k];
                    half[i * p + j] = t;
                }
            for (int i = 0; i < p; ++i)
                for (int j = 0; j < p; ++j) q[i * p + j] += 0.5 * (half[i * p + j] + half[j * p + i]);
        }
        block_product(p, a, a, next);
        for (int i = 0; i < size; ++i) a[i] = next[i];
    }
}

// out (p, p) += d<G, exp(F d)>/dF: the integral of exp(F'(d - s)) G exp(F's), transposed the derivative of
// the exponential in the direction of G'; by the series of both and L(2 d) = A L + L A.
template <int D>
void step_back(int p, const double* F, double norm, double d, const double* G, double* out) {
    const int size = p * p;
    double h, e[D * D], l[D * D], te[D * D], tl[D * D], x[D * D], y[D * D], turned[D * D];
    const int count = halvings(norm, d, &h);
    for (int i = 0; i < p; ++i)
        for (int j = 0; j < p; ++j) turned[i * p + j] = G[j * p + i];
    for (int i = 0; i < size; ++i) e[i] = te[i] = i % (p + 1) ? 0.0 : 1.0, l[i] = tl[i] = 0.0;
    for (int j = 1; j <= TERMS + 1; ++j) {
        block_product(p, te, turned, x);
        block_product(p, tl, F, y);
        for (int i = 0; i < size; ++i) l[i] += tl[i] = (x[i] + y[i]) * (h / j);
        block_product(p, te, F, x);
        for (int i = 0; i < size; ++i) e[i] += te[i] = x[i] * (h / j);
    }
    for (int c = 0; c < count; ++c) {
        block_product(p, e, l, x);
        block_product(p, l, e, y);
        for (int i = 0; i < size; ++i) l[i] = x[i] + y[i];
        block_product(p, e, e, x);
        for (int i = 0; i < size; ++i) e[i] = x[i];
    }
    for (int i = 0; i < p; ++i)
        for (int j = 0; j < p; ++j) out[i * p + j] += l[j * p + i];
}

template <int D>
struct Model : Observed<D> {
    int count = 0, order[D], at[D], begin[D];  // of each block: size, place in the state, in F
    const double *F, *N;
    double norm[D], gap = -1.0;
    bool known = false;  // Q too
    double A[D * D] = {}, Q[D * D] = {}, rest[D * D] = {};

    Model(const Orders& sizes, const Vector& f, const Vector& n, const Vector& p)
        : F(f.data()), N(n.data()) {
        int s = 0, b = 0;
        for (count = 0; count < int(sizes.size()); ++count) {
            const int k = order[count] = sizes(count);
            at[count] = s, begin[count] = b, norm[count] = 0.0;
            this->first[s] = true;
            for (int i = 0; i < k; ++i) {
                double row = 0.0;
                for (int j = 0; j < k; ++j) {
                    row += std::fabs(F[b + i * k + j]);
                    rest[(s + i) * D + s + j] = p(b + i * k + j);
                }
                norm[count] = std::max(norm[count], row);
            }
            s += k, b += k * k;
        }
    }

    void set(double d, bool all) {
        if (d == gap && (known || !all)) return;  // a grid: nothing new
        gap = d, known = all;
        for (int k = 0; k < count; ++k) {
            const int p = order[k], s = at[k];
            double a[D * D], q[D * D];
            step<D>(p, F + begin[k], N + begin[k], norm[k], d, a, all ? q : nullptr);
            for (int i = 0; i < p; ++i)
                for (int j = 0; j < p; ++j) {
                    A[(s + i) * D + s + j] = a[i * p + j];
                    if (all) Q[(s + i) * D + s + j] = q[i * p + j];
                }
        }
    }
    void moved(double d) { set(d, false); }
    void over(double d) { set(d, true); }
};

// dF, dP += the gradient of sum_c U_c'K V_c + share * determinant by the blocks of F and P, N being
// -F P - P F'. With r the adjoint of a state and N_t that of its covariance (de Jong's), a step has
//     dA = r_t s_{t-1}' + 2 share N_t A (P_{t-1} - P),    dP = share (N_t - A'N_t A)
// since Q = P - A P A'. The cost does not depend on the number of parameters of the kernel.
template <int D>
void gradient(Model<D> model, const Vector& gaps, const Vector& W, const Table& U, const Table& V,
              double share, Result dF, Result dP) {
    const size_t n = W.size(), m = U.shape(1), wide = 2 * m * D;
    constexpr int KEEP = D * D + D;
    Patience patience;
    std::vector<double> kept(share != 0.0 ? n * KEEP : 0), noise(n, 0.0), states(n * wide);
    double P[D * D], ph[D], moved[D], source[D], turned[D * D];
    model.with_f(model.rest, source);
    for (int i = 0; i < D * D; ++i) P[i] = model.rest[i];
    for (size_t t = 0; t < n; ++t) {  // states from V, then from U, the own point included
        if (t % SPELL == 0) patience();
        if (t) share != 0.0 ? model.over(gaps(t - 1)) : model.moved(gaps(t - 1));
        double* now = &states[t * wide];
        for (size_t c = 0; c < 2 * m; ++c) {
            const double v = c < m ? V(t, c) : U(t, c - m);
            if (t) multiply<D>(model.A, now - wide + c * D, now + c * D);
            else std::fill(now + c * D, now + (c + 1) * D, 0.0);
            for (int i = 0; i < D; ++i) now[c * D + i] += source[i] * v;
        }
        if (share == 0.0) continue;
        if (t) predict<D>(model.A, P, model.Q);
        if (W(t) != 0.0) {
            model.with_f(P, ph);
            const double f = noise[t] = model.value(ph) + 1.0 / W(t);
            for (int i = 0; i < D; ++i) kept[t * KEEP + D * D + i] = ph[i] / f;
            for (int a = 0; a < D; ++a)
                for (int b = 0; b < D; ++b) P[a * D + b] -= ph[a] * ph[b] / f;
        }
        for (int i = 0; i < D * D; ++i) kept[t * KEEP + i] = P[i];
    }
    std::vector<double> back(wide, 0.0);  // r from U, then from V
    double N[D * D] = {}, byA[D * D] = {}, byP[D * D] = {}, x[D * D], y[D * D], pulled[D] = {};
    const auto through = [&](double d) {  // the sum of dA over gaps d goes to F
        for (int k = 0; k < model.count; ++k) {
            const int p = model.order[k], s = model.at[k];
            double g[D * D];
            for (int i = 0; i < p; ++i)
                for (int j = 0; j < p; ++j) g[i * p + j] = byA[(s + i) * D + s + j];
            step_back<D>(p, model.F + model.begin[k], model.norm[k], d, g, &dF(model.begin[k]));
        }
        std::fill(byA, byA + D * D, 0.0);
    };
    for (size_t t = n; t-- > 0;) {
        if (t % SPELL == 0) patience();
        if (share != 0.0 && noise[t] != 0.0) {
            const double* gain = &kept[t * KEEP + D * D];
            multiply<D>(N, gain, moved);
            double d = 1.0 / noise[t];
            for (int i = 0; i < D; ++i) d += gain[i] * moved[i];
            observed_back<D>(model, moved, d, N);
        }
        for (size_t c = 0; c < m; ++c)
            for (int i = 0; i < D; ++i) {  // from V's states with the own point, from U's without
                double *r = &back[c * D + i], *q = &back[(m + c) * D + i];
                if (model.first[i]) *r += U(t, c);
                pulled[i] += V(t, c) * *r + U(t, c) * *q;
                if (model.first[i]) *q += V(t, c);
            }
        if (t == 0) break;
        const double d = gaps(t - 1);
        model.moved(d);
        const double* before = &states[(t - 1) * wide];
        for (size_t c = 0; c < 2 * m; ++c)
            for (int i = 0; i < D; ++i)
                for (int j = 0; j < D; ++j) byA[i * D + j] += back[c * D + i] * before[c * D + j];
        transpose<D>(model.A, turned);
        if (share != 0.0) {
            for (int i = 0; i < D * D; ++i) {
                byP[i] += share * N[i];
                x[i] = kept[(t - 1) * KEEP + i] - model.rest[i];
            }
            product<D>(model.A, x, y, false);
            product<D>(N, y, x, false);
            for (int i = 0; i < D * D; ++i) byA[i] += 2.0 * share * x[i];
            predict<D>(turned, N, nullptr);
            for (int i = 0; i < D * D; ++i) byP[i] -= share * N[i];
        }
        for (size_t c = 0; c < 2 * m; ++c) {
            multiply<D>(turned, &back[c * D], moved);
            for (int i = 0; i < D; ++i) back[c * D + i] = moved[i];
        }
        if (t == 1 || gaps(t - 2) != d) through(d);
    }
    for (int k = 0; k < model.count; ++k) {
        const int p = model.order[k], s = model.at[k];
        for (int i = 0; i < p; ++i)
            for (int j = 0; j < p; ++j) {
                const double h = (j ? 0.0 : pulled[s + i]) + (i ? 0.0 : pulled[s + j]);
                const int at = (s + i) * D + s + j;
                dP(model.begin[k] + i * p + j) += byP[at] + share * N[at] + 0.5 * h;
            }
    }
}

// Call f(Model<D>) for the smallest D that holds these blocks.
template <int D = 1, class F>
void with_model(const Orders& o, const Vector& f, const Vector& n, const Vector& p, int size, F&& call) {
    if constexpr (D <= LARGEST) {
        if (size <= D) call(Model<D>(o, f, n, p));
        else with_model<D < 6 ? D + 1 : D < 12 ? D + 2 : D + 4>(o, f, n, p, size, call);
    }
}

int size_of(const Orders& sizes, const Vector& F, const Vector& N, const Vector& P) {
    size_t states = 0, numbers = 0;
    for (size_t k = 0; k < sizes.size(); ++k) {
        const int p = sizes(k);
        if (p < 1 || p > LARGEST) throw nb::value_error("a block has one to sixteen states");
        states += size_t(p), numbers += size_t(p) * size_t(p);
    }
    if (states < 1 || states > size_t(LARGEST))
        throw nb::value_error("the state has one to sixteen entries");
    check(F.size() == numbers && N.size() == numbers && P.size() == numbers);
    return int(states);
}

}  // namespace

NB_MODULE(rational, module) {
    using nb::literals::operator""_a;
    module.doc() = "Processes of rational spectrum on a line in O(n).";
    module.attr("LARGEST") = LARGEST;
    module.def(
        "logdet",
        [](Orders o, Vector f, Vector n, Vector p, Vector gaps, Vector W) {
            const int size = size_of(o, f, n, p);
            check(gaps.size() + 1 == W.size());
            double total = 0.0;
            nb::gil_scoped_release release;
            with_model(o, f, n, p, size,
                       [&](auto m) { total = determinant<m.size>(m, gaps, W); });
            return total;
        },
        "sizes"_a, "F"_a, "N"_a, "P"_a, "gaps"_a, "W"_a);
    module.def(
        "smooth",
        [](Orders o, Vector f, Vector n, Vector p, Vector gaps, Vector W, Table Z, Results solved,
           Result inverse, Result variance) {
            const int size = size_of(o, f, n, p);
            const size_t rows = W.size();
            check(gaps.size() + 1 == rows && Z.shape(0) == rows && solved.shape(0) == rows &&
                  solved.shape(1) == Z.shape(1) && inverse.size() == rows && variance.size() == rows);
            double total = 0.0;
            nb::gil_scoped_release release;
            with_model(o, f, n, p, size, [&](auto m) {
                total = smooth<m.size>(m, gaps, W, Z, solved, inverse, variance);
            });
            return total;
        },
        "sizes"_a, "F"_a, "N"_a, "P"_a, "gaps"_a, "W"_a, "Z"_a, "solved"_a.noconvert(),
        "inverse"_a.noconvert(), "variance"_a.noconvert());
    module.def(
        "times",
        [](Orders o, Vector f, Vector n, Vector p, Vector gaps, Table V, Results out) {
            const int size = size_of(o, f, n, p);
            check(gaps.size() + 1 == V.shape(0) && out.shape(0) == V.shape(0) &&
                  out.shape(1) == V.shape(1));
            nb::gil_scoped_release release;
            with_model(o, f, n, p, size, [&](auto m) { times<m.size>(m, gaps, V, out); });
        },
        "sizes"_a, "F"_a, "N"_a, "P"_a, "gaps"_a, "V"_a, "out"_a.noconvert());
    module.def(
        "gradient",
        [](Orders o, Vector f, Vector n, Vector p, Vector gaps, Vector W, Table U, Table V,
           double share, Result dF, Result dP) {
            const int size = size_of(o, f, n, p);
            check(gaps.size() + 1 == W.size() && U.shape(0) == W.size() && V.shape(0) == W.size() &&
                  U.shape(1) == V.shape(1) && dF.size() == f.size() && dP.size() == f.size());
            nb::gil_scoped_release release;
            with_model(o, f, n, p, size,
                       [&](auto m) { gradient(m, gaps, W, U, V, share, dF, dP); });
        },
        "sizes"_a, "F"_a, "N"_a, "P"_a, "gaps"_a, "W"_a, "U"_a, "V"_a, "share"_a,
        "dF"_a.noconvert(), "dP"_a.noconvert());
}
