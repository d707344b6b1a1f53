#include "engine/comm_queue.h"

#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"

namespace ct {
namespace {
constexpr int64_t kStop = -1;

/// A short spin, then sleep: what is awaited takes microseconds or milliseconds.
template <class Done>
void await(std::atomic<int64_t>& counter, Done done) {
  for (int i = 0; i < 64; ++i) {
    if (done(counter.load(std::memory_order_acquire))) return;
    std::this_thread::yield();
  }
  for (int64_t now = counter.load(std::memory_order_acquire); !done(now); now = counter.load(std::memory_order_acquire))
    counter.wait(now, std::memory_order_acquire);
}
/// The calling thread works for microseconds at a time, beside a thread that computes without end. Asking the scheduler
/// for short slices lets it in at once when it wakes (Linux 6.12 and later; elsewhere nothing changes).
void ask_for_short_slices() {
  struct {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
  } attributes{.size = 48,
               .policy = SCHED_OTHER,
               .flags = 0,
               .nice = 0,
               .priority = 0,
               .runtime = 100'000,
               .deadline = 0,
               .period = 0};
  attributes.nice = getpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)));
  syscall(SYS_sched_setattr, 0, &attributes, 0);
  prctl(PR_SET_TIMERSLACK, 1000);  // ns: its naps are short ones
}

}  // namespace

CommQueue::CommQueue(bool beside, size_t most, const std::function<void()>& enter) : queue_(most) {
  if (beside) thread_ = std::thread([this, enter] { work(enter); });
}

CommQueue::~CommQueue() {
  if (!thread_.joinable()) return;
  started_.store(kStop, std::memory_order_release);
  started_.notify_all();
  thread_.join();
}

void CommQueue::work(const std::function<void()>& enter) {
  enter();
  ask_for_short_slices();
  for (;;) {
    const int64_t next = done_.load(std::memory_order_relaxed);
    await(started_, [&](int64_t started) { return started == kStop || started > next; });
    if (started_.load(std::memory_order_acquire) == kStop) return;
    if (!failed_.load(std::memory_order_relaxed)) {
      try {
        (*queue_[static_cast<size_t>(next) % queue_.size()])();
      } catch (...) {  // the computing thread, which waits for it, gets the error
        error_ = std::current_exception();
        failed_.store(true, std::memory_order_release);
      }
    }
    done_.store(next + 1, std::memory_order_release);
    done_.notify_all();
  }
}

void CommQueue::start(const Launch& launch) {
  if (!beside()) return launch();
  const int64_t number = started();
  check(number - done_.load(std::memory_order_acquire) < static_cast<int64_t>(queue_.size()),
        "more communications under way than the programs have");
  queue_[static_cast<size_t>(number) % queue_.size()] = &launch;
  started_.store(number + 1, std::memory_order_release);
  started_.notify_all();
}

void CommQueue::wait(int64_t number) {
  if (!beside()) return;
  await(done_, [&](int64_t done) { return done > number; });
  if (failed_.load(std::memory_order_acquire)) std::rethrow_exception(error_);
}

}  // namespace ct
