// This file must not be instrumented by ThreadSanitizer: it changes fibers in the midst of functions, and its own data
// are shared by all of them.
#include "run.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <boost/context/detail/fcontext.hpp>
#include <cstring>
#include <deque>
#include <exception>
#include <memory>
#include <new>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

// The sanitizers' fiber interfaces: null in builds without them.
extern "C" {
#define ON_HOST_WEAK __attribute__((weak))
ON_HOST_WEAK void __sanitizer_start_switch_fiber(void** fake_stack, const void* bottom, size_t size);
ON_HOST_WEAK void __sanitizer_finish_switch_fiber(void* fake_stack, const void** old_bottom, size_t* old_size);
ON_HOST_WEAK void __asan_unpoison_memory_region(const volatile void* at, size_t size);
ON_HOST_WEAK void* __tsan_get_current_fiber(void);
ON_HOST_WEAK void* __tsan_create_fiber(unsigned flags);
ON_HOST_WEAK void __tsan_destroy_fiber(void* fiber);
ON_HOST_WEAK void __tsan_switch_to_fiber(void* fiber, unsigned flags);
ON_HOST_WEAK void __tsan_acquire(void* object);
ON_HOST_WEAK void __tsan_release(void* object);
#undef ON_HOST_WEAK
}

namespace on_host {
namespace {

using boost::context::detail::fcontext_t;
using boost::context::detail::jump_fcontext;
using boost::context::detail::make_fcontext;
using boost::context::detail::transfer_t;

constexpr unsigned kWarp = 32;
constexpr size_t kStack = 256 * 1024;  // mapped when touched; a sanitizer's report is written on it, too

// ---- happens-before, as ThreadSanitizer sees it

constexpr unsigned kNoSync = 1;  // changing to another fiber orders nothing

bool races_are_watched() { return __tsan_create_fiber != nullptr; }

void become(void* fiber) { __tsan_switch_to_fiber(fiber, kNoSync); }

/// What any of the fibers did until now happens before what any of them does next.
void meet(const std::vector<void*>& fibers) {
  if (!races_are_watched()) return;
  void* self = __tsan_get_current_fiber();
  const auto object = std::make_unique<char>();  // a new one, for an old one would order this after earlier meetings
  for (void* fiber : fibers) {
    become(fiber);
    __tsan_release(object.get());
  }
  for (void* fiber : fibers) {
    become(fiber);
    __tsan_acquire(object.get());
  }
  become(self);
}

/// ThreadSanitizer takes a millisecond to make a fiber, so they are kept for later launches. The threads of the blocks
/// that run in one place take them in turn: only from so many threads on does one of them follow an earlier one of
/// another block, and races of just these two blocks go unseen.
class Fibers {
 public:
  void start_launch(size_t threads_of_block) {
    next_ = 0;
    ring_ = std::max(2 * threads_of_block, size_t{512});
  }
  void* next() {
    const size_t i = next_++ % ring_;
    if (i == all_.size()) all_.push_back(__tsan_create_fiber(0));
    return all_[i];
  }

