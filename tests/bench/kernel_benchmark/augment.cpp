#include "bench.h"
#include "edit.h"

namespace ct::kernels {

AugmentArgs Bench::of_images(int64_t n, int64_t count, Type type, int64_t stride, bool planar, bool draws) {
  std::vector<int32_t> index, moves;
  for (int64_t i = 0; i < n; ++i) {
    index.push_back(static_cast<int32_t>(i * 7919 % count));
    for (const int64_t draw : {i % 9 - 4, i / 9 % 9 - 4, i % 2, int64_t{0}})
      moves.push_back(static_cast<int32_t>(draw));
  }
  return {.n = n,
          .channels = 3,
          .height = 32,
          .width = 32,
          .stride = planar ? 0 : stride,
          .planar = planar,
          .type = type,
          .count = count,
          .images = arena_.take<uint8_t>(count * 3072),
          .index = arena_.of(index),
          .draws = draws ? arena_.of(moves) : nullptr,
          .scale = arena_.of(std::vector<float>(3, 1 / 127.5f)),
          .shift = arena_.of(std::vector<float>(3, -1)),
          .out = arena_.take(type, n * 1024 * (planar ? 3 : stride))};
}

void Bench::augments() {
  const int64_t n = shrunk(65536);
  for (const Type type : {Type::f32, Type::bf16})
    for (const bool draws : {false, true})
      for (const bool planar : {false, true}) {
        const AugmentArgs args = of_images(n, n, type, /*stride=*/4, planar, draws);
        large(draws ? "augment" : "normalise", name_of(type), shape_of(n, 3, 32, 32) + (planar ? ", planar" : ""),
              n * (3072 + 4 + (draws ? 16 : 0) + 1024 * (planar ? 3 : 4) * size_of(type)), draws ? 0 : kShare,
              [=](cudaStream_t s) { return augment(args, s); });
      }
}

void Bench::edits() {
  const int64_t n = shrunk(16384);
  const std::pair<const char*, EditDraw> kinds[] = {
      {"copy", {EditKind::none, {}}},
      {"resized crop", {EditKind::resized_crop, {3, 5, 24, 22}}},
      {"saturation", {EditKind::saturation, {kEditOne / 2}}},
      {"equalize", {EditKind::equalize, {}}},
      {"rotation", {EditKind::affine, {64540, 11380, -143000, -11380, 64540, 220000}}}};
  for (const auto& [name, draw] : kinds) {
    const EditArgs args{.n = n,
                        .channels = 3,
                        .height = 32,
                        .width = 32,
                        .stride = 1,
                        .count = n,
                        .images = arena_.take<uint8_t>(n * 3072),
                        .draws = arena_.of(std::vector<EditDraw>(static_cast<size_t>(n), draw)),
                        .fill = arena_.of(std::vector<uint8_t>(3, 128)),
                        .out = arena_.take<uint8_t>(n * 3072)};
    large("edit", "u8", shape_of(n, 3, 32, 32) + ", " + name, n * (2 * 3072 + 32), 0,
          [=](cudaStream_t s) { return edit(args, s); });
  }
}

}  // namespace ct::kernels
