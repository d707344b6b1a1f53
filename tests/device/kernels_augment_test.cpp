#include "device/cpu/kernels/augment.h"
#include "device/kernels_testing.h"

namespace ct::cpu {
namespace {

class Augment : public KernelTest {};
CT_KERNEL_SUITE(Augment);

TEST_P(Augment, CropFlipNormalise) {
  for (const auto& [height, width] : {std::pair<int, int>{32, 32}, {5, 7}, {9, 50}, {3, 16}}) {
    const int channels = 3;
    const std::vector<int> draws = {0, 0, 0, 0, 0, 0, 1,   0, 4, -3, 0, 0,  -4, 4,
                                    1, 0, 2, 1, 1, 0, -40, 0, 0, 0,  0, 60, 1,  0};
    const int n = static_cast<int>(draws.size() / 4);
    std::mt19937 engine(3);
    std::vector<int> pixels(static_cast<size_t>(n) * channels * height * width);
    for (int& p : pixels) p = static_cast<int>(engine() % 256);
    const double mean[] = {0.4914, 0.4822, 0.4465}, deviation[] = {0.247, 0.243, 0.261};
    std::vector<double> scale, shift;
    for (int c = 0; c < channels; ++c) {
      scale.push_back(1 / (255 * deviation[c]));
      shift.push_back(-mean[c] / deviation[c]);
    }
    Buffer<uint8_t> images(pixels);
    Buffer<int32_t> moves(draws);
    Buffer<float> scales(scale), shifts(shift), out(pixels.size());
    augment({n, channels, height, width, images, moves, scales, shifts, out});
    for (int i = 0; i < n; ++i)
      for (int c = 0; c < channels; ++c)
        for (int y = 0; y < height; ++y)
          for (int x = 0; x < width; ++x) {
            const int from_y = y + draws[4 * i], from_x = (draws[4 * i + 2] ? width - 1 - x : x) + draws[4 * i + 1];
            const bool inside = from_y >= 0 && from_y < height && from_x >= 0 && from_x < width;
            const int64_t plane = (i * channels + c) * height;
            const double pixel = inside ? pixels[(plane + from_y) * width + from_x] : 0;
            ASSERT_NEAR(out[(plane + y) * width + x], (pixel / 255 - mean[c]) / deviation[c], 1e-6)
                << "image " << i << " channel " << c << " y " << y << " x " << x;
          }
    EXPECT_TRUE(out.intact());
  }
}

}  // namespace
}  // namespace ct::cpu
