// One hinge over all classes: ascent of its dual, one row at a time.
//     maximise  sum_i s_i - 1/2 tr(tau' K tau),   tau_ir = -a_ir,  tau_iy = s_i = sum_r a_ir,  a >= 0
// with s_i <= c_i (Crammer and Singer) or a_ir <= c_i (Weston and Watkins; here `box`). The slope in
// a_ir is m_ir = 1 - f_y + f_r. The row that violates optimality most is solved exactly.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace mercer {

constexpr double FULL = 1.0 - 1e-12;  // share of the bound of a row that counts as all of it

// The block of one row over its k classes: a >= 0 that minimises
//     q/2 (|a|^2 + (sum a)^2) - v'a,   sum a <= c,   or a <= c with `box`.
// a_r = (u_r - t)_+ with u = v / q, cut at c with `box`, and t = sum a where the sum is free. Classes
// of v <= 0 stay at zero, the row's own among them.
class Block {
    std::vector<double> u, at;

  public:
    double level(bool box, const double* v, std::size_t k, double q, double c) {
        u.clear();
        for (std::size_t r = 0; r < k; ++r)
            if (v[r] > 0.0) u.push_back(v[r] / q);
        if (u.empty()) return 0.0;
        return box ? boxed(c) : summed(c);
    }

    void solve(bool box, const double* v, std::size_t k, double q, double c, double* a) {
        const double t = level(box, v, k, q, c);
        for (std::size_t r = 0; r < k; ++r)
            a[r] = v[r] > 0.0 ? std::min(std::max(v[r] / q - t, 0.0), c) : 0.0;
    }

  private:
    // sum_r (u_r - t)_+ is the largest of S_j - j t, S the sums of the j largest u: equal to t where t
    // is the largest S_j / (j + 1), and equal to c where it is the largest (S_j - c) / j.
    double summed(double c) {
        std::sort(u.begin(), u.end(), [](double x, double y) { return x > y; });
        double sum = 0.0, loose = 0.0, tight = -std::numeric_limits<double>::infinity();
        for (std::size_t j = 1; j <= u.size(); ++j) {
            sum += u[j - 1];
            loose = std::max(loose, sum / double(j + 1));
            tight = std::max(tight, (sum - c) / double(j));
        }
        return loose <= c ? loose : tight;
    }

    double over(double t, double c) const {
        double sum = -t;
        for (double one : u) sum += std::min(std::max(one - t, 0.0), c);
        return sum;
    }

    // `over` falls in straight lines between these values of t, from above zero to below it.
    double boxed(double c) {
        at.clear();
        for (double one : u) {
            at.push_back(one);
            if (one > c) at.push_back(one - c);
        }
        std::sort(at.begin(), at.end());
        double before = 0.0, high = over(0.0, c);
        for (double t : at) {
            const double low = over(t, c);
            if (low <= 0.0) return before + high * (t - before) / (high - low);
            before = t;
            high = low;
        }
        return before;
    }
};

template <class Real>
struct Joint {
    std::size_t n, k;
    const std::int64_t* codes;
    const double *bound, *q;
    double *a, *f;  // (n, k) each
    double bias;    // added to K
    bool box;
    double violation = 0.0, gained = 0.0;

    // By how much row i misses optimality.
    double missed(std::size_t i) const {
        const double *own = a + i * k, *value = f + i * k, c = bound[i];
        const std::size_t y = std::size_t(codes[i]);
        const double base = 1.0 - value[y];
        double most = 0.0, least = std::numeric_limits<double>::infinity(), sum = 0.0;
        for (std::size_t r = 0; r < k; ++r) {
            if (r == y) continue;
            const double m = base + value[r];
            if (box) {
                if (own[r] < c) most = std::max(most, m);
                if (own[r] > 0.0) most = std::max(most, -m);
                continue;
            }
            sum += own[r];
            most = std::max(most, m);
            if (own[r] > 0.0) least = std::min(least, m);
        }
        if (box) return most;
        if (sum < FULL * c) least = std::min(least, 0.0);
        return most - least;
    }

    // Up to `limit` steps until no row misses by more than `tol`. row(i) is that of K, or nullptr where
    // it has to be computed first: then the steps end.
    template <class Rows>
    long ascend(Rows row, double tol, long limit) {
        Block block;
        std::vector<double> v(k), now(k);
        std::size_t worst = 0;
        violation = -1.0;
        auto judge = [&](std::size_t j) {
            const double by = missed(j);
            if (by > violation) violation = by, worst = j;
        };
        for (std::size_t j = 0; j < n; ++j) judge(j);
        long steps = 0;
        while (steps < limit && violation > tol) {
            const std::size_t i = worst, y = std::size_t(codes[i]);
            const Real* values = row(i);
            if (!values) break;
            double *own = a + i * k, *value = f + i * k, curve = q[i], sum = 0.0;
            for (std::size_t r = 0; r < k; ++r) sum += own[r];
            for (std::size_t r = 0; r < k; ++r)
                v[r] = 1.0 - value[y] + curve * sum + value[r] + curve * own[r];
            v[y] = 0.0;
            block.solve(box, v.data(), k, curve, bound[i], now.data());
            double after = 0.0, gain = 0.0;
            for (std::size_t r = 0; r < k; ++r) {
                after += now[r];
                gain += (now[r] - own[r]) * (v[r] - 0.5 * curve * (now[r] + own[r]));
                v[r] = own[r] - now[r];  // by which tau changes
                own[r] = now[r];
            }
            v[y] = after - sum;
            gained += gain - 0.5 * curve * (after * after - sum * sum);
            violation = -1.0;
            for (std::size_t j = 0; j < n; ++j) {
                const double by = double(values[j]) + bias;
                double* to = f + j * k;
                for (std::size_t r = 0; r < k; ++r) to[r] += by * v[r];
                judge(j);
            }
            ++steps;
        }
        return steps;
    }
};

}  // namespace mercer
