// Linear algebra of Matern covariances on a line in O(n): the process is Markov in its state.
//
// A component of order p (Matern p - 1/2) has the state (f, f'/rate, .., f^(p-1)/rate^(p-1)), with
// rate = sqrt(2 p - 1) / length scale. Over a gap d, x = rate d, the state moves by A(x), with the
// covariance variance Q(x); both depend on x alone. Sums of components stack their states.
// Reference: GPML appendix B; Hartikainen & Sarkka, 2010. Points are sorted, gaps[i] = x[i] - x[i-1].
#include "line/recursion.hpp"

namespace {

using namespace mercer;

constexpr int LARGEST = 9;        // of all states together: three components of order three
constexpr double NEAR = 0.5;      // below, Q is a sum of squares: P - A P A' would cancel
constexpr double FAR = 700.0;     // beyond, exp(-x) is nothing
constexpr double NODE[] = {0.1834346424956498, 0.5255324099163290, 0.7966664774136267,
                           0.9602898564975363};
constexpr double SHARE[] = {0.3626837833783620, 0.3137066458778873, 0.2223810344533745,
                            0.1012285362903763};  // Gauss-Legendre, eight points
constexpr double NOISE[] = {2.0, 4.0, 16.0 / 3.0};  // intensity of the white noise that drives f
constexpr double LAST[3][3] = {{-1.0, 0.0, 0.0}, {-1.0, -2.0, 0.0}, {-1.0, -3.0, -3.0}};
constexpr double RESTING[3][9] = {{1.0},
                                  {1.0, 0.0, 0.0, 1.0},
                                  {1.0, 0.0, -1.0 / 3.0, 0.0, 1.0 / 3.0, 0.0, -1.0 / 3.0, 0.0, 1.0}};

// a (p, p) <- A(x)
void move(int p, double x, double* a) {
    const double e = x < FAR ? std::exp(-x) : 0.0, h = 0.5 * x * x;
    if (e == 0.0) {
        for (int i = 0; i < p * p; ++i) a[i] = 0.0;
    } else if (p == 1) {
        a[0] = e;
    } else if (p == 2) {
        a[0] = e * (1.0 + x), a[1] = e * x, a[2] = -e * x, a[3] = e * (1.0 - x);
    } else {
        a[0] = e * (1.0 + x + h), a[1] = e * (x + x * x), a[2] = e * h;
        a[3] = -e * h, a[4] = e * (1.0 + x - x * x), a[5] = e * (x - h);
        a[6] = e * (h - x), a[7] = e * (x * x - 3.0 * x), a[8] = e * (1.0 - 2.0 * x + h);
    }
}

// q (p, p) += c g g', g the last column of A(x): how a kick of noise x ago is felt
void add_kick(int p, double x, double c, double* q) {
    double a[9];
    move(p, x, a);
    for (int i = 0; i < p; ++i)
        for (int j = 0; j < p; ++j) q[i * p + j] += c * a[i * p + p - 1] * a[j * p + p - 1];
}

// q (p, p) <- Q(x) = P - A P A' = integral of NOISE g g' from 0 to x
void spread(int p, double x, const double* a, double* q) {
    const double* rest = RESTING[p - 1];
    if (x < NEAR) {
        for (int i = 0; i < p * p; ++i) q[i] = 0.0;
        const double scale = 0.5 * x * NOISE[p - 1];
        for (int k = 0; k < 4; ++k) {
            add_kick(p, 0.5 * x * (1.0 - NODE[k]), scale * SHARE[k], q);
            add_kick(p, 0.5 * x * (1.0 + NODE[k]), scale * SHARE[k], q);
        }
        return;
    }
    for (int i = 0; i < p; ++i)
        for (int j = 0; j < p; ++j) {
            double t = rest[i * p + j];
            for (int k = 0; k < p; ++k)
                for (int l = 0; l < p; ++l) t -= a[i * p + k] * rest[k * p + l] * a[j * p + l];
            q[i * p + j] = t;
        }
}

template <int D>
struct Model : Observed<D> {
    int count, order[D], at[D];
    double rate[D], variance[D], gap = -1.0;
    double A[D * D], Q[D * D];            // over the gap
    double dA[D * D], dQ[D * D];          // x d/dx of each block
    double rest[D * D];                   // covariance of the state

    Model(const Orders& orders, const Vector& rates, const Vector& variances)
        : count(int(orders.size())), A{}, Q{}, dA{}, dQ{}, rest{} {
        for (int k = 0, s = 0; k < count; s += order[k++]) {
            order[k] = orders(k), rate[k] = rates(k), variance[k] = variances(k), at[k] = s;
            this->first[s] = true;
            for (int i = 0; i < order[k]; ++i)
                for (int j = 0; j < order[k]; ++j)
                    rest[(s + i) * D + s + j] = variance[k] * RESTING[order[k] - 1][i * order[k] + j];
        }
    }

