// Numbers that the Markov recursions calculate with: one double, sixteen side by side, or either with a
// derivative; and sums of logarithms of them.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#if defined(__GNUC__)
#define MERCER_INLINE __attribute__((always_inline)) inline
#define MERCER_LAMBDA __attribute__((always_inline))
#else
#define MERCER_INLINE inline
#define MERCER_LAMBDA
#endif
#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(MERCER_ONE_CLONE)
#define MERCER_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define MERCER_CLONES
#endif

namespace mercer {

using std::size_t;

#if defined(__GNUC__)
constexpr int WIDTH = 16;
typedef double Eight __attribute__((vector_size(64)));
typedef std::int64_t EightBits __attribute__((vector_size(64)));

struct Lanes {
    Eight a, b;
    Lanes() = default;
    MERCER_INLINE Lanes(double x) : a(Eight{} + x), b(Eight{} + x) {}
    MERCER_INLINE Lanes(Eight x, Eight y) : a(x), b(y) {}
};
MERCER_INLINE Lanes operator+(const Lanes& x, const Lanes& y) { return {x.a + y.a, x.b + y.b}; }
MERCER_INLINE Lanes operator-(const Lanes& x, const Lanes& y) { return {x.a - y.a, x.b - y.b}; }
MERCER_INLINE Lanes operator*(const Lanes& x, const Lanes& y) { return {x.a * y.a, x.b * y.b}; }
MERCER_INLINE Lanes operator/(const Lanes& x, const Lanes& y) { return {x.a / y.a, x.b / y.b}; }
MERCER_INLINE Eight root(Eight x) {
    Eight r;
    for (int i = 0; i < 8; ++i) r[i] = __builtin_sqrt(x[i]);
    return r;
}
MERCER_INLINE Lanes root(const Lanes& x) { return {root(x.a), root(x.b)}; }
MERCER_INLINE Eight signed_as(Eight x, Eight y) { return y < 0.0 ? -x : x; }
MERCER_INLINE Lanes signed_as(const Lanes& x, const Lanes& y) {
    return {signed_as(x.a, y.a), signed_as(x.b, y.b)};
}
MERCER_INLINE bool any_above(const Lanes& x, double limit) {
    typedef double Four __attribute__((vector_size(32)));
    const Eight most = x.a > x.b ? x.a : x.b;
    Four half[2];
    std::memcpy(half, &most, sizeof most);
    const Four top = half[0] > half[1] ? half[0] : half[1];
    return (top[0] > limit) | (top[1] > limit) | (top[2] > limit) | (top[3] > limit);
}
MERCER_INLINE Lanes one_if_zero(const Lanes& x) {
    const Eight one = Eight{} + 1.0;
    return {x.a == 0.0 ? one : x.a, x.b == 0.0 ? one : x.b};
}
MERCER_INLINE void put(Lanes& x, int i, double value) { (i < 8 ? x.a : x.b)[i & 7] = value; }
MERCER_INLINE double get(const Lanes& x, int i) { return (i < 8 ? x.a : x.b)[i & 7]; }
#else
constexpr int WIDTH = 1;
typedef double Lanes;
#endif

MERCER_INLINE double root(double x) { return std::sqrt(x); }
MERCER_INLINE double signed_as(double x, double y) { return y < 0.0 ? -x : x; }
MERCER_INLINE bool larger(double x, double y) { return std::fabs(x) > std::fabs(y); }
MERCER_INLINE double choose(bool m, double x, double y) { return m ? x : y; }
MERCER_INLINE double one_if_zero(double x) { return x == 0.0 ? 1.0 : x; }
MERCER_INLINE void put(double& x, int, double value) { x = value; }
MERCER_INLINE double get(double x, int) { return x; }

// A value and its derivative.
template <class T>
struct Dual {
    T v, d;
    Dual() = default;
    MERCER_INLINE Dual(double x) : v(x), d(0.0) {}
    MERCER_INLINE Dual(T x, T y) : v(x), d(y) {}
};
template <class T>
MERCER_INLINE Dual<T> operator+(const Dual<T>& x, const Dual<T>& y) {
    return {x.v + y.v, x.d + y.d};
}
template <class T>
MERCER_INLINE Dual<T> operator-(const Dual<T>& x, const Dual<T>& y) {
    return {x.v - y.v, x.d - y.d};
}
template <class T>
MERCER_INLINE Dual<T> operator*(const Dual<T>& x, const Dual<T>& y) {
    return {x.v * y.v, x.v * y.d + x.d * y.v};
}
template <class T>
MERCER_INLINE Dual<T> operator/(const Dual<T>& x, const Dual<T>& y) {
    const T q = x.v / y.v;
    return {q, (x.d - q * y.d) / y.v};
}
template <class T>
MERCER_INLINE Dual<T> root(const Dual<T>& x) {
    const T r = root(x.v);
    return {r, x.d / (T(2.0) * one_if_zero(r))};
}
template <class T>
MERCER_INLINE Dual<T> signed_as(const Dual<T>& x, const Dual<T>& y) {
    return {signed_as(x.v, y.v), signed_as(x.d, y.v)};
}
template <class T>
MERCER_INLINE bool larger(const Dual<T>& x, const Dual<T>& y) {
    return larger(x.v, y.v);
}
template <class T>
MERCER_INLINE bool any_above(const Dual<T>& x, double limit) {
    return any_above(x.v, limit);
}
template <class T>
MERCER_INLINE Dual<T> choose(bool m, const Dual<T>& x, const Dual<T>& y) {
    return {choose(m, x.v, y.v), choose(m, x.d, y.d)};
}
template <class T>
MERCER_INLINE Dual<T> one_if_zero(const Dual<T>& x) {
    return {one_if_zero(x.v), x.d};
}

// One of the values side by side, as a number of its own.
template <class T>
struct Single {
    typedef T type;
};
#if defined(__GNUC__)
template <>
struct Single<Lanes> {
    typedef double type;
};
#endif
template <class T>
struct Single<Dual<T>> {
    typedef Dual<typename Single<T>::type> type;
};
template <class T>
auto get(const Dual<T>& x, int i) {
    return Dual<typename Single<T>::type>{get(x.v, i), get(x.d, i)};
}
template <class T>
void put(Dual<T>& x, int i, const Dual<typename Single<T>::type>& value) {
    put(x.v, i, value.v), put(x.d, i, value.d);
}

// Sum of logarithms of positive numbers, as a product whose exponent is kept apart.
MERCER_INLINE void split(double& product, std::int64_t& exponent) {
    std::int64_t bits;
    std::memcpy(&bits, &product, sizeof bits);
    exponent += (bits >> 52) - 1023;
    bits = (bits & 0x000fffffffffffffLL) | 0x3ff0000000000000LL;
    std::memcpy(&product, &bits, sizeof bits);
}
template <class T>
struct Logs {
    double product = 1.0;
    std::int64_t exponent = 0;
    MERCER_INLINE void add(double x) { product *= x, split(product, exponent); }
    double sum(int) const { return std::log(product) + double(exponent) * std::log(2.0); }
};
#if defined(__GNUC__)
template <>
struct Logs<Lanes> {
    Lanes product = 1.0;
    EightBits low = {}, high = {};
    static MERCER_INLINE void split(Eight& x, EightBits& exponent) {
        EightBits bits = (EightBits)x;
        exponent += (bits >> 52) - 1023;
        x = (Eight)((bits & 0x000fffffffffffffLL) | 0x3ff0000000000000LL);
    }
    MERCER_INLINE void add(const Lanes& x) {
        product = product * x;
        split(product.a, low), split(product.b, high);
    }
    double sum(int i) const {
        const double e = double(i < 8 ? low[i & 7] : high[i & 7]);
        return std::log(get(product, i)) + e * std::log(2.0);
    }
};
#endif
template <class T>
struct Logs<Dual<T>> {
    Logs<T> value;
    T slope = 0.0;
    MERCER_INLINE void add(const Dual<T>& x) { value.add(x.v), slope = slope + x.d / x.v; }
    double sum(int i) const { return value.sum(i); }
};

}  // namespace mercer
