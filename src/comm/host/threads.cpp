#include "comm/host/threads.h"

#include <deque>
#include <exception>
#include <mutex>
#include <new>
#include <thread>

#include "base/error.h"
#include "base/in_flight.h"
#include "comm/host/shared.h"

namespace ct {
namespace {

/// All memory of a job; freed when its last rank is gone, since a failed rank's peers may still be reading.
class JobMemory {
 public:
  std::byte* allocate(size_t bytes) {
    constexpr std::align_val_t kAlignment{64};
    std::byte* memory = nullptr;
    try {
      memory = new (kAlignment) std::byte[bytes]{};  // zeroed, and so placed, by the rank that will use it
    } catch (const std::bad_alloc&) {
      fail(ExitCode::memory, "no memory for a buffer of ", bytes, " bytes: use a smaller model or fewer ranks");
    }
    std::lock_guard lock(mutex_);
    blocks_.emplace_back(memory, [](std::byte* p) { operator delete[](p, kAlignment); });
    return memory;
  }

 private:
  std::mutex mutex_;
  std::deque<std::unique_ptr<std::byte[], void (*)(std::byte*)>> blocks_;
};

class ThreadCommunicator : public SharedCommunicator {
 public:
  ThreadCommunicator(std::shared_ptr<JobMemory> memory, SharedBoard* board, int rank, int size)
      : SharedCommunicator(memory, board, rank, size), memory_(*memory) {}
  std::string description() const override { return size() == 1 ? "solo" : str(size(), " threads of one process"); }

 private:
  std::vector<std::byte*> share(size_t bytes) override {
    std::byte* mine = nullptr;
    std::exception_ptr error;
    try {
      mine = memory_.allocate(bytes);
    } catch (...) {
      error = std::current_exception();  // tell the others first
    }
    std::vector<std::byte*> parts(static_cast<size_t>(size()));
    gather_all(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(parts)));
    if (error) std::rethrow_exception(error);
    for (const std::byte* part : parts) {
      if (part == nullptr) fail(ExitCode::memory, "a rank has no memory for a buffer of ", bytes, " bytes");
    }
    return parts;
  }

  JobMemory& memory_;
};

SharedBoard* make_board(JobMemory& memory, int ranks) {
  return reinterpret_cast<SharedBoard*>(memory.allocate(SharedBoard::bytes(ranks)));
}

}  // namespace

std::unique_ptr<Communicator> make_solo() {
  auto memory = std::make_shared<JobMemory>();
  SharedBoard* board = make_board(*memory, 1);
  return std::make_unique<ThreadCommunicator>(std::move(memory), board, 0, 1);
}

int run_ranks(int ranks, const std::function<int(Communicator&)>& body) {
  check(ranks >= 1, "a job of ", ranks, " ranks");
  auto memory = std::make_shared<JobMemory>();
  SharedBoard* board = make_board(*memory, ranks);
  std::vector<int> codes(static_cast<size_t>(ranks));
  std::exception_ptr first;  // written by the one caller for which abort_job() is true
  const auto failed = [&](int rank) {
    if (abort_job(*board, rank, static_cast<int>(error_in_flight().code()))) first = std::current_exception();
  };
  const auto run = [&](int rank) {
    std::unique_ptr<Communicator> comm;  // outlives the handlers: peers must see the failure before they miss the rank
    try {
      comm = std::make_unique<ThreadCommunicator>(memory, board, rank, ranks);
      codes[static_cast<size_t>(rank)] = body(*comm);
    } catch (...) {
      failed(rank);
    }
  };
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    try {
      threads.emplace_back(run, rank);
    } catch (...) {  // no more threads: those that started wait for this one
      failed(rank);
      break;
    }
  }
  for (std::thread& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
  for (const int code : codes) {
    if (code != 0) return code;
  }
  return 0;
}

}  // namespace ct
