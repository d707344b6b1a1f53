#include "batch_norm.h"

#include "bench.h"
#include "tickets.h"

namespace ct::kernels {

/// ResNet-50's, of a batch of 256.
void Bench::batch_norms() {
  const int64_t shapes[][2] = {{3211264, 64}, {802816, 256}, {200704, 512}, {50176, 1024}};
  for (const Type type : {Type::f32, Type::bf16})
    for (const auto& [all_rows, channels] : shapes) {
      const int64_t rows = shrunk(all_rows), n = rows * channels, tensor = n * size_of(type);
      const BatchNormShape shape{rows, channels, type};
      const auto workspace = static_cast<int64_t>(batch_norm_workspace(shape));
      const std::string name = name_of(type), text = shape_of(rows, channels);
      const int64_t bits = type == Type::f32 ? 0 : n / 8;  // behind a residual, as in training
      const auto args = [&](bool residual) {
        return BatchNormArgs{.shape = shape,
                             .eps = 1e-5,
                             .relu = true,
                             .x = arena_.take(type, n),
                             .residual = residual ? arena_.take(type, n) : nullptr,
                             .w = arena_.take<float>(channels),
                             .b = arena_.take<float>(channels),
                             .y = arena_.take(type, n),
                             .mask = residual && bits > 0 ? arena_.take<uint8_t>(bits) : nullptr,
                             .mean = arena_.zeros<float>(channels),
                             .var = arena_.zeros<float>(channels),
                             .workspace = arena_.take<double>(workspace / 8 + 1),
                             .tickets = arena_.zeros<unsigned>(kTickets)};
      };
      const auto forward = [&](const char* kernel, bool residual, int64_t tensors, auto&& launcher) {
        const BatchNormArgs a = args(residual);
        large(kernel, name, text, tensors * tensor + (residual ? bits : 0) + 2 * workspace, kShare,
              [=](cudaStream_t s) { return launcher(a, s); });
      };
      forward("batch_norm+relu", false, 3, batch_norm);
      forward("batch_norm+add+relu", true, 4, batch_norm);
      forward("batch_norm_result+relu", false, 2, batch_norm_result);
      for (const bool residual : {false, true}) {
        const BatchNormGradArgs grad{.shape = shape,
                                     .eps = 1e-5,
                                     .x = arena_.take(type, n),
                                     .y = arena_.take(type, n),
                                     .dy = arena_.take(type, n),
                                     .mask = residual && bits > 0 ? arena_.take<uint8_t>(bits) : nullptr,
                                     .w = arena_.take<float>(channels),
                                     .b = residual ? nullptr : arena_.take<float>(channels),
                                     .mean = arena_.zeros<float>(channels),
                                     .var = arena_.zeros<float>(channels),
                                     .dx = arena_.take(type, n),
                                     .dresidual = residual ? arena_.take(type, n) : nullptr,
                                     .dw = arena_.take<float>(channels),
                                     .db = arena_.take<float>(channels),
                                     .batch_mean = arena_.take<float>(channels),
                                     .batch_var = arena_.take<float>(channels),
                                     .workspace = arena_.take<double>(workspace / 8 + 1),
                                     .tickets = arena_.zeros<unsigned>(kTickets)};
        large(residual ? "batch_norm_grad+add" : "batch_norm_grad", name, text,
              (residual ? (bits > 0 ? 6 : 7) * tensor + bits : 5 * tensor) + 2 * workspace, kShare,
              [=](cudaStream_t s) { return batch_norm_grad(grad, s); });
      }
    }
}

/// ResNet-18's for CIFAR-10: of small batches, whose parts are merged at once, and of larger ones, in groups.
void Bench::small_batch_norms() {
  for (const int64_t batch : {4, 8, 32, 128})
    for (const int64_t channels : {64, 128, 256, 512}) {
      const int64_t rows = batch * 1024 * 64 * 64 / (channels * channels);
      const BatchNormShape shape{rows, channels, Type::bf16};
      const auto workspace = static_cast<int64_t>(batch_norm_workspace(shape));
      const BatchNormArgs args{.shape = shape,
                               .eps = 1e-5,
                               .relu = true,
                               .x = arena_.take(Type::bf16, rows * channels),
                               .w = arena_.take<float>(channels),
                               .b = arena_.take<float>(channels),
                               .y = arena_.take(Type::bf16, rows * channels),
                               .mean = arena_.zeros<float>(channels),
                               .var = arena_.zeros<float>(channels),
                               .workspace = arena_.take<double>(workspace / 8 + 1),
                               .tickets = arena_.zeros<unsigned>(kTickets)};
      small("batch_norm", "bf16", shape_of(rows, channels), [=](cudaStream_t s) { return batch_norm(args, s); });
    }
}

}  // namespace ct::kernels