 private:
  std::vector<void*> all_;
  size_t next_ = 0, ring_ = 1;
};

// ---- threads

struct Thread {
  enum class State { ready, at_barrier, at_warp_op, ended } state = State::ready;
  Place place;
  fcontext_t context = nullptr;  // where it goes on
  void* fake_stack = nullptr;    // AddressSanitizer's
  void* fiber = nullptr;         // ThreadSanitizer's
  // at_barrier:
  const char* file = nullptr;
  int line = 0;
  // at_warp_op:
  WarpOp op = WarpOp::sync;
  unsigned mask = 0;
  uint64_t value = 0, result = 0;
  int lane = 0, width = 0;
  const Words* gives = nullptr;  // and takes: of a gather, 32
  Words* takes = nullptr;
};

const char* name(WarpOp op) {
  switch (op) {
    case WarpOp::sync:
      return "__syncwarp";
    case WarpOp::shuffle:
      return "__shfl_sync";
    case WarpOp::shuffle_up:
      return "__shfl_up_sync";
    case WarpOp::shuffle_down:
      return "__shfl_down_sync";
    case WarpOp::shuffle_xor:
      return "__shfl_xor_sync";
    case WarpOp::ballot:
      return "a vote";
    case WarpOp::gather:
      return "an operation on matrices";
  }
  return "";
}

std::string text(unsigned mask) {
  char hex[16];
  std::snprintf(hex, sizeof hex, "0x%08x", mask);
  return hex;
}

std::string what_it_does(const Thread& thread) {
  switch (thread.state) {
    case Thread::State::ready:
      return "could go on";
    case Thread::State::at_barrier: {
      const std::string file = thread.file;
      return "wait at the barrier " + file.substr(file.rfind('/') + 1) + ":" + std::to_string(thread.line);
    }
    case Thread::State::at_warp_op:
      return std::string("wait in ") + name(thread.op) + " with mask " + text(thread.mask);
    case Thread::State::ended:
      return "have ended";
  }
  return "";
}

/// The lane that `lane` reads from; itself when the operation points outside its group of `width` lanes.
int source_of(const Thread& thread, int lane) {
  const int first = lane & ~(thread.width - 1), last = first + thread.width - 1, by = thread.lane & 31;
  switch (thread.op) {
    case WarpOp::shuffle:
      return first + (thread.lane & (thread.width - 1));
    case WarpOp::shuffle_up:
      return lane - by < first ? lane : lane - by;
    case WarpOp::shuffle_down:
      return lane + by > last ? lane : lane + by;
    case WarpOp::shuffle_xor:
      return (lane ^ by) > last ? lane : lane ^ by;
    default:
      return lane;
  }
}

/// 0, ..., n - 1 in the order asked.
std::vector<unsigned> in_order(unsigned n, std::mt19937_64& random) {
  std::vector<unsigned> order(n);
  std::iota(order.begin(), order.end(), 0u);
  if (options().order == Options::Order::backward) std::reverse(order.begin(), order.end());
  if (options().order == Options::Order::shuffled) std::shuffle(order.begin(), order.end(), random);
  return order;
}

class Stacks {
 public:
  explicit Stacks(size_t n) : bytes_(n * kStack) {
    all_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (all_ == MAP_FAILED) throw std::bad_alloc();
    if (__asan_unpoison_memory_region) __asan_unpoison_memory_region(all_, bytes_);  // marks of earlier mappings
  }
  ~Stacks() {
    if (__asan_unpoison_memory_region) __asan_unpoison_memory_region(all_, bytes_);
    munmap(all_, bytes_);
  }
  Stacks(const Stacks&) = delete;
  Stacks& operator=(const Stacks&) = delete;
  size_t count() const { return bytes_ / kStack; }
  unsigned char* operator[](size_t i) const { return static_cast<unsigned char*>(all_) + i * kStack; }

 private:
  size_t bytes_;
  void* all_;
};

/// Of blocks, one after the other. An access behind its end ends the program, but for less than 16 bytes, which are
/// full of poison and checked.
class SharedMemory {
 public:
  explicit SharedMemory(size_t bytes) : bytes_(bytes) {
    if (bytes == 0) return;
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    aligned_ = (bytes + 15) / 16 * 16;
    body_ = (aligned_ + page - 1) / page * page;
    all_bytes_ = body_ + page;
    void* all = mmap(nullptr, all_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED) throw std::bad_alloc();
    if (__asan_unpoison_memory_region) __asan_unpoison_memory_region(all, body_);  // marks of earlier mappings
    all_ = static_cast<unsigned char*>(all);
    mprotect(all_ + body_, page, PROT_NONE);
  }
  ~SharedMemory() {
    if (all_) munmap(all_, all_bytes_);
  }
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  unsigned char* data() const { return all_ + body_ - aligned_; }
  void fill(unsigned char poison) {
    poison_ = poison;
    if (all_) std::memset(data(), poison, aligned_);
  }
  bool intact() const {
    return std::all_of(data() + bytes_, data() + aligned_, [this](unsigned char byte) { return byte == poison_; });
  }

