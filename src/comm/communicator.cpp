#include "comm/communicator.h"

#include <algorithm>

#include "base/error.h"
#include "comm/reduction/ownership.h"

namespace ct {
namespace {

class ReduceThenGather final : public Collective {
 public:
  ReduceThenGather(std::unique_ptr<Reduction> reduce, std::unique_ptr<Collective> gather)
      : reduce_(std::move(reduce)), gather_(std::move(gather)) {}
  void launch() override {
    reduce_->finish();
    gather_->launch();
  }

 private:
  std::unique_ptr<Reduction> reduce_;
  std::unique_ptr<Collective> gather_;
};

}  // namespace

std::unique_ptr<Collective> Communicator::all_reduce(std::span<float> data, SumOrder order) {
  const Ownership slices = even_slices(size(), static_cast<int64_t>(data.size()));
  const auto bytes = std::as_writable_bytes(data);
  auto reduce = reduce_scatter(data, data.data(), slices, size(), order);
  return std::make_unique<ReduceThenGather>(std::move(reduce), all_gather(bytes, bytes, slices));
}

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
