#include "kernels/grad_norm.h"

#include <algorithm>

#include "device/cuda/cuda_kernel.h"
#include "device/cuda/layers.h"
#include "device/cuda/ring_copy.h"
#include "kernels/step_control.h"
#include "plan/flat.h"

namespace ct::cuda {

namespace k = kernels;

static_assert(sizeof(k::SquareChunk) == kCudaTableRowBytes && kChunk <= k::kSquareChunk);  // one sum a chunk

namespace {

k::SquareSumsArgs args_of(const SquareSums& op, const Memory& table, const Operands& at) {
  return {.grads = at.f32(op.grads),
          .chunks = reinterpret_cast<const k::SquareChunk*>(table.data()),
          .count = static_cast<int64_t>(op.chunks.size()),
          .sums = at.at<double>(op.sums)};
}

std::shared_ptr<Memory> table_of(const SquareSums& op, const Context& in) {
  std::vector<k::SquareChunk> chunks;
  for (const SquareSums::Chunk& c : op.chunks) chunks.push_back({c.range.begin, c.range.end, c.sum});
  return std::make_shared<Memory>(in.backend.upload(chunks));
}

k::StepControlArgs args_of(const StepControl& op, const Context& in) {
  return {.count = in.shape(op.sums)[0],
          .clip = op.clip,
          .micro_batches = op.micro_batches,
          .loss_scale_options = op.loss_scale_options,
          .predivided = op.predivided};
}

k::RingCopies& copies_of(k::StepControlArgs& args) { return args.copies; }
k::RingCopies& copies_of(k::NormAndControlArgs& args) { return args.control.copies; }

/// More bytes are better copied by a kernel with more threads for each ring.
constexpr size_t kMostTakenBytes = 1024;

/// The step's decisions, and copies of what is complete with them. `bind` makes the arguments; it owns what they refer
/// to.
template <class Args, class Bind>
class ControlKernel final : public Kernel {
 public:
  ControlKernel(const Context& in, cudaError_t (*launch)(const Args&, cudaStream_t), Bind bind)
      : name_(in.label()), stream_(in.stream()), launch_(launch), bind_(std::move(bind)) {}
  void bind(const Resolve& resolve, std::byte*) override { args_ = bind_(Operands(resolve)); }
  void launch() override {
    const Range range(name_);
    CT_CUDA(launch_(args_, stream_));
  }
  bool take(const std::vector<RingCopy>& copies) override {
    const auto is_large = [](const RingCopy& copy) { return copy.bytes > kMostTakenBytes; };
    if (copies.size() > k::kMostRings || std::ranges::any_of(copies, is_large)) return false;
    k::RingCopies& taken = copies_of(args_);
    for (const RingCopy& copy : copies) taken.at[taken.count++] = ring_args(copy);
    return true;
  }

 private:
  std::string name_;
  cudaStream_t stream_;
  cudaError_t (*launch_)(const Args&, cudaStream_t);
  Bind bind_;
  Args args_ = {};
};

template <class Args, class Bind>
std::unique_ptr<Kernel> control_kernel(const Context& in, cudaError_t (*launch)(const Args&, cudaStream_t), Bind bind) {
  return std::make_unique<ControlKernel<Args, Bind>>(in, launch, std::move(bind));
}

}  // namespace

std::unique_ptr<Kernel> prepare(const SquareSums& op, const Context& in) {
  return make_plain_kernel(in.label(), [op, table = table_of(op, in), stream = in.stream()](const Operands& at) {
    return [table, args = args_of(op, *table, at), stream] {
      static_cast<void>(table);  // lives as long as what reads it
      CT_CUDA(k::square_sums(args, stream));
    };
  });
}

std::unique_ptr<Kernel> prepare(const StepControl& op, const Context& in) {
  return control_kernel<k::StepControlArgs>(
      in, k::step_control, [op, args = args_of(op, in)](const Operands& at) { return at.put(op, args); });
}

std::unique_ptr<Kernel> prepare_both(const SquareSums& squares, const StepControl& control, const Context& in) {
  auto bind = [=, table = table_of(squares, in), args = args_of(control, in),
               tickets = in.backend.tickets()](const Operands& at) {
    return k::NormAndControlArgs{
        .squares = args_of(squares, *table, at), .control = at.put(control, args), .tickets = tickets};
  };
  return control_kernel<k::NormAndControlArgs>(in, k::norm_and_control, std::move(bind));
}

}  // namespace ct::cuda
