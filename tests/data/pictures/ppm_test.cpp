// Binary PPM and PGM, and WebP.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <string>

#include "base/error.h"
#include "base/random.h"
#include "data/pictures/decode.h"
#include "data/pictures/transform.h"

namespace ct {
namespace {

std::span<const std::byte> file_of(const std::string& text) { return std::as_bytes(std::span(text)); }

std::vector<int> pixels_of(const std::string& file) {
  const Picture picture = decode(file_of(file));
  return {picture.rgb.begin(), picture.rgb.end()};
}

/// The message of Error(data); empty: it decodes.
std::string fault_of(const std::string& file) {
  try {
    decode(file_of(file));
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::data) << error.what();
    return error.what();
  }
}

/// A lossless picture of 5x3: red 50 x, green 100 y, blue 10 x y.
const std::string& webp() {
  static constexpr char kBytes[] =
      "\x52\x49\x46\x46\x52\x00\x00\x00\x57\x45\x42\x50\x56\x50\x38\x4c\x45\x00\x00\x00\x2f\x04\x80\x00\x00\x77\x20\x10"
      "\x48\xf2\x67\x18\x68\x44\xc2\x6c\xa3\x63\xea\xeb\xfc\x01\xc6\x44\x98\x6d\x54\x88\xf9\x73\x1d\xc9\xbd\xe7\x3f\x4c"
      "\x00\x80\x0f\x21\x84\xb4\xd1\xe9\x74\x3a\x28\x06\x00\x34\xea\xbe\x5e\xb1\xe4\x14\x4b\x52\x63\x19\x57\x44\xff\xa3"
      "\x47\xfe\xab\xbd\x04";
  static const std::string file(kBytes, sizeof kBytes);  // its last byte is 0
  return file;
}
bool built_with_webp() { return fault_of(webp()).empty(); }

TEST(Ppm, Pixels) {
  EXPECT_EQ(pixels_of("P6 2 1 255\nabcdef"), (std::vector<int>{'a', 'b', 'c', 'd', 'e', 'f'}));
  EXPECT_EQ(pixels_of("P6#x\n2 # 7\r1\t255 abcdef and more"), (std::vector<int>{'a', 'b', 'c', 'd', 'e', 'f'}));
  EXPECT_EQ(pixels_of("P5\n1 2\n255\nab"), (std::vector<int>{'a', 'a', 'a', 'b', 'b', 'b'}));
  EXPECT_EQ(pixels_of("P5 3 1 4 " + std::string("\x01\x02\x09")),
            (std::vector<int>{64, 64, 64, 128, 128, 128, 255, 255, 255}));
  EXPECT_EQ(pixels_of("P5 2 1 65535 " + std::string("\xff\xff\x80\x00", 4)),
            (std::vector<int>{255, 255, 255, 128, 128, 128}));
}

TEST(Ppm, WindowsAreThoseOfTheWholePicture) {
  std::string file = "P6 7 5 255\n";
  for (int i = 0; i < 105; ++i) file += static_cast<char>(i);
  const Picture whole = decode(file_of(file));
  const Window window = {2, 1, 4, 3};
  const PicturePart part = decode_window(file_of(file), [&](PictureSize) { return window; }, {});
  ASSERT_EQ(PictureSize(part.picture.width, part.picture.height), PictureSize(4, 3));
  for (int y = 0; y < 3; ++y)
    EXPECT_EQ(std::memcmp(part.picture.row(y), whole.row(y + window.y) + 3 * window.x, 12), 0) << y;
}

TEST(Ppm, FaultsAreFound) {
  for (const char* file : {"P6", "P6 2", "P6 2 1 255", "P6 2 1 255\nabcde", "P5 2 1 256 abc", "P6 #2 1 255 abcdef"})
    EXPECT_NE(fault_of(file).find("truncated"), std::string::npos) << file << ": " << fault_of(file);
  for (const char* file : {"P6 0 1 255 ", "P6 -1 1 255 ", "P6 1 1 65536 abc", "P6 1 1 0 abc", "P6 a 1 255 ",
                           "P6 99999999999999999999 1 255 ", "P5,1 1 255 a"})
    EXPECT_NE(fault_of(file).find("its header"), std::string::npos) << file << ": " << fault_of(file);
  EXPECT_NE(fault_of("P6 20000 20000 255 ").find("data.max_pixels"), std::string::npos);
  for (const char* file : {"P1 1 1 0", "P3 1 1 255 1 2 3"}) EXPECT_NE(fault_of(file).find("a PNM"), std::string::npos);
}

TEST(Webp, Pixels) {
  if (!built_with_webp()) GTEST_SKIP() << fault_of(webp());
  const Picture picture = decode(file_of(webp()));
  ASSERT_EQ(PictureSize(picture.width, picture.height), PictureSize(5, 3));
  for (int y = 0; y < 3; ++y)
    for (int x = 0; x < 5; ++x) {
      const uint8_t* const p = picture.row(y) + 3 * x;
      EXPECT_EQ(std::vector<int>({p[0], p[1], p[2]}), std::vector<int>({50 * x, 100 * y, 10 * x * y})) << x << ' ' << y;
    }
}

TEST(Webp, DamageIsFoundOrHarmless) {
  if (!built_with_webp()) GTEST_SKIP() << fault_of(webp());
  for (size_t size = 12; size + 2 < webp().size(); ++size) EXPECT_NE(fault_of(webp().substr(0, size)), "") << size;
  Random random(5, Purpose::synthetic);
  for (int i = 0; i < 2000; ++i) {
    std::string damaged = webp();
    damaged[12 + random.below(static_cast<uint32_t>(damaged.size() - 12))] ^= static_cast<char>(1u << random.below(8));
    fault_of(damaged);
  }
  const std::string animated(
      "RIFF\xe6\0\0\0WEBPVP8X\x0a\0\0\0\x02\0\0\0\x04\0\0\x02\0\0"
      "ANIM\x06\0\0\0\0\0\0\0\0\0",
      44);
  EXPECT_NE(fault_of(animated).find("animated"), std::string::npos) << fault_of(animated);
}

TEST(Transform, GreySamplesArePillows) {
  const PictureTransform transform{.size = 2, .resize = 2, .grey = true};
  EXPECT_EQ(transform.shape(), (SampleShape{1, 2, 2}));
  const std::string colours("P6 2 2 255\n\xff\0\0\0\xff\0\0\0\xff\x0c\x0c\x0c", 23);
  std::vector<uint8_t> sample(4);
  make_sample(file_of(colours), transform, {}, 0, sample.data());
  EXPECT_EQ(std::vector<int>(sample.begin(), sample.end()), (std::vector<int>{76, 150, 29, 12}));
}

}  // namespace
}  // namespace ct