    // A alone: nothing that needs Q may follow
    void moved(double d) {
        if (d == gap) return;
        gap = d;
        for (int k = 0; k < count; ++k) {
            const int p = order[k], s = at[k];
            double a[9];
            move(p, rate[k] * d, a);
            for (int i = 0; i < p; ++i)
                for (int j = 0; j < p; ++j) A[(s + i) * D + s + j] = a[i * p + j];
        }
    }

    void over(double d) {
        if (d == gap) return;  // a grid: nothing new
        gap = d;
        for (int k = 0; k < count; ++k) {
            const int p = order[k], s = at[k];
            const double x = rate[k] * d;
            double a[9], q[9], kick[9] = {};
            move(p, x, a);
            spread(p, x, a, q);
            if (x < FAR) add_kick(p, x, x * NOISE[p - 1], kick);
            for (int i = 0; i < p; ++i)
                for (int j = 0; j < p; ++j) {
                    double f = 0.0;  // row i of x F A
                    if (x < FAR) {
                        if (i + 1 < p) f = a[(i + 1) * p + j];
                        else
                            for (int l = 0; l < p; ++l) f += LAST[p - 1][l] * a[l * p + j];
                        f *= x;
                    }
                    const int to = (s + i) * D + s + j;
                    A[to] = a[i * p + j], Q[to] = variance[k] * q[i * p + j];
                    dA[to] = f, dQ[to] = variance[k] * kick[i * p + j];
                }
        }
    }
};

// sum log|F_i| over points with W != 0, F_i = var of f_i given those before + 1/W_i, and its gradient
// in log rate, log variance of each component: gradient (2, count)
template <int D>
double logdet(Model<D> model, const Vector& gaps, const Vector& W, Results gradient) {
    if (gradient.shape(1) == 0) return determinant<D>(model, gaps, W);
    const int K = model.count;
    double P[D * D], ph[D], total = 0.0;
    Patience patience;
    std::vector<double> dP(2 * K * D * D, 0.0);
    std::vector<double> sums(2 * K, 0.0);
    for (int i = 0; i < D * D; ++i) P[i] = model.rest[i];
    for (int k = 0; k < K; ++k) {
        double* dV = &dP[(K + k) * D * D];
        const int s = model.at[k], p = model.order[k];
        for (int i = s; i < s + p; ++i)
            for (int j = s; j < s + p; ++j) dV[i * D + j] = model.rest[i * D + j];
    }
    for (size_t t = 0; t < W.size(); ++t) {
        if (t % SPELL == 0) patience();
        if (t) {
            model.over(gaps(t - 1));
            for (int k = 0; k < K; ++k) {
                double* dR = &dP[k * D * D];
                double* dV = &dP[(K + k) * D * D];
                const int s = model.at[k], p = model.order[k];
                predict<D>(model.A, dR, nullptr);
                predict<D>(model.A, dV, nullptr);
                // dA_k P A' + its transpose: only rows of component k in the first
                double half[D * D] = {}, full[D * D];
                for (int i = s; i < s + p; ++i)
                    for (int j = 0; j < D; ++j) {
                        double v = 0.0;
                        for (int l = s; l < s + p; ++l) v += model.dA[i * D + l] * P[l * D + j];
                        half[i * D + j] = v;
                    }
                product<D>(half, model.A, full, true);
                for (int i = 0; i < D; ++i)
                    for (int j = 0; j < D; ++j) dR[i * D + j] += full[i * D + j] + full[j * D + i];
                for (int i = s; i < s + p; ++i)
                    for (int j = s; j < s + p; ++j) {
                        dR[i * D + j] += model.dQ[i * D + j];
                        dV[i * D + j] += model.Q[i * D + j];
                    }
            }
            predict<D>(model.A, P, model.Q);
        }
        if (W(t) == 0.0) continue;
        model.with_f(P, ph);
        const double F = model.value(ph) + 1.0 / W(t);
        if (!(F * W(t) > 0.0)) return NOT_POSITIVE;
        total += std::log(std::abs(F));
        for (int j = 0; j < 2 * K; ++j) {
            double* M = &dP[j * D * D];
            double mh[D];
            model.with_f(M, mh);
            const double dF = model.value(mh);
            sums[j] += dF / F;
            for (int a = 0; a < D; ++a)
                for (int b = 0; b < D; ++b)
                    M[a * D + b] -= (mh[a] * ph[b] + ph[a] * mh[b] - ph[a] * ph[b] * dF / F) / F;
        }
        for (int a = 0; a < D; ++a)
            for (int b = 0; b < D; ++b) P[a * D + b] -= ph[a] * ph[b] / F;
    }
    for (int k = 0; k < K; ++k) gradient(0, k) = sums[k], gradient(1, k) = sums[K + k];
    return total;
}

// gradient (2, count) += sum_c U_c' dK V_c in log rate and log variance, from pairs i >= j of (i, j)
// if with_self, else i > j; U'dK V is the first for (U, V) and the second for (V, U)
template <int D>
void slope(Model<D> model, const Vector& gaps, const Table& U, const Table& V, bool with_self,
           Results gradient) {
    const size_t n = V.shape(0), m = V.shape(1);
    Patience patience;
    std::vector<double> state(m * D, 0.0), change(m * D, 0.0);
    double source[D], moved[D], turned[D];
    model.with_f(model.rest, source);
    for (size_t t = 0; t < n; ++t) {
        if (t % SPELL == 0) patience();
        if (t) model.over(gaps(t - 1));
        for (size_t c = 0; c < m; ++c) {
            double* s = &state[c * D];
            double* ds = &change[c * D];
            if (t) {
                multiply<D>(model.A, ds, moved);
                multiply<D>(model.dA, s, turned);
                for (int i = 0; i < D; ++i) ds[i] = moved[i] + turned[i];
                multiply<D>(model.A, s, moved);
                for (int i = 0; i < D; ++i) s[i] = moved[i];
            }
            const double u = U(t, c), v = V(t, c);
            for (int k = 0; k < model.count; ++k) {
                const int f = model.at[k];
                gradient(0, k) += u * ds[f];
                gradient(1, k) += u * (s[f] + (with_self ? source[f] * v : 0.0));
            }
            for (int i = 0; i < D; ++i) s[i] += source[i] * v;
        }
    }
}

// Call f(Model<D>) for the D of these components.
template <int D = 1, class F>
void with_model(const Orders& o, const Vector& r, const Vector& v, int size, F&& f) {
    if constexpr (D <= LARGEST) {
        if (size == D) f(Model<D>(o, r, v));
        else with_model<D + 1>(o, r, v, size, f);
    }
}

int size_of(const Orders& orders, const Vector& rates, const Vector& variances) {
    int total = 0;
    for (size_t k = 0; k < orders.size(); ++k) {
        if (orders(k) < 1 || orders(k) > 3) throw nb::value_error("orders must be 1, 2 or 3");
        total += orders(k);
    }
    if (total < 1 || total > LARGEST) throw nb::value_error("the state has one to nine entries");
    if (rates.size() != orders.size() || variances.size() != orders.size())
        throw nb::value_error("one rate and one variance for each component");
    return total;
}

}  // namespace

