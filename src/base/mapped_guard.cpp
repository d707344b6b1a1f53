#include "base/mapped_guard.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>

namespace ct {
namespace {

// A signal handler can reach nothing but globals. The handler may wait for the lock: the thread that holds it reads no
// mapped file meanwhile, so it is another thread, which goes on.
std::atomic_flag locked;
GuardedRegion* first = nullptr;
struct sigaction before {};  // whose SIGBUS it is otherwise
const auto page_bytes = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));

class Lock {
 public:
  Lock() {
    while (locked.test_and_set(std::memory_order_acquire)) {
    }
  }
  ~Lock() { locked.clear(std::memory_order_release); }
};

void on_bus_error(int signal, siginfo_t* info, void*) {
  const int error = errno;
  const bool of_an_access = info->si_code > 0;  // not sent by a process
  if (!of_an_access || !GuardedRegion::zero_from(info->si_addr)) {
    // It comes again and finds what would have answered it without us, once: that may call this handler in turn.
    sigaction(signal, &before, nullptr);
    before = {};
    if (!of_an_access) raise(signal);
  }
  errno = error;
}

/// Installs the handler, at every region: a library may have put its own in place of ours meanwhile.
void install_handler() {
  struct sigaction ours {
  }, now{};
  ours.sa_sigaction = on_bus_error;
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&ours.sa_mask);
  sigaction(SIGBUS, nullptr, &now);
  if ((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == on_bus_error) return;
  before = now;
  sigaction(SIGBUS, &ours, nullptr);
}

}  // namespace

GuardedRegion::GuardedRegion(std::span<const std::byte> bytes) : bytes_(bytes) {
  const Lock lock;
  install_handler();
  next_ = first;
  if (first) first->previous_ = this;
  first = this;
}

GuardedRegion::~GuardedRegion() {
  const Lock lock;
  (previous_ ? previous_->next_ : first) = next_;
  if (next_) next_->previous_ = previous_;
}

bool GuardedRegion::zero_from(const void* address) {
  const auto at = reinterpret_cast<uintptr_t>(address);
  const Lock lock;
  for (GuardedRegion* region = first; region; region = region->next_) {
    const auto begin = reinterpret_cast<uintptr_t>(region->bytes_.data()), end = begin + region->bytes_.size();
    if (at < begin || at >= end) continue;
    const uintptr_t page = at - at % page_bytes;
    void* const zeros = mmap(reinterpret_cast<void*>(page), end - page, PROT_READ,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
    if (zeros == MAP_FAILED) return false;
    region->cut_.store(true, std::memory_order_relaxed);
    return true;
  }
  return false;
}

}  // namespace ct
