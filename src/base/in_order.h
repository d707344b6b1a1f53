// Work that many threads do and one takes, in order.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/error.h"

namespace ct {

/// Calls make(i) for i = 0 to count - 1 on `threads` threads, and take(i, the result of make) on this thread, in order,
/// so that the outcome is the same for any number of threads. About four results for each thread may wait to be taken.
/// An exception of make or take ends all and is rethrown here; of several, the one with the lowest i. If the system
/// starts fewer threads, those are used; Error(memory) if it starts none.
template <class Make, class Take>
void in_order(int64_t count, int threads, const Make& make, const Take& take) {
  struct Slot {
    std::optional<std::invoke_result_t<Make, int64_t>> made;
    std::exception_ptr error;
    bool done() const { return made || error; }
  };
  std::vector<Slot> ring(4 * static_cast<size_t>(threads));
  const auto slot = [&ring](int64_t i) -> Slot& { return ring[static_cast<size_t>(i) % ring.size()]; };
  const auto ahead = static_cast<int64_t>(ring.size());
  std::mutex mutex;
  std::condition_variable room, ready;
  int64_t begun = 0, taken = 0;
  bool stopping = false;

  const auto work = [&] {
    std::unique_lock lock(mutex);
    for (;;) {
      room.wait(lock, [&] { return stopping || begun == count || begun < taken + ahead; });
      if (stopping || begun == count) return;
      const int64_t i = begun++;
      lock.unlock();
      Slot result;
      try {
        result.made.emplace(make(i));
      } catch (...) {
        result.error = std::current_exception();
      }
      lock.lock();
      slot(i) = std::move(result);
      ready.notify_one();
    }
  };
  struct Pool {
    ~Pool() {
      {
        std::lock_guard lock(mutex);
        stopping = true;
      }
      room.notify_all();
      for (std::thread& thread : all) thread.join();
    }
    std::mutex& mutex;
    std::condition_variable& room;
    bool& stopping;
    std::vector<std::thread> all = {};
  } pool{mutex, room, stopping};
  try {
    for (int t = 0; t < threads; ++t) pool.all.emplace_back(work);
  } catch (const std::system_error& error) {
    if (pool.all.empty())
      fail(ExitCode::memory, "no thread can be started: ", error.what(), "; end other programs, or raise ulimit -u");
  }

  for (int64_t i = 0; i < count; ++i) {
    std::unique_lock lock(mutex);
    ready.wait(lock, [&] { return slot(i).done(); });
    Slot result = std::exchange(slot(i), {});
    ++taken;
    lock.unlock();
    room.notify_one();
    if (result.error) std::rethrow_exception(result.error);
    take(i, *std::move(result.made));
  }
}

}  // namespace ct
