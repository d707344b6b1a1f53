#include "kernels/grad_norm.h"

#include "device/cuda/cuda_kernel.h"
#include "device/cuda/layers.h"
#include "plan/flat.h"

namespace ct::cuda {

namespace k = kernels;

static_assert(sizeof(k::SquareChunk) == kCudaTableRowBytes && kChunk <= k::kSquareChunk);  // one sum a chunk

std::unique_ptr<Kernel> prepare(const SquareSums& op, const Context& in) {
  std::vector<k::SquareChunk> chunks;
  for (const SquareSums::Chunk& c : op.chunks) chunks.push_back({c.range.begin, c.range.end, c.sum});
  const auto table = std::make_shared<Memory>(in.backend.upload(chunks));
  return make_plain_kernel(
      in.label(), [op, table, count = static_cast<int64_t>(chunks.size()), stream = in.stream()](const Operands& at) {
        const k::SquareSumsArgs args{.grads = at.f32(op.grads),
                                     .chunks = reinterpret_cast<const k::SquareChunk*>(table->data()),
                                     .count = count,
                                     .sums = at.at<double>(op.sums)};
        return [=] {
          static_cast<void>(table);  // lives as long as what reads it
          CT_CUDA(k::square_sums(args, stream));
        };
      });
}

}  // namespace ct::cuda
