#include "tokens.h"

#include "bench.h"
#include "patches.h"

namespace ct::kernels {

void Bench::tokens_of_images() {
  for (const Type type : {Type::f32, Type::bf16}) {
    const int64_t e = size_of(type), n = shrunk(4096), count = 65, width = 512, length = 240;
    const int64_t rows = n * count, others = n * (count - 1), parameters = (count + 1) * width;
    const std::string name = name_of(type), shape = shape_of(n, count, width);
    const PatchesArgs of_patches{.shape = {.type = type,
                                           .n = n,
                                           .channels = 3,
                                           .height = 32,
                                           .width = 32,
                                           .patch = 4,
                                           .down = 8,
                                           .across = 8,
                                           .y_stride = length},
                                 .shift = 1,
                                 .images = arena_.take(type, n * 3 * 32 * 32),
                                 .y = arena_.take(type, others * length)};
    large("patches", name, shape_of(n, 3, 32, 32) + ", 4x4, shifted", (n * 3 * 32 * 32 + others * length) * e, 0,
          [=](cudaStream_t s) { return patches(of_patches, s); });
    const int64_t pictures = shrunk((int64_t{512} << 20) / e / (16 * 115 * 115));
    const PatchesArgs of_stem{.shape = {.type = type,
                                        .n = pictures,
                                        .channels = 3,
                                        .height = 224,
                                        .width = 224,
                                        .patch = 2,
                                        .down = 115,
                                        .across = 115,
                                        .before = 4,
                                        .y_stride = 16},
                              .images = arena_.take(type, pictures * 3 * 224 * 224),
                              .y = arena_.take(type, pictures * 16 * 115 * 115)};
    large("patches", name, shape_of(pictures, 3, 224, 224) + ", 2x2", pictures * (3 * 50176 + 16 * 13225) * e, 0,
          [=](cudaStream_t s) { return patches(of_stem, s); });
    const TokensArgs of_tokens{.type = type,
                               .n = n,
                               .tokens = count,
                               .columns = width,
                               .x_stride = width,
                               .stride = width,
                               .x = arena_.take(type, others * width),
                               .class_token = arena_.take(type, width),
                               .positions = arena_.take(type, count * width),
                               .y = arena_.take(type, rows * width)};
    large("tokens", name, shape, ((others + rows) * width + parameters) * e, kShare,
          [=](cudaStream_t s) { return tokens(of_tokens, s); });
    const TokensGradArgs of_grad{.type = type,
                                 .n = n,
                                 .tokens = count,
                                 .columns = width,
                                 .x_stride = width,
                                 .stride = width,
                                 .dy = arena_.take(type, rows * width),
                                 .dx = arena_.take(type, others * width),
                                 .dclass_token = arena_.take<float>(width),
                                 .dpositions = arena_.take<float>(count * width)};
    large("tokens_grad", name, shape, (others + rows) * width * e + parameters * 4, kShare,
          [=](cudaStream_t s) { return tokens_grad(of_grad, s); });
  }
}

}  // namespace ct::kernels
