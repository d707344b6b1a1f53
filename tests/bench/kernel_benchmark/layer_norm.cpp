#include "layer_norm.h"

#include "bench.h"

namespace ct::kernels {

/// Of tokens of small and large transformers.
void Bench::layer_norms() {
  const int64_t shapes[][2] = {{262144, 192}, {131072, 768}};
  for (const Type type : {Type::f32, Type::bf16})
    for (const auto& [all_rows, columns] : shapes) {
      const int64_t rows = shrunk(all_rows), n = rows * columns, tensor = n * size_of(type);
      const std::string name = name_of(type), text = shape_of(rows, columns);
      for (const bool residual : {false, true}) {
        const LayerNormArgs args{.type = type,
                                 .rows = rows,
                                 .columns = columns,
                                 .stride = columns,
                                 .eps = 1e-5,
                                 .x = arena_.take(type, n),
                                 .residual = residual ? arena_.take(type, n) : nullptr,
                                 .w = arena_.take<float>(columns),
                                 .b = arena_.take<float>(columns),
                                 .sum = residual ? arena_.take(type, n) : nullptr,
                                 .y = arena_.take(type, n),
                                 .mean = arena_.take<float>(rows),
                                 .rstd = arena_.take<float>(rows)};
        large(residual ? "layer_norm+add" : "layer_norm", name, text, (residual ? 4 : 2) * tensor, kShare,
              [=](cudaStream_t s) { return layer_norm(args, s); });
        const auto workspace = static_cast<int64_t>(layer_norm_grad_workspace(rows, columns));
        const LayerNormGradArgs grad{.type = type,
                                     .rows = rows,
                                     .columns = columns,
                                     .stride = columns,
                                     .x = arena_.take(type, n),
                                     .dy = arena_.take(type, n),
                                     .dsum = residual ? arena_.take(type, n) : nullptr,
                                     .w = arena_.take<float>(columns),
                                     .mean = arena_.zeros<float>(rows),
                                     .rstd = arena_.zeros<float>(rows),
                                     .dx = arena_.take(type, n),
                                     .dw = arena_.take<float>(columns),
                                     .db = arena_.take<float>(columns),
                                     .workspace = arena_.take<float>(workspace / 4)};
        large(residual ? "layer_norm_grad+add" : "layer_norm_grad", name, text,
              (residual ? 4 : 3) * tensor + 2 * workspace, kShare,
              [=](cudaStream_t s) { return layer_norm_grad(grad, s); });
      }
    }
}

}  // namespace ct::kernels
