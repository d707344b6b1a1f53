// A ticket is an integer in device memory that counts the blocks of a kernel that have ended, so that the last one can
// go on with what all of them have written (last_block.h): a second launch less.
//
// It must be 0 when the kernel begins, and the last block sets it back to 0, so that later launches and replays find it
// as this one did. Kernels that run one after the other may use the same tickets. Kernels that may run at the same
// time, in two streams, must not: their blocks would count together. A kernel of launch_early() counts after
// wait_for_previous().
#pragma once

namespace ct::kernels {

/// Every array of tickets has this many.
constexpr int kTickets = 256;

}  // namespace ct::kernels
