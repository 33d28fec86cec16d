// Several threads for one loop, with results that do not depend on how many there are.
//
// A loop is split into items that are the same whatever the number of threads; each writes its own
// place, and sums over items are formed afterwards, in their order. The thread that calls works too,
// and it alone talks to Python.
#pragma once
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <type_traits>

#include "patience.hpp"

namespace mercer {

constexpr std::size_t MOST_THREADS = 256;

// What a pool and its threads share; it goes with the last of them.
struct Loops {
    using Job = void (*)(void*, std::size_t);
    static constexpr int LOOKS = 4000;           // before a thread sleeps: tens of microseconds
    std::atomic<std::uint64_t> ticket{0};        // number of the loop << 32 | the next item of it
    std::atomic<std::size_t> count{0}, done{0};  // items of this loop, and those that are finished
    std::atomic<Job> job{nullptr};
    std::atomic<void*> context{nullptr};
    std::atomic<bool> closing{false}, stopped{false};
    std::atomic<int> asleep{0};
    std::mutex mutex;
    std::condition_variable woken;
    std::exception_ptr failure;

    static std::uint64_t loop_of(std::uint64_t t) { return t >> 32; }
    static std::size_t item_of(std::uint64_t t) { return std::size_t(t & 0xffffffffu); }

    // Whether an item of the present loop waits to be taken.
    bool waiting() const {
        const std::uint64_t t = ticket.load();
        return item_of(t) < count.load();
    }

    // Take one item and do it; false: there is none. What is read of a loop belongs to the ticket if
    // the ticket is still there afterwards: no loop ends before all of its items were taken.
    bool take() {
        std::uint64_t t = ticket.load();
        Job work;
        void* with;
        do {
            if (item_of(t) >= count.load()) return false;
            work = job.load();
            with = context.load();
        } while (!ticket.compare_exchange_weak(t, t + 1));
        if (!stopped.load()) {
            try {
                work(with, item_of(t));
            } catch (...) {
                std::lock_guard<std::mutex> lock(mutex);
                if (!failure) failure = std::current_exception();
                stopped.store(true);
            }
        }
        done.fetch_add(1);
        return true;
    }

    void wait_for_work() {
        while (!closing.load()) {
            for (int look = 0; look < LOOKS && !closing.load(); ++look) {
                if (take()) look = 0;
                rest();
            }
            std::unique_lock<std::mutex> lock(mutex);
            asleep.fetch_add(1);
            woken.wait(lock, [&] { return waiting() || closing.load(); });
            asleep.fetch_sub(1);
        }
    }

    static void rest() {
#if defined(__x86_64__) && defined(__GNUC__)
        __builtin_ia32_pause();
#else
        std::this_thread::yield();
#endif
    }
};

// Threads that live as long as the pool, and look out for the next loop without sleeping for a while:
// a loop may be over in microseconds. A thread that comes late finds nothing left to do, and nobody
// waits for it, not even at the end: on a busy machine it may not have begun by then.
class Pool {
    std::shared_ptr<Loops> loops = std::make_shared<Loops>();
    std::size_t workers = 0;

  public:
    // threads: how many work, with the one that calls. Fewer if the system gives no more.
    explicit Pool(std::size_t threads) {
        const std::size_t more = std::min(std::max<std::size_t>(threads, 1), MOST_THREADS) - 1;
        try {
            for (; workers < more; ++workers)
                std::thread([shared = loops] { shared->wait_for_work(); }).detach();
        } catch (const std::system_error&) {
        }
    }
    Pool(const Pool&) = delete;
    Pool& operator=(const Pool&) = delete;
    ~Pool() {
        {
            std::lock_guard<std::mutex> lock(loops->mutex);
            loops->closing.store(true);
        }
        loops->woken.notify_all();
    }

    std::size_t threads() const { return workers + 1; }

    // visit(k) for k = 0 .. items - 1, each once, on any thread, begun in that order. between() runs
    // on the calling thread after each of its items; if it says true the items not yet begun are left
    // out. What visit throws is thrown here, when no thread works any more.
    template <class Visit, class Between>
    void run(std::size_t items, Visit&& visit, Between&& between) {
        if (workers == 0) {
            for (std::size_t k = 0; k < items; ++k) {
                visit(k);
                if (between()) return;
            }
            return;
        }
        Loops& on = *loops;
        on.stopped.store(false);
        on.failure = nullptr;
        // count is zero until all else is there: no ticket is good for half a loop
        const std::uint64_t next = (Loops::loop_of(on.ticket.load()) + 1) & 0xffffffffu;
        on.count.store(0);
        on.done.store(0);
        on.job.store([](void* with, std::size_t k) {
            (*static_cast<std::remove_reference_t<Visit>*>(with))(k);
        });
        on.context.store(const_cast<void*>(static_cast<const void*>(&visit)));
        on.ticket.store(next << 32);
        on.count.store(items);
        if (on.asleep.load() > 0) {
            { std::lock_guard<std::mutex> lock(on.mutex); }
            on.woken.notify_all();
        }
        while (on.take())
            if (between()) on.stopped.store(true);
        // a thread that the system has set aside in the middle of an item may want this very core
        for (int look = 0; on.done.load() < items; ++look)
            if (look < Loops::LOOKS / 8) Loops::rest();
            else std::this_thread::yield();
        on.count.store(0);
        if (on.failure) std::rethrow_exception(on.failure);
    }

    template <class Visit>
    void run(std::size_t items, Visit&& visit) {
        run(items, visit, [] { return false; });
    }
};

// visit(k) for k = 0 .. items - 1 on so many threads, which end with it. Ctrl-C leaves what visit was
// writing to half done, and throws.
template <class Visit>
void in_parallel(std::size_t threads, std::size_t items, Visit&& visit) {
    Pool pool(std::min(threads, items));
    Patience patience;
    pool.run(items, visit, [&] { return patience.over(); });
    patience.check();
}

}  // namespace mercer
