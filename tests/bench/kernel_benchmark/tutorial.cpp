// The tutorial's network, four images (and many, for its convolutions): time alone.
#include "bench.h"
#include "linear.h"
#include "step_control.h"

namespace ct::kernels {

void Bench::convolutions(const ConvReluPoolShape& shape) {
  const std::string name = name_of(shape.type), text = shape_of(shape.n, shape.in_channels, shape.height, shape.width,
                                                                shape.out_channels, shape.kernel);
  const int64_t x = shape.n * shape.in_channels * shape.height * shape.width;
  const int64_t w = shape.out_channels * shape.kernel * shape.kernel * shape.in_channels;
  const int64_t y = shape.n * shape.pooled_height() * shape.pooled_width() * shape.out_channels;
  const ConvReluPoolArgs forward{.shape = shape,
                                 .x = arena_.take(shape.type, x),
                                 .w = arena_.take(shape.type, w),
                                 .b = arena_.take<float>(shape.out_channels),
                                 .y = arena_.take(shape.type, y),
                                 .argmax = arena_.take<uint8_t>(y)};
  const ConvReluPoolGradWArgs of_weights{
      .shape = shape,
      .x = forward.x,
      .dy = arena_.take(shape.type, y),
      .argmax = forward.argmax,
      .dw = arena_.take<float>(w),
      .db = arena_.take<float>(shape.out_channels),
      .workspace = arena_.take<float>(static_cast<int64_t>(conv_relu_pool_grad_weights_workspace(shape) / 4) + 1)};
  const ConvReluPoolGradXArgs of_input{
      .shape = shape, .w = forward.w, .dy = of_weights.dy, .argmax = forward.argmax, .dx = arena_.take(shape.type, x)};
  small("conv_relu_pool", name, text, [=](cudaStream_t s) { return conv_relu_pool(forward, s); });
  small("conv_relu_pool_grad_w", name, text,
        [=](cudaStream_t s) { return conv_relu_pool_grad_weights(of_weights, s); });
  if (!shape.planar)
    small("conv_relu_pool_grad_x", name, text, [=](cudaStream_t s) { return conv_relu_pool_grad_input(of_input, s); });
  if (!shape.planar && conv_relu_pool_grad_weights_workspace(shape) == 0)
    small("conv_relu_pool_grad", name, text,
          [=](cudaStream_t s) { return conv_relu_pool_grad({.weights = of_weights, .input = of_input}, s); });
}

void Bench::layer(int64_t n, int64_t in, int64_t out) {
  const auto padded = [](int64_t features) { return (features + 15) / 16 * 16; };
  const int64_t in_stride = padded(in), out_stride = padded(out);
  const std::string text = shape_of(n, in, out);
  const LinearArgs forward{.type = Type::f32,
                           .y_type = Type::f32,
                           .n = n,
                           .in = in,
                           .out = out,
                           .x_stride = in_stride,
                           .w_stride = in_stride,
                           .y_stride = out_stride,
                           .relu = true,
                           .x = arena_.take<float>(n * in_stride),
                           .w = arena_.take<float>(out * in_stride),
                           .b = arena_.take<float>(out),
                           .y = arena_.take<float>(n * out_stride)};
  const LinearGradXArgs of_input{.type = Type::f32,
                                 .y_type = Type::f32,
                                 .n = n,
                                 .in = in,
                                 .out = out,
                                 .w_stride = in_stride,
                                 .dy_stride = out_stride,
                                 .dx_stride = in_stride,
                                 .w = forward.w,
                                 .dy = forward.y,
                                 .dx = arena_.take<float>(n * in_stride)};
  const LinearGradWArgs of_weights{.type = Type::f32,
                                   .y_type = Type::f32,
                                   .n = n,
                                   .in = in,
                                   .out = out,
                                   .x_stride = in_stride,
                                   .dy_stride = out_stride,
                                   .dw_stride = in_stride,
                                   .x = forward.x,
                                   .dy = forward.y,
                                   .dw = arena_.take<float>(out * in_stride),
                                   .db = arena_.take<float>(out)};
  small("linear", "f32", text, [=](cudaStream_t s) { return linear(forward, s); });
  small("linear_grad_x", "f32", text, [=](cudaStream_t s) { return linear_grad_input(of_input, s); });
  small("linear_grad_w", "f32", text, [=](cudaStream_t s) { return linear_grad_weights(of_weights, s); });
  const LinearGradArgs both{.weights = of_weights, .input = of_input, .dz = arena_.take<float>(n * in_stride)};
  small("linear_relu_grad", "f32", text, [=](cudaStream_t s) { return linear_grad(both, s); });
}

void Bench::at_the_tutorials_sizes() {
  for (const int64_t n : {int64_t{4}, shrunk(512)}) {
    convolutions({n, 3, 32, 32, 6, 5, /*planar=*/true, Type::f32});
    convolutions({n, 6, 14, 14, 16, 5, /*planar=*/false, Type::f32});
  }
  layer(4, 400, 120);
  layer(4, 120, 84);
  layer(4, 84, 10);
  const SoftmaxCrossEntropyArgs loss = of_loss(4, 10, 16);
  small("softmax_cross_entropy", "f32", shape_of(4, 10),
        [=](cudaStream_t s) { return softmax_cross_entropy(loss, s); });
  const std::vector<int64_t> sizes = {6 * 75, 6, 16 * 150, 16, 120 * 400, 120, 84 * 120, 84, 10 * 84, 10};
  small("adam", "f32", "10 tensors, 62006", of_adam(sizes, /*copy=*/false));
  const SquareSumsArgs squares = of_squares(62006);
  small("square_sums", "f32", shape_of(62006), [=](cudaStream_t s) { return square_sums(squares, s); });
  const StepControlArgs control{.sums = arena_.zeros<double>(24),
                                .count = 24,
                                .schedule = arena_.of(std::vector<ScheduleRow>(1)),
                                .scalars = scalars(),
                                .clip = 1,
                                .micro_batches = 1};
  // It counts steps, and each reads its row of the schedule: here all read the first.
  StepControlArgs still = control;
  double* const overflow = arena_.of(std::vector<double>(24, 1e308));
  still.sums = overflow;
  small("step_control", "f64", "24 chunks", [=](cudaStream_t s) { return step_control(still, s); });
  NormAndControlArgs both{.squares = squares, .control = still, .tickets = arena_.zeros<unsigned>(1)};
  both.squares.sums = overflow;  // of which some stay as they are
  small("norm_and_control", "f32", shape_of(62006), [=](cudaStream_t s) { return norm_and_control(both, s); });
  const AugmentArgs images = of_images(4, 1024, Type::f32, /*stride=*/0, /*planar=*/true, /*draws=*/false);
  small("normalise", "f32", "4 x 3 x 32 x 32, planar", [=](cudaStream_t s) { return augment(images, s); });
}

}  // namespace ct::kernels