NB_MODULE(waves, module) {
    using nb::literals::operator""_a;
    module.doc() = "Matern covariances on a line in O(n): determinants, solves, products, slopes.";
    module.attr("LARGEST") = LARGEST;
    module.def(
        "logdet",
        [](Orders o, Vector r, Vector v, Vector gaps, Vector W, Results gradient) {
            const int size = size_of(o, r, v);
            check(gaps.size() + 1 == W.size() && gradient.shape(0) == 2 &&
                  (gradient.shape(1) == 0 || gradient.shape(1) == o.size()));
            double total = 0.0;
            nb::gil_scoped_release release;
            with_model(o, r, v, size, [&](auto m) { total = logdet(m, gaps, W, gradient); });
            return total;
        },
        "orders"_a, "rates"_a, "variances"_a, "gaps"_a, "W"_a, "gradient"_a.noconvert());
    module.def(
        "smooth",
        [](Orders o, Vector r, Vector v, Vector gaps, Vector W, Table Z, Results solved,
           Result inverse, Result variance) {
            const int size = size_of(o, r, v);
            const size_t n = W.size();
            check(gaps.size() + 1 == n && Z.shape(0) == n && solved.shape(0) == n &&
                  solved.shape(1) == Z.shape(1) && inverse.size() == n && variance.size() == n);
            double total = 0.0;
            nb::gil_scoped_release release;
            with_model(o, r, v, size,
                       [&](auto m) { total = smooth<m.size>(m, gaps, W, Z, solved, inverse, variance); });
            return total;
        },
        "orders"_a, "rates"_a, "variances"_a, "gaps"_a, "W"_a, "Z"_a, "solved"_a.noconvert(),
        "inverse"_a.noconvert(), "variance"_a.noconvert());
    module.def(
        "times",
        [](Orders o, Vector r, Vector v, Vector gaps, Table V, Results out) {
            const int size = size_of(o, r, v);
            check(gaps.size() + 1 == V.shape(0) && out.shape(0) == V.shape(0) &&
                  out.shape(1) == V.shape(1));
            nb::gil_scoped_release release;
            with_model(o, r, v, size, [&](auto m) { times<m.size>(m, gaps, V, out); });
        },
        "orders"_a, "rates"_a, "variances"_a, "gaps"_a, "V"_a, "out"_a.noconvert());
    module.def(
        "slope",
        [](Orders o, Vector r, Vector v, Vector gaps, Table U, Table V, Results gradient) {
            const int size = size_of(o, r, v);
            check(gaps.size() + 1 == V.shape(0) && U.shape(0) == V.shape(0) &&
                  U.shape(1) == V.shape(1) && gradient.shape(0) == 2 &&
                  gradient.shape(1) == o.size());
            nb::gil_scoped_release release;
            with_model(o, r, v, size, [&](auto m) {
                slope(m, gaps, U, V, true, gradient);
                slope(m, gaps, V, U, false, gradient);
            });
        },
        "orders"_a, "rates"_a, "variances"_a, "gaps"_a, "U"_a, "V"_a, "gradient"_a.noconvert());
}