 private:
  size_t bytes_, aligned_ = 0, body_ = 0, all_bytes_ = 0;
  unsigned char* all_ = nullptr;
  unsigned char poison_ = 0;
};

// ---- a launch

using Work = std::function<void()>;
thread_local const Work* previous = nullptr;  // what the next launch overlaps with

class Launch {
 public:
  Launch(dim3 blocks, dim3 threads, size_t shared_bytes, const Work& kernel)
      : blocks_(blocks),
        block_(threads),
        shared_bytes_(shared_bytes),
        kernel_(kernel),
        previous_(std::exchange(previous, nullptr)),
        random_(options().seed),
        all_(std::min(blocks_.x * blocks_.y * blocks_.z, options().at_a_time)) {
    for (size_t i = 0; i < all_.size(); ++i) {
      all_[i].number = i;
      all_[i].threads.resize(size_t{block_.x} * block_.y * block_.z);
      if (races_are_watched()) fibers(i).start_launch(all_[i].threads.size());
    }
    if (races_are_watched()) host_fiber_ = __tsan_get_current_fiber();
  }

  ~Launch() {
    // The host waits for the launch: only now does anything of it happen before what the host does.
    if (races_are_watched()) __tsan_acquire(&over_);
  }

  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;

  void run() {
    const std::vector<unsigned> order = in_order(blocks_.x * blocks_.y * blocks_.z, random_);
    auto next = order.begin();
    std::vector<Block*> running;
    for (Block& block : all_) {
      start(block, *next++);
      running.push_back(&block);
    }
    while (!running.empty()) {
      // Mostly the newest: some blocks stay far behind those that began after them.
      const size_t newest = running.size() - 1, turn = newest == 0 || random_() % 16 > 0 ? newest : random_() % newest;
      block_now_ = running[turn];
      if (run_to_barrier()) continue;
      if (!failure_ && !block_now_->shared->intact())
        failure_ = std::make_exception_ptr(error("it has written behind its shared memory"));
      if (failure_) {
        for (Block* block : running) block_now_ = block, end_threads();
        std::rethrow_exception(failure_);
      }
      end_threads();
      running.erase(running.begin() + static_cast<std::ptrdiff_t>(turn));
      if (next == order.end()) continue;
      running.push_back(block_now_);
      start(*block_now_, *next++);
    }
    if (previous_) throw Error("it was launched early, and does not wait for the previous kernel");
  }

  // For the running thread:
  const Place& here() const { return running_->place; }
  unsigned char* shared_memory() const { return block_now_->shared->data(); }

  void barrier(const char* file, int line) {
    running_->file = file;
    running_->line = line;
    leave(Thread::State::at_barrier);
  }

  void wait_for_previous();

  uint64_t warp(WarpOp op, unsigned mask, uint64_t value, int lane, int width) {
    Thread& self = *running_;
    self.op = op;
    self.mask = mask;
    self.value = value;
    self.lane = lane;
    self.width = width;
    const unsigned me = lane_of(self);
    if (!(mask >> me & 1)) fail(name(op) + (": lane " + std::to_string(me)) + " is not in its mask " + text(mask));
    if (width < 1 || width > 32 || (width & (width - 1)))
      fail(name(op) + (": width " + std::to_string(width)) + " is no power of two up to 32");
    const int source = source_of(self, static_cast<int>(me));
    if (!(mask >> source & 1))
      fail(name(op) + (": lane " + std::to_string(me)) + " reads from lane " + std::to_string(source) +
           ", which is not in mask " + text(mask));
    leave(Thread::State::at_warp_op);
    return self.result;
  }

  unsigned gather(const Words& mine, Words* of_lane) {
    running_->gives = &mine;
    running_->takes = of_lane;
    const unsigned lane = lane_of(*running_);
    warp(WarpOp::gather, ~0u, 0, 0, kWarp);
    return lane;
  }

