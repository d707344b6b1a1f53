#include "comm/communicator.h"

#include "base/error.h"

namespace ct {

std::unique_ptr<Collective> Communicator::narrow_all_reduce(std::span<float>, const Narrowing&) {
  fail(ExitCode::bug, "internal error: sums in 16 bits, which ", description(), " do not make");
}

std::unique_ptr<Reduction> Communicator::narrow_reduce_scatter(std::span<float>, float*, Ownership, int64_t,
                                                               const Narrowing&) {
  fail(ExitCode::bug, "internal error: sums in 16 bits, which ", description(), " do not make");
}

}  // namespace ct
