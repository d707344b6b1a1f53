#include "kernels/grad_norm.h"

#include "device/cuda/one_launch.h"
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
  return one_launch(in, k::step_control, op, args_of(op, in));
}

std::unique_ptr<Kernel> prepare_both(const SquareSums& squares, const StepControl& control, const Context& in) {
  return make_plain_kernel(in.label(), [=, table = table_of(squares, in), args = args_of(control, in),
                                        tickets = in.backend.tickets(), stream = in.stream()](const Operands& at) {
    const k::NormAndControlArgs both{
        .squares = args_of(squares, *table, at), .control = at.put(control, args), .tickets = tickets};
    return [both, table, stream] { CT_CUDA(k::norm_and_control(both, stream)); };
  });
}

}  // namespace ct::cuda