 private:
  /// One of those that run at a time.
  struct Block {
    size_t number;
    std::vector<Thread> threads;
    std::unique_ptr<SharedMemory> shared;
  };
  std::vector<Thread>& threads() const { return block_now_->threads; }
  Stacks& stacks() const { return *stacks_[block_now_->number]; }
  unsigned index_of(const Thread& thread) const { return static_cast<unsigned>(&thread - threads().data()); }
  unsigned lane_of(const Thread& thread) const { return index_of(thread) % kWarp; }

  void start(Block& block, unsigned number) {
    block_now_ = &block;
    if (races_are_watched()) left_.push_back(std::move(block.shared));
    if (!block.shared) block.shared = std::make_unique<SharedMemory>(shared_bytes_);
    block.shared->fill(options().poison);
    if (stacks_.size() <= block.number) stacks_.resize(block.number + 1);
    // ThreadSanitizer would take what the threads of the last block did on their stacks for races with these.
    std::unique_ptr<Stacks>& stacks = stacks_[block.number];
    if (!stacks || stacks->count() < threads().size() || races_are_watched())
      stacks = std::make_unique<Stacks>(threads().size());
    if (races_are_watched()) __tsan_release(&begin_);
    const unsigned x = number % blocks_.x, y = number / blocks_.x % blocks_.y, z = number / blocks_.x / blocks_.y;
    for (Thread& thread : threads()) start(thread, {x, y, z});
  }

  /// As far as the threads of the block get without a barrier that all have reached; false: to their ends.
  bool run_to_barrier() {
    const auto warps = static_cast<unsigned>((threads().size() + kWarp - 1) / kWarp);
    for (unsigned warp : in_order(warps, random_)) run_warp(warp);
    return !failure_ && pass_barrier();
  }

  void start(Thread& thread, uint3 block) {
    const unsigned i = index_of(thread);
    thread = Thread{};
    thread.place = {{i % block_.x, i / block_.x % block_.y, i / block_.x / block_.y}, block};
    thread.context = make_fcontext(stacks()[i] + kStack, kStack, &Launch::thread_main);
    if (!races_are_watched()) return;
    thread.fiber = fibers(block_now_->number).next();
    become(thread.fiber);
    __tsan_acquire(&begin_);
    become(host_fiber_);
  }

  void end_threads() {
    for (Thread& thread : threads()) {
      if (thread.state != Thread::State::ended && __asan_unpoison_memory_region)
        __asan_unpoison_memory_region(stacks()[index_of(thread)], kStack);
      if (!races_are_watched()) continue;
      become(thread.fiber);
      __tsan_release(&over_);
      become(host_fiber_);
    }
  }

  /// As far as the threads of the warp get without a barrier.
  void run_warp(unsigned warp) {
    const unsigned first = warp * kWarp, n = std::min(kWarp, static_cast<unsigned>(threads().size()) - first);
    bool going_on = true;
    while (going_on && !failure_) {
      for (unsigned lane : in_order(n, random_)) {
        if (threads()[first + lane].state == Thread::State::ready) enter(threads()[first + lane]);
        if (failure_) return;
      }
      going_on = false;
      for (unsigned lane = 0; lane < n; ++lane) going_on |= complete_warp_op(first, n, threads()[first + lane]);
    }
  }

  /// Lets the lanes go on that `thread` waits for, if all of them have come.
  bool complete_warp_op(unsigned first, unsigned n, const Thread& thread) {
    if (thread.state != Thread::State::at_warp_op) return false;
    const unsigned mask = thread.mask;
    const WarpOp op = thread.op;
    uint64_t votes = 0;
    std::vector<void*> fibers;
    for (unsigned lane = 0; lane < kWarp; ++lane) {
      if (!(mask >> lane & 1)) continue;
      if (lane >= n) return false;
      const Thread& other = threads()[first + lane];
      if (other.state != Thread::State::at_warp_op || other.op != op || other.mask != mask) return false;
      votes |= (other.value & 1) << lane;
      fibers.push_back(other.fiber);
    }
    for (unsigned lane = 0; lane < n; ++lane) {
      if (!(mask >> lane & 1)) continue;
      Thread& other = threads()[first + lane];
      const auto source = first + static_cast<unsigned>(source_of(other, static_cast<int>(lane)));
      other.result = op == WarpOp::ballot ? votes : threads()[source].value;
      if (op == WarpOp::gather)
        for (unsigned from = 0; from < kWarp; ++from) other.takes[from] = *threads()[first + from].gives;
      other.state = Thread::State::ready;
    }
    if (op == WarpOp::sync) meet(fibers);  // the others order no memory accesses
    return true;
  }

