#include "comm/communicator.h"

#include <algorithm>

#include "base/error.h"

namespace ct {

std::vector<std::string> Communicator::gather(std::string_view mine) {
  std::vector<uint64_t> sizes(static_cast<size_t>(size()));
  const uint64_t mine_size = mine.size();
  gather_all(std::as_bytes(std::span(&mine_size, 1)), std::as_writable_bytes(std::span(sizes)));
  const uint64_t largest = std::ranges::max(sizes);
  std::string padded(mine), all(largest * sizes.size(), '\0');
  padded.resize(largest);
  if (largest > 0) gather_all(std::as_bytes(std::span(padded)), std::as_writable_bytes(std::span(all)));
  std::vector<std::string> result;
  for (size_t r = 0; r < sizes.size(); ++r) result.push_back(all.substr(r * largest, sizes[r]));
  return result;
}

std::unique_ptr<Collective> Communicator::narrow_all_reduce(std::span<float>, const Narrowing&) {
  fail(ExitCode::bug, "internal error: sums in 16 bits, which ", description(), " do not make");
}

std::unique_ptr<Reduction> Communicator::narrow_reduce_scatter(std::span<float>, float*, Ownership, int64_t,
                                                               const Narrowing&) {
  fail(ExitCode::bug, "internal error: sums in 16 bits, which ", description(), " do not make");
}

}  // namespace ct
