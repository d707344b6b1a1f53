#include "edit.h"

#include <gtest/gtest.h>

#include <vector>

#include "buffer.h"
#include "run.h"
#include "selftest/reference/edit.h"

namespace ct::kernels {
namespace {

constexpr int32_t kOne = kEditOne;

struct Shape {
  int64_t n, channels, height, width;
  int64_t size() const { return n * channels * height * width; }
};

/// What a case needs. Operands that are only read end where their values do, for AddressSanitizer to see.
struct Case {
  Case(const Shape& s, const std::vector<EditDraw>& kinds) : shape(s), images(s.size()), fill{3, 200, 90, 17} {
    uint32_t state = 12345;
    for (uint8_t& pixel : images) pixel = static_cast<uint8_t>((state = state * 1664525u + 1013904223u) >> 24);
    for (int64_t i = 0; i < s.n; ++i) draws.push_back(kinds[i % kinds.size()]);
  }
  EditArgs args(uint8_t* out) const {
    return {.n = shape.n,
            .channels = shape.channels,
            .height = shape.height,
            .width = shape.width,
            .stride = 1,
            .images = images.data(),
            .draws = draws.data(),
            .fill = fill.data(),
            .out = out};
  }
  const Shape shape;
  Operand<uint8_t> images;
  Operand<EditDraw> draws;
  Operand<uint8_t> fill;
};

void check(const Shape& shape, const std::vector<EditDraw>& kinds) {
  const Case c(shape, kinds);
  const std::vector<double> images(c.images.begin(), c.images.end());
  const std::vector<double> expected =
      reference::edit(shape.n, shape.channels, shape.height, shape.width, images, {c.draws.begin(), c.draws.end()},
                      {c.fill.begin(), c.fill.end()});
  on_host::in_all_orders([&] {
    Buffer<uint8_t> out(c.images.size());
    ASSERT_EQ(edit(c.args(out.data()), nullptr), cudaSuccess);
    const std::vector<float> made = out.values();
    EXPECT_EQ(std::vector<double>(made.begin(), made.end()), expected)
        << "kind " << static_cast<int>(kinds.front().kind) << ", " << shape.channels << "x" << shape.height << "x"
        << shape.width;
  });
}

// One channel and three; images smaller than a block, and larger than one.
const Shape kShapes[] = {{3, 3, 8, 6}, {2, 1, 28, 28}, {2, 3, 19, 17}};

void check_all(const std::vector<EditDraw>& kinds) {
  for (const Shape& shape : kShapes) check(shape, kinds);
}
void check_factors(EditKind kind) {
  check_all({{kind, {kOne / 3}}, {kind, {2 * kOne - 7}}});
  check_all({{kind, {0}}, {kind, {5 * kOne}}});
}

using Kind = EditKind;

TEST(Edit, NoneIsACopy) { check_all({{}}); }
TEST(Edit, Moves) {
  check_all({{Kind::move, {1, -2, 0}}, {Kind::move, {-3, 2, 1}}, {Kind::move, {0, 0, 1}}});
  check_all({{Kind::move, {100, 0, 0}}, {Kind::move, {0, -100, 1}}});
}
TEST(Edit, ResizedCrops) {
  for (const Shape& s : kShapes) {
    const auto h = static_cast<int32_t>(s.height), w = static_cast<int32_t>(s.width);
    check(s, {{Kind::resized_crop, {1, 2, w - 2, h - 3}}, {Kind::resized_crop, {w / 2, h / 2, w - w / 2, h - h / 2}}});
    check(s, {{Kind::resized_crop, {0, 0, w, h}}, {Kind::resized_crop, {w - 1, h - 1, 1, 1}}});
  }
}
TEST(Edit, Blends) {
  check_all({{Kind::blend, {0, 0, 6, 8, 1, kOne / 3}}, {Kind::blend, {1, 2, 4, 5, 0, kOne}}});
  check_all({{Kind::blend, {2, 1, 3, 4, -1, kOne}}, {Kind::blend, {0, 0, 0, 0, 0, kOne}}});
}
TEST(Edit, Brightness) { check_factors(Kind::brightness); }
TEST(Edit, Contrast) { check_factors(Kind::contrast); }
TEST(Edit, Saturation) { check_factors(Kind::saturation); }
TEST(Edit, Sharpness) { check_factors(Kind::sharpness); }
TEST(Edit, Hue) { check_all({{Kind::hue, {30}}, {Kind::hue, {200}}}); }
TEST(Edit, Posterizes) { check_all({{Kind::posterize, {3}}, {Kind::posterize, {0}}}); }
TEST(Edit, Solarizes) { check_all({{Kind::solarize, {128}}, {Kind::solarize, {256}}}); }
TEST(Edit, StretchesContrast) { check_all({{Kind::auto_contrast, {}}}); }
TEST(Edit, Equalizes) { check_all({{Kind::equalize, {}}}); }
TEST(Edit, AffineMaps) {
  check_all({{Kind::affine, {kOne, kOne / 5, kOne / 2, 0, kOne, kOne / 2}},
             {Kind::affine, {60000, 26000, -70000, -26000, 60000, 180000}}});
}

TEST(Edit, ABatchWithAllKindsAndAStride) {
  Case c({.n = 4, .channels = 3, .height = 8, .width = 8},
         {{Kind::equalize, {}}, {Kind::resized_crop, {2, 2, 5, 5}}, {Kind::contrast, {kOne / 2}}, {}});
  const std::vector<double> images(c.images.begin(), c.images.end());
  const std::vector<double> expected =
      reference::edit(4, 3, 8, 8, images, {c.draws.begin(), c.draws.end()}, {c.fill.begin(), c.fill.end()});
  Operand<EditDraw> apart;
  for (const EditDraw& draw : c.draws) apart.insert(apart.end(), {draw, {EditKind::solarize, {0}}, draw});
  Buffer<uint8_t> out(c.images.size());
  EditArgs args = c.args(out.data());
  args.draws = apart.data();
  args.stride = 3;
  ASSERT_EQ(edit(args, nullptr), cudaSuccess);
  const std::vector<float> made = out.values();
  EXPECT_EQ(std::vector<double>(made.begin(), made.end()), expected);
}

/// No such partner is the fill.
TEST(Edit, APartnerOutsideTheBatchIsNotRead) {
  for (const int32_t partner : {-7, 2, 1 << 30}) {
    Case c({.n = 2, .channels = 1, .height = 2, .width = 2}, {{Kind::blend, {0, 0, 2, 2, partner, kOne}}});
    Buffer<uint8_t> out(c.images.size());
    ASSERT_EQ(edit(c.args(out.data()), nullptr), cudaSuccess);
    for (size_t i = 0; i < out.size(); ++i) EXPECT_EQ(out[i], 3);
  }
}

TEST(Edit, EmptyIsDoneAndNonsenseIsRefused) {
  const Case c({.n = 1, .channels = 3, .height = 2, .width = 2}, {{}});
  Buffer<uint8_t> out(c.images.size());
  const EditArgs good = c.args(out.data());
  const auto with = [&](auto change) {
    EditArgs args = good;
    change(args);
    return edit(args, nullptr);
  };
  EXPECT_EQ(with([](EditArgs& a) { a.n = 0; }), cudaSuccess);
  EXPECT_EQ(with([](EditArgs& a) { a.width = 0; }), cudaSuccess);
  EXPECT_EQ(with([](EditArgs& a) { a.n = -1; }), cudaErrorInvalidValue);
  EXPECT_EQ(with([](EditArgs& a) { a.channels = -1; }), cudaErrorInvalidValue);
  EXPECT_EQ(with([](EditArgs& a) { a.width = kMaxEditSide + 1; }), cudaErrorInvalidValue);
  EXPECT_EQ(with([](EditArgs& a) { a.channels = int64_t{1} << 40; }), cudaErrorInvalidValue);
  EXPECT_EQ(with([](EditArgs& a) { a.n = int64_t{1} << 31; }), cudaErrorInvalidValue);
  EXPECT_EQ(out[0], 255);  // nothing was written
}

}  // namespace
}  // namespace ct::kernels