  /// Lets all threads go on when all wait at one barrier. False when all have ended; fails when neither holds.
  bool pass_barrier() {
    const Thread& one = threads().front();
    bool ended = true, at_one_barrier = true;
    for (const Thread& thread : threads()) {
      ended &= thread.state == Thread::State::ended;
      at_one_barrier &= thread.state == Thread::State::at_barrier && thread.line == one.line &&
                        std::strcmp(thread.file, one.file) == 0;
    }
    if (ended) return false;
    if (!at_one_barrier) {
      failure_ = std::make_exception_ptr(error("not all threads come: " + what_they_do()));
      return false;
    }
    std::vector<void*> fibers;
    for (Thread& thread : threads()) {
      thread.state = Thread::State::ready;
      fibers.push_back(thread.fiber);
    }
    meet(fibers);
    return true;
  }

  /// "threads 0-31 wait at the barrier x.cu:12, threads 32-63 have ended"
  std::string what_they_do() const {
    std::string all;
    for (size_t begin = 0, end; begin < threads().size(); begin = end) {
      const std::string does = what_it_does(threads()[begin]);
      end = begin + 1;
      while (end < threads().size() && what_it_does(threads()[end]) == does) ++end;
      all += all.empty() ? "threads " : ", threads ";
      all += std::to_string(begin) + (end - begin > 1 ? "-" + std::to_string(end - 1) : "") + " " + does;
    }
    return all;
  }

  Error error(const std::string& what) const {
    const uint3 at = threads().front().place.block;
    return Error("block (" + std::to_string(at.x) + ", " + std::to_string(at.y) + ", " + std::to_string(at.z) +
                 "): " + what);
  }

  /// In a thread.
  [[noreturn]] void fail(const std::string& what) const {
    throw error("thread " + std::to_string(index_of(*running_)) + ": " + what);
  }

  /// In the scheduler: the thread's turn.
  void enter(Thread& thread) {
    running_ = &thread;
    void* fake_stack = nullptr;
    if (__sanitizer_start_switch_fiber) __sanitizer_start_switch_fiber(&fake_stack, stacks()[index_of(thread)], kStack);
    if (races_are_watched()) become(thread.fiber);
    thread.context = jump_fcontext(thread.context, nullptr).fctx;
    if (__sanitizer_finish_switch_fiber) __sanitizer_finish_switch_fiber(fake_stack, nullptr, nullptr);
    running_ = nullptr;
  }

  /// In a thread: back to the scheduler, until the thread has its turn again.
  void leave(Thread::State state) {
    Thread& thread = *running_;
    thread.state = state;
    if (__sanitizer_start_switch_fiber)
      __sanitizer_start_switch_fiber(state == Thread::State::ended ? nullptr : &thread.fake_stack, host_stack_,
                                     host_stack_size_);
    if (races_are_watched()) become(host_fiber_);
    host_context_ = jump_fcontext(host_context_, nullptr).fctx;
    if (__sanitizer_finish_switch_fiber)
      __sanitizer_finish_switch_fiber(thread.fake_stack, &host_stack_, &host_stack_size_);
  }

  static void thread_main(transfer_t from);
  static Fibers& fibers(size_t block) {
    static std::deque<Fibers> fibers;
    while (fibers.size() <= block) fibers.emplace_back();
    return fibers[block];
  }

