// Runs a kernel on the host. Blocks run one after the other, or several at a time, of which one that is chosen at
// random, mostly the newest, goes on to its next barrier. The threads of a block run as fibers, each as far as it gets
// before the next one has its turn. In which order, and what fills shared memory at first, is chosen by Options. Found,
// and thrown as on_host::Error when the launch ends:
// - a barrier that not all threads of a block reach, or that they reach at different places;
// - a warp operation whose mask lacks the caller, or names lanes that do not take part in it, or that reads from a lane
//   outside the mask.
// Missing barriers show as wrong results in some order, for values that were not yet written are poison; under
// ThreadSanitizer as races: every CUDA thread is a TSan fiber, barriers are release and acquire, blocks have no edge
// between them. A page without rights follows a block's shared memory; what is written before it, but behind the end,
// is found, and thrown, too.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};
struct uint3 {
  unsigned x = 0, y = 0, z = 0;
};

namespace on_host {

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct Options {
  enum class Order { forward, backward, shuffled } order = Order::forward;  // of threads, and of blocks
  uint64_t seed = 0;                                                        // of shuffled
  unsigned char poison = 0xff;                                              // every byte of shared memory: 0xff is NaN
  unsigned at_a_time = 1;                                                   // blocks
};
/// Of the launches that follow.
Options& options();

/// Calls `body` once under every order and poison that kernels are tested with.
void in_all_orders(const std::function<void()>& body);

struct Place {
  uint3 thread, block;
};

/// kernel() is called by every thread. Throws Error.
void run(dim3 blocks, dim3 threads, size_t shared_bytes, const std::function<void()>& kernel);
/// Two kernels' calls of run(), the second of which was launched early: it starts first, and the first one runs when a
/// thread of the second waits for it, so that what is read or written before the wait is wrong. Throws Error also where
/// no thread waits.
void run_overlapped(const std::function<void()>& first, const std::function<void()>& second);

// For the running thread:
const Place& here();
unsigned char* shared_memory();
void barrier(const char* file, int line);
void grid_dependency_synchronize();
enum class WarpOp { sync, shuffle, shuffle_up, shuffle_down, shuffle_xor, ballot, gather };
/// All lanes of the mask meet; returns what the operation gives this lane.
uint64_t warp(WarpOp op, unsigned mask, uint64_t value, int lane, int width = 32);
/// All lanes of the warp meet; each gets what all have given. Returns its number.
using Words = std::array<uint64_t, 3>;
unsigned gather(const Words& mine, Words (&of_lane)[32]);
void fence();

}  // namespace on_host

inline void __threadfence() { on_host::fence(); }
