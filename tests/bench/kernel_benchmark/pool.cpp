#include "pool.h"

#include <tuple>

#include "bench.h"

namespace ct::kernels {

void Bench::pools() {
  for (const Type type : {Type::f32, Type::bf16}) {
    const int64_t e = size_of(type), n = shrunk(256), side = 112, channels = 64;
    const int64_t x = n * side * side * channels, p = x / 4;
    const std::string name = name_of(type), shape = shape_of(n, side, side, channels);
    void *const image = arena_.take(type, x), *const pooled = arena_.take(type, p);
    auto* const argmax = arena_.take<uint8_t>(p);
    // Side by side, and as a large stem pools: both make images of half the side.
    for (const auto& [kernel, pad, by] : {std::tuple{2, 0, ", 2x2"}, {3, 1, ", 3x3/2"}}) {
      const MaxPoolArgs args{.type = type,
                             .n = n,
                             .height = side,
                             .width = side,
                             .channels = channels,
                             .kernel = kernel,
                             .stride = 2,
                             .pad = pad,
                             .x = image,
                             .y = pooled,
                             .argmax = argmax};
      large("max_pool", name, shape + by, (x + p) * e + p, kShare, [=](cudaStream_t s) { return max_pool(args, s); });
      // The argmax that it wrote are still there.
      const MaxPoolGradArgs grad{.type = type,
                                 .n = n,
                                 .height = side,
                                 .width = side,
                                 .channels = channels,
                                 .kernel = kernel,
                                 .stride = 2,
                                 .pad = pad,
                                 .dy = pooled,
                                 .argmax = argmax,
                                 .dx = image};
      large("max_pool_grad", name, shape + by, (x + p) * e + p, kShare,
            [=](cudaStream_t s) { return max_pool_grad(grad, s); });
    }
    const int64_t images = shrunk(2048), pixels = 49, features = 2048, all = images * pixels * features;
    const AveragePoolArgs average{.type = type,
                                  .n = images,
                                  .pixels = pixels,
                                  .channels = features,
                                  .y_stride = features,
                                  .x = arena_.take(type, all),
                                  .y = arena_.take(type, images * features)};
    const std::string of_images = shape_of(images, pixels, features);
    large("average_pool", name, of_images, (all + images * features) * e, kShare,
          [=](cudaStream_t s) { return average_pool(average, s); });
    const AveragePoolGradArgs spread{.type = type,
                                     .n = images,
                                     .pixels = pixels,
                                     .channels = features,
                                     .dy_stride = features,
                                     .dy = arena_.take(type, images * features),
                                     .dx = arena_.take(type, all)};
    large("average_pool_grad", name, of_images, (all + images * features) * e, kShare,
          [=](cudaStream_t s) { return average_pool_grad(spread, s); });
  }
}

}  // namespace ct::kernels
