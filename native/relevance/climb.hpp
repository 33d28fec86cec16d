// The relevance search under Gaussian noise, from no function to the end: search/relevance/climb.py
// says by which rules, and has the same search for other losses.
#pragma once
#include "relevance/gaussian.hpp"

namespace mercer {

// Up to so many functions the loops here see all candidates as fast as BLAS.
constexpr size_t SMALL = 24;
// A candidate with less than this share of its length outside the model's span is not a candidate.
constexpr double COLLINEAR = 1e-11;
// Candidates are taken in together while they gain this share of the first, and not too many.
constexpr double SHARE = 0.1;
constexpr size_t FEW = 4;
// Between additions precisions settle until the next step gains this share of the last addition; the
// last changes of precisions matter less than a function: that share of the tolerance.
constexpr double SETTLED = 0.5, FINE = 1e-3;
// Exchanges are looked for where no addition gains the tolerance, if that is less than this.
constexpr double EXCHANGE = 0.1;
// Noise that is held is let go when the best addition gains less.
constexpr double RELEASE = 8.0;

// Functions in the model, in the order they came, their precisions, and the posterior.
struct Model {
    Names active;
    Values prior, R, mu;  // (M), (p, p) the lower triangle of R'R, (p)
    double beta = 1.0, evidence = -INF;
};

struct Climb {
    enum Kind { ADDED, DELETED, CHANGED, EXCHANGED, UNDONE };

    Candidates& from;
    const double* usable;  // (m) 0 for what is no candidate
    double square, cap, tol, pivot;
    long limit;
    bool learns;
    // What is left to LAPACK: models that lose digits, models of many functions.
    std::function<void(Model&)> hard;
    std::function<void(const Model&, double*, double*, double*)> wide;
    std::function<void(const Model&, const double*, double*)> back;

    Model model;
    Values trace;
    long counts[5] = {0, 0, 0, 0, 0};
    bool converged = false;
    Values rest, S, Q, least, V;
    Patience patience;

    long left() const {
        return limit - (counts[0] + counts[1] + counts[2] + counts[3] + counts[4]);
    }

    Model at(Names active, Values prior, double beta) {
        Model one;
        const size_t M = active.size(), p = from.k + M;
        one.active = std::move(active), one.prior = std::move(prior), one.beta = beta;
        one.R.resize(p * p), one.mu.resize(p);
        double misfit;
        if (!from.posterior(one.active.data(), M, one.prior.data(), beta, pivot, one.R.data(),
                            one.mu.data(), rest.data(), misfit, one.evidence))
            hard(one);
        return one;
    }

    void begin(double beta) {
        rest.resize(from.n);
        model = at({}, {}, beta);
        trace.push_back(model.evidence);
    }

    // Go to a new model if the evidence rises there.
    bool rises(Model next) {
        if (!(next.evidence > model.evidence + 1e-13 * std::fabs(model.evidence))) {
            ++counts[UNDONE];
            return false;
        }
        model = std::move(next);
        trace.push_back(model.evidence);
        return true;
    }

    bool to(Names active, Values prior, double beta, Kind kind) {
        return rises(at(std::move(active), std::move(prior), beta)) && ++counts[kind];
    }

    void scan(size_t more) {
        const size_t m = from.m, p = model.mu.size();
        S.resize(m), Q.resize(m), least.resize(m);
        if (V.size() < (p + more) * m) V.resize((p + more) * m);
        if (p <= SMALL)
            from.outside(model.active.data(), model.active.size(), model.R.data(), model.mu.data(),
                         model.beta, V.data(), S.data(), Q.data());
        else
            wide(model, V.data(), S.data(), Q.data());
        const double bar = COLLINEAR * model.beta;  // of columns of unit length
        for (size_t j = 0; j < m; ++j) least[j] = usable[j] != 0.0 ? bar : -1.0;
        for (const auto i : model.active) least[i] = -1.0;
    }

    std::vector<Exchange> exchanges() {
        const size_t m = from.m, k = from.k, M = model.active.size(), p = k + M;
        if (!M || !m) return {};
        Values T(m * M), variances(p, 0.0), inverse(p * p, 0.0);
        for (size_t j = 0; j < p; ++j) {  // the columns of L^-1
            for (size_t i = j; i < p; ++i) {
                double sum = i == j ? 1.0 : 0.0;
                for (size_t a = j; a < i; ++a) sum -= model.R[i * p + a] * inverse[a * p + j];
                inverse[i * p + j] = sum / model.R[i * p + i];
                variances[j] += inverse[i * p + j] * inverse[i * p + j];
            }
        }
        if (p <= SMALL) {
            Values rows(V.data(), V.data() + p * m), c(p);
            for (size_t a = p; a-- > k;) {  // R^-1 V, the last row first
                const double own = 1.0 / model.R[a * p + a];
                double* row = rows.data() + a * m;
                for (size_t j = 0; j < m; ++j) row[j] *= own;
                for (size_t b = a + 1; b < p; ++b) c[b] = -own * model.R[b * p + a];
                add_block(row, row + m, m, p - a - 1, c.data() + a + 1);
                for (size_t j = 0; j < m; ++j) T[j * M + a - k] = row[j];
            }
        } else
            back(model, V.data(), T.data());
        return exchanges_of(T.data(), m, M, variances.data() + k, model.mu.data() + k,
                            model.prior.data(), S.data(), Q.data(), least.data(), tol, 0.0);
    }

