// Ctrl-C inside long loops that have let go of the interpreter.
#pragma once
#include <nanobind/nanobind.h>

#include <chrono>
#include <cstddef>

namespace mercer {

// Asked now and then: ten times a second it takes the interpreter back and lets Python answer the
// signals that came in. If that raised (KeyboardInterrupt) it is over: the loop is to end, and the
// exception to be thrown. What the loop was writing to is then half done. In any thread but the main
// one Python has nothing to answer.
class Patience {
    using Clock = std::chrono::steady_clock;
    static constexpr std::chrono::milliseconds TURN{100};
    Clock::time_point last = Clock::now();
    bool ended = false;

  public:
    // Whether the loop is to end. Functions of several clones must ask and return: the compiler takes
    // the call of such a function for one that throws nothing.
#if defined(__GNUC__)
    __attribute__((noinline))
#endif
    bool over() noexcept {
        const Clock::time_point now = Clock::now();
        if (ended || now - last < TURN) return ended;
        last = now;
        nanobind::gil_scoped_acquire acquire;
        return ended = PyErr_CheckSignals() != 0;
    }

    // Throw what Python raised, if it is over.
    void check() const {
        if (!ended) return;
        nanobind::gil_scoped_acquire acquire;
        throw nanobind::python_error();
    }

    void operator()() {
        over();
        check();
    }
};

constexpr std::size_t SPELL = 4096;  // steps of a recursion on a line between two calls

}  // namespace mercer
