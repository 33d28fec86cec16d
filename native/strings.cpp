// Gappy subsequences of pairs of sequences, by dynamic programming: Lodhi et al., 2002, definition 2.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "patience.hpp"

namespace nb = nanobind;
using std::size_t;
using Codes = nb::ndarray<const std::int64_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Results = nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

namespace {

size_t length_of(const std::int64_t* row, size_t width) {
    size_t n = 0;
    while (n < width && row[n] >= 0) ++n;
    return n;
}

// Return k of x (p) and z (q) and its derivative by the decay g. With M_ab = [x_a = z_b] and K'_0 = 1,
//     K''_i(a, b) = g K''_i(a, b - 1) + M_ab g^2 K'_{i-1}(a - 1, b - 1)
//     K'_i(a, b) = g K'_i(a - 1, b) + K''_i(a, b),      k = sum_ab M_ab g^2 K'_{order-1}(a - 1, b - 1).
std::pair<double, double> shared(const std::int64_t* x, size_t p, const std::int64_t* z, size_t q, int order,
                                 double g, std::vector<double>& room) {
    double k = 0.0, dk = 0.0;
    if (p < size_t(order) || q < size_t(order)) return {k, dk};
    double* old = room.data();                   // K'_{i-1} and its derivative, p x q each
    double* now = room.data() + 2 * p * q;       // K'_i
    for (int i = 1; i <= order; ++i) {
        for (size_t a = 0; a < p; ++a) {
            double run = 0.0, slope = 0.0;  // K''_i along b
            for (size_t b = 0; b < q; ++b) {
                double match = 0.0, moved = 0.0;
                if (x[a] == z[b]) {
                    double before = i == 1 ? 1.0 : 0.0, change = 0.0;
                    if (i > 1 && a && b) {
                        before = old[(a - 1) * q + b - 1];
                        change = old[p * q + (a - 1) * q + b - 1];
                    }
                    match = g * g * before, moved = 2.0 * g * before + g * g * change;
                }
                if (i == order) {
                    k += match, dk += moved;
                    continue;
                }
                slope = run + g * slope + moved;
                run = g * run + match;
                const double above = a ? now[(a - 1) * q + b] : 0.0;
                const double turn = a ? now[p * q + (a - 1) * q + b] : 0.0;
                now[a * q + b] = g * above + run;
                now[p * q + a * q + b] = above + g * turn + slope;
            }
        }
        std::swap(old, now);
    }
    return {k, dk};
}

}  // namespace

NB_MODULE(strings, module) {
    using nb::literals::operator""_a;
    module.doc() = "Dynamic programming on pairs of sequences.";
    module.def(
        "subsequences",
        [](Codes X, Codes Z, int order, double decay, int pairs, Results K, Results slope) {
            const bool diagonal = pairs == 0, half = pairs == 1;  // else all
            const size_t n = X.shape(0), m = Z.shape(0), columns = diagonal ? 1 : m;
            if (order < 1 || K.shape(0) != n || slope.shape(0) != n || K.shape(1) != columns ||
                slope.shape(1) != columns || ((diagonal || half) && n != m))
                throw nb::value_error("shapes do not fit together");
            nb::gil_scoped_release release;
            mercer::Patience patience;
            std::vector<double> room(4 * X.shape(1) * Z.shape(1));
            for (size_t i = 0; i < n; ++i) {
                const std::int64_t* x = X.data() + i * X.shape(1);
                const size_t p = length_of(x, X.shape(1));
                for (size_t c = half ? i : 0; c < columns; ++c) {
                    patience();
                    const std::int64_t* z = Z.data() + (diagonal ? i : c) * Z.shape(1);
                    const auto found = shared(x, p, z, length_of(z, Z.shape(1)), order, decay, room);
                    K(i, c) = found.first, slope(i, c) = found.second;
                    if (half) K(c, i) = found.first, slope(c, i) = found.second;
                }
            }
        },
        "X"_a, "Z"_a, "order"_a, "decay"_a, "pairs"_a, "K"_a.noconvert(), "slope"_a.noconvert());
}