    // Add candidates, or exchange one where none is left; return the gain, 0 if there is none.
    double restructure() {
        const size_t most = FEW + model.active.size();
        const Names active = model.active;
        const Values prior = model.prior;
        const double beta = model.beta;
        const auto products = [this](long i) { return from.product(size_t(i)); };
        scan(most);
        for (bool first = true; left() > 0; first = false) {
            patience();
            Values s = S, q = Q, closed(least);
            for (double& bar : closed) bar = bar < 0.0 ? INF : bar;
            const Additions found = chosen_of(products, beta, s, q, closed, V.data(), active.size() + from.k,
                                              tol, SHARE, most, 0.0);
            const size_t count = found.chosen.size();
            if (!count && first && tol < EXCHANGE)
                for (const Exchange& move : exchanges()) {
                    Names names = active;
                    Values alphas = prior;
                    names[move.goes] = std::int64_t(move.comes);
                    alphas[move.goes] = move.alpha;
                    if (to(names, alphas, beta, EXCHANGED)) return move.gain;
                }
            if (!count) break;
            for (size_t size = count; size; size = size > 1 ? 1 : 0) {  // all, else the first alone
                Names names = active;
                Values alphas = prior;
                names.insert(names.end(), found.chosen.begin(), found.chosen.begin() + size);
                alphas.insert(alphas.end(), found.alphas.begin(), found.alphas.begin() + size);
                if (to(names, alphas, beta, ADDED)) return found.first;
            }
            least[found.chosen[0]] = -1.0;
        }
        return 0.0;
    }

    // Move precisions and noise together, delete, until no step is expected to gain ``little``.
    void settle(double little, bool held) {
        if (left() <= 0) return;
        const size_t M = model.active.size(), p = from.k + M;
        Settle work;
        work.data = Data{Square(from.room, p), Values(p), square, from.total, from.k};
        from.inner_products(model.active.data(), M, work.data.gram, work.data.right);
        work.cap = cap, work.learns = learns && !held;
        work.kept.resize(M);
        std::iota(work.kept.begin(), work.kept.end(), size_t{0});
        work.state = evaluate(work.data, model.prior, model.beta);
        if (!work.state.valid) return;
        const double start = work.state.evidence, known = model.evidence;
        work.run(little, int(std::min(left(), 1000000000L)));
        if (!(work.deleted + work.changed)) return;
        Names names;
        for (const size_t j : work.kept) names.push_back(model.active[j]);
        if (to(names, work.state.alpha, work.state.beta, CHANGED)) {
            // the steps themselves, from the evidence that they began with
            work.trace.back() = model.evidence;
            for (size_t j = 0; j + 1 < work.trace.size(); ++j) work.trace[j] += known - start;
            trace.pop_back();
            trace.insert(trace.end(), work.trace.begin(), work.trace.end());
            counts[DELETED] += work.deleted, counts[CHANGED] += work.changed - 1;
            counts[UNDONE] += work.undone;
            return;
        }
        for (const double part : {0.5, 0.2}) {  // of the way there
            Values alpha = model.prior;
            for (double& value : alpha) value *= std::exp(3.0 * part);  // what goes out
            for (size_t j = 0; j < work.kept.size(); ++j) {
                const double own = model.prior[work.kept[j]];
                alpha[work.kept[j]] = own * std::pow(work.state.alpha[j] / own, part);
            }
            const double beta = model.beta * std::pow(work.state.beta / model.beta, part);
            if (to(model.active, alpha, beta, CHANGED)) return;
        }
    }

    // Climb until nothing is left to gain; the noise is ``held`` at first.
    void ascend(bool held) {
        double little = INF;
        while (left() > 0) {
            patience();
            const double gain = restructure();
            if (gain > 0.0) {
                little = std::max(FINE * tol, SETTLED * gain);
                settle(little, held);
            } else if (held || little > FINE * tol) {
                little = FINE * tol;
                settle(little, false);
            } else {
                converged = left() > 0;
                return;
            }
            held = held && gain >= RELEASE;
        }
    }
};

}  // namespace mercer