  dim3 blocks_, block_;
  size_t shared_bytes_;
  const Work& kernel_;
  const Work* previous_;  // until it has run
  std::mt19937_64 random_;
  std::vector<Block> all_;
  Block* block_now_ = nullptr;
  /// Of a thread of the host, kept for its next launches: the first touch of a stack is a page fault.
  static thread_local std::vector<std::unique_ptr<Stacks>> stacks_;
  Thread* running_ = nullptr;
  std::exception_ptr failure_;
  fcontext_t host_context_ = nullptr;
  const void* host_stack_ = nullptr;
  size_t host_stack_size_ = 0;
  void* host_fiber_ = nullptr;
  char begin_ = 0, over_ = 0, previous_over_ = 0;  // objects of happens-before
  /// Of the blocks that ThreadSanitizer watched: reuse by the next would hide that two blocks use the same.
  std::vector<std::unique_ptr<SharedMemory>> left_;
};

thread_local std::vector<std::unique_ptr<Stacks>> Launch::stacks_;
thread_local Launch* current = nullptr;

void Launch::wait_for_previous() {
  if (previous_) {
    struct Restore {
      Launch* launch = current;
      std::vector<std::unique_ptr<Stacks>> stacks = std::exchange(stacks_, {});
      ~Restore() {
        current = launch;
        stacks_ = std::move(stacks);
      }
    } restore;
    (*std::exchange(previous_, nullptr))();
    if (races_are_watched()) __tsan_release(&previous_over_);
  }
  if (races_are_watched()) __tsan_acquire(&previous_over_);
}

void Launch::thread_main(transfer_t from) {
  Launch& launch = *current;
  launch.host_context_ = from.fctx;
  if (__sanitizer_finish_switch_fiber)
    __sanitizer_finish_switch_fiber(nullptr, &launch.host_stack_, &launch.host_stack_size_);
  try {
    launch.kernel_();
  } catch (...) {
    launch.failure_ = std::current_exception();
  }
  launch.leave(Thread::State::ended);
}

}  // namespace

Options& options() {
  static Options options;
  return options;
}

void in_all_orders(const std::function<void()>& body) {
  using Order = Options::Order;
  struct Restore {
    Options before = options();
    ~Restore() { options() = before; }
  } restore;
  const std::pair<const char*, Options> all[] = {{"forward", {Order::forward, 0, 0xff}},
                                                 {"backward", {Order::backward, 0, 0x7b}},
                                                 {"shuffled, seed 1", {Order::shuffled, 1, 0xff}},
                                                 {"shuffled, two at a time", {Order::shuffled, 2, 0x7b, 2}},
                                                 {"shuffled, three at a time", {Order::shuffled, 3, 0xff, 3}}};
  for (const auto& [order, chosen] : all) {
    options() = chosen;
    const testing::ScopedTrace trace(__FILE__, __LINE__, std::string("threads and blocks ") + order);
    body();
  }
}

void run(dim3 blocks, dim3 threads, size_t shared_bytes, const std::function<void()>& kernel) {
  Launch launch(blocks, threads, shared_bytes, kernel);
  struct Current {
    explicit Current(Launch* launch) { current = launch; }
    ~Current() { current = nullptr; }
  } set(&launch);
  launch.run();
}

void run_overlapped(const std::function<void()>& first, const std::function<void()>& second) {
  previous = &first;
  second();
}

const Place& here() { return current->here(); }
unsigned char* shared_memory() { return current->shared_memory(); }
void barrier(const char* file, int line) { current->barrier(file, line); }
void grid_dependency_synchronize() { current->wait_for_previous(); }
uint64_t warp(WarpOp op, unsigned mask, uint64_t value, int lane, int width) {
  return current->warp(op, mask, value, lane, width);
}
unsigned gather(const Words& mine, Words (&of_lane)[32]) { return current->gather(mine, of_lane); }

void fence() {
  if (!races_are_watched()) return;
  static char all;
  __tsan_release(&all);
  __tsan_acquire(&all);
}

}  // namespace on_host
