#include "elementwise.h"

#include "bench.h"
#include "bias.h"
#include "copy.h"

namespace ct::kernels {

void Bench::copies() {
  const int64_t bytes = shrunk(int64_t{1} << 30);
  const CopyArgs args{
      .from = arena_.take<unsigned char>(bytes), .to = arena_.take<unsigned char>(bytes), .bytes = bytes};
  large("copy", "bytes", shape_of(bytes), 2 * bytes, 0, [=](cudaStream_t s) { return copy(args, s); });
}

void Bench::elementwise() {
  for (const Type type : {Type::f32, Type::bf16}) {
    const int64_t e = size_of(type), n = shrunk((int64_t{512} << 20) / e);
    const std::string name = name_of(type), shape = shape_of(n);
    for (const Activation kind : kActivations) {
      const std::string of = std::string(names_of(kind).forward) + " of " + shape;
      const ActivateArgs forward{
          .type = type, .activation = kind, .n = n, .x = arena_.take(type, n), .y = arena_.take(type, n)};
      large("activation", name, of, 2 * n * e, kShare, [=](cudaStream_t s) { return activate(forward, s); });
      const ActivationGradArgs grad{.type = type,
                                    .activation = kind,
                                    .n = n,
                                    .x = arena_.take(type, n),
                                    .dy = arena_.take(type, n),
                                    .dx = arena_.take(type, n)};
      large("activation_grad", name, of, 3 * n * e, kShare, [=](cudaStream_t s) { return activation_grad(grad, s); });
    }
    const AddArgs of_add{
        .type = type, .n = n, .a = arena_.take(type, n), .b = arena_.take(type, n), .y = arena_.take(type, n)};
    large("add", name, shape, 3 * n * e, kShare, [=](cudaStream_t s) { return add(of_add, s); });
    const int64_t rows = shrunk((int64_t{512} << 20) / e / 1008);
    const CopyRowsArgs of_rows{.type = type,
                               .rows = rows,
                               .features = 1000,
                               .x_stride = 1000,
                               .y_stride = 1008,
                               .x = arena_.take(type, rows * 1000),
                               .y = arena_.take(type, rows * 1008)};
    large("copy_rows", name, shape_of(rows, 1000, 1008), rows * 2008 * e, 0,
          [=](cudaStream_t s) { return copy_rows(of_rows, s); });
  }
  const int64_t n = shrunk(int64_t{128} << 20);
  const Type pairs[][2] = {{Type::f32, Type::bf16}, {Type::bf16, Type::f32}, {Type::f32, Type::f16}};
  for (const auto& [from, to] : pairs) {
    const CastArgs args{.from = from, .to = to, .n = n, .x = arena_.take(from, n), .y = arena_.take(to, n)};
    large("cast", std::string(name_of(from)) + "-" + name_of(to), shape_of(n), n * (size_of(from) + size_of(to)),
          kShare, [=](cudaStream_t s) { return cast(args, s); });
  }
}

void Bench::biases() {
  for (const Type type : {Type::f32, Type::bf16}) {
    const int64_t e = size_of(type), rows = shrunk(802816), channels = 256, n = rows * channels;
    const std::string name = name_of(type), shape = shape_of(rows, channels);
    const BiasArgs args{.type = type,
                        .rows = rows,
                        .channels = channels,
                        .stride = channels,
                        .relu = true,
                        .x = arena_.take(type, n),
                        .b = arena_.take<float>(channels),
                        .y = arena_.take(type, n)};
    large("bias+relu", name, shape, 2 * n * e + 4 * channels, kShare, [=](cudaStream_t s) { return bias(args, s); });
    for (const bool masked : {false, true}) {
      const auto workspace = static_cast<int64_t>(bias_grad_workspace_bytes(rows, channels));
      const BiasGradArgs grad{.type = type,
                              .rows = rows,
                              .channels = channels,
                              .stride = channels,
                              .dy = arena_.take(type, n),
                              .y = masked ? arena_.take(type, n) : nullptr,
                              .db = arena_.take<float>(channels),
                              .workspace = workspace > 0 ? arena_.take<float>(workspace / 4) : nullptr};
      large(masked ? "bias_grad, masked" : "bias_grad", name, shape,
            (masked ? 2 : 1) * n * e + 4 * channels + 2 * workspace, kShare,
            [=](cudaStream_t s) { return bias_grad(grad, s); });
    }
  }
}

}  // namespace ct::kernels
