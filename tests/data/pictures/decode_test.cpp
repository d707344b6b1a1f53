#include "data/pictures/decode.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>

#include "base/error.h"
#include "data/pictures/codecs.h"
#include "data/pictures/made_up_pictures.h"

namespace ct {
namespace {

/// What is wrong, or nothing where it decodes. Anything but Error(data) fails the test.
std::optional<std::string> problem(const std::function<void()>& action) {
  try {
    action();
    return std::nullopt;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::data) << error.what();
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    return error.what();
  }
}
std::string problem_of(std::span<const std::byte> file, const DecodeOptions& options = {}) {
  return problem([&] { decode(file, options); }).value_or("");
}
void expect_problem(std::span<const std::byte> file, const std::string& words) {
  EXPECT_NE(problem_of(file).find(words), std::string::npos) << words << " in: " << problem_of(file);
}

/// Whatever the picture's size.
ChooseWindow at(const Window& window) {
  return [window](PictureSize) { return window; };
}

FileBytes bytes_of(std::string_view text) {
  FileBytes bytes(text.size());
  std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

int largest_difference(const Picture& a, const Picture& b) {
  EXPECT_EQ(PictureSize(a.width, a.height), PictureSize(b.width, b.height));
  int most = 0;
  for (size_t i = 0; i < std::min(a.rgb.size(), b.rgb.size()); ++i)
    most = std::max(most, std::abs(a.rgb[i] - b.rgb[i]));
  return most;
}
double mean_difference(const Picture& a, const Picture& b) {
  EXPECT_EQ(a.rgb.size(), b.rgb.size());
  double sum = 0;
  for (size_t i = 0; i < std::min(a.rgb.size(), b.rgb.size()); ++i) sum += std::abs(a.rgb[i] - b.rgb[i]);
  return sum / static_cast<double>(a.rgb.size());
}

TEST(Decode, FormatsAreToldByContent) {
  const Picture picture = made_up_picture(31, 17);
  for (const FileBytes& file : {jpeg_file(picture), png_file(picture)}) {
    std::vector<PictureSize> asked;
    const auto choose = [&](PictureSize size) { return asked.push_back(size), Window{0, 0, 1, 1}; };
    decode_window(file, choose, {});
    EXPECT_EQ(asked, std::vector{PictureSize(31, 17)});
  }
  expect_problem({}, "empty");
  expect_problem(bytes_of("GIF89a..........."), "GIF");
  expect_problem(bytes_of("RIFF....WAVEfmt "), "not a JPEG, PNG, WebP or PPM file");
  expect_problem(bytes_of("P3 2 2 255 ............"), "a PNM file: convert it");
  const auto box = [](const std::string& name) {
    return bytes_of(std::string("\0\0\0\x0c", 4) + name + "............");
  };
  expect_problem(box("ftypavif"), "an AVIF file: convert it");
  expect_problem(box("ftypheic"), "a HEIC file");
  expect_problem(box("jP  \r\n\x87\n"), "a JPEG 2000 file");
  expect_problem(box("JXL \r\n\x87\n"), "a JPEG XL file");
  expect_problem(bytes_of("\xff\x4f\xff\x51............"), "a JPEG 2000 file");
  expect_problem(bytes_of("version https://git-lfs.github.com/spec/v1\n"),
                 "Git LFS, not the file itself: run git lfs pull");
  expect_problem(bytes_of("\n <!DOCTYPE html><html>"), "a web page");
  expect_problem(bytes_of("<?xml version=\"1.0\"?><svg width=\"9\">"), "not a JPEG, PNG, WebP or PPM file");
  expect_problem(bytes_of("This is text, whatever its name."), "not a JPEG, PNG, WebP or PPM file");
  expect_problem(bytes_of("\xff"), "not a JPEG, PNG, WebP or PPM file");
}

TEST(Decode, JpegPicturesComeBack) {
  const Picture picture = made_up_picture(67, 45);
  for (const bool progressive : {false, true}) {
    const Picture fine =
        decode(jpeg_file(picture, {.quality = 98, .horizontal = 1, .vertical = 1, .progressive = progressive}));
    EXPECT_LE(mean_difference(fine, picture), 2);
  }
  Picture grey = picture;
  for (size_t i = 0; i < grey.rgb.size(); i += 3) grey.rgb[i + 1] = grey.rgb[i + 2] = grey.rgb[i];
  const Picture decoded = decode(jpeg_file(picture, {.quality = 98, .components = 1}));
  EXPECT_LE(mean_difference(decoded, grey), 2);
  for (size_t i = 0; i < decoded.rgb.size(); i += 3) ASSERT_EQ(decoded.rgb[i], decoded.rgb[i + 2]);
}

/// Ink on white paper: what is left of each colour is what its ink and black let through.
TEST(Decode, JpegOfInks) {
  const Picture picture = made_up_picture(40, 24);
  Picture expected = picture;
  for (size_t i = 0; i < picture.rgb.size(); i += 3) {
    const int white = 255 - picture.rgb[i + 1] / 3;
    for (size_t c = i; c < i + 3; ++c) expected.rgb[c] = static_cast<uint8_t>(picture.rgb[c] * white / 255);
  }
  for (const bool ycck : {false, true}) {
    const FileBytes file =
        jpeg_file(picture, {.quality = 99, .components = 4, .ycck = ycck, .horizontal = 1, .vertical = 1});
    EXPECT_LE(mean_difference(decode(file), expected), 2.5);
    const Window window = {8, 5, 17, 11};
    const PicturePart part = decode_window(file, at(window), {});
    for (int y = 0; y < window.height; ++y)
      ASSERT_EQ(std::memcmp(part.picture.row(window.y - part.y + y) + 3 * (window.x - part.x),
                            decode(file).row(window.y + y) + 3 * window.x, static_cast<size_t>(3 * window.width)),
                0);
  }
}

/// Exact windows have the pixels of the whole picture, also beside the edges of blocks, where colours are interpolated.
TEST(Decode, WindowsAreThoseOfTheWholePicture) {
  struct Sampling {
    int horizontal, vertical;
  };
  Random random(3, Purpose::synthetic);
  for (const auto& [horizontal, vertical] : {Sampling{1, 1}, {2, 1}, {1, 2}, {2, 2}, {4, 1}, {4, 2}})
    for (const bool progressive : {false, true})
      for (const int restart : {0, 3}) {
        const int width = 40 + static_cast<int>(random.below(90)), height = 40 + static_cast<int>(random.below(90));
        const FileBytes file =
            jpeg_file(made_up_picture(width, height, random.next_u32()),
                      {.horizontal = horizontal, .vertical = vertical, .progressive = progressive, .restart = restart});
        const Picture whole = decode(file);
        for (int i = 0; i < 60; ++i) {
          Window w;
          w.width = 1 + static_cast<int>(random.below(static_cast<uint32_t>(width)));
          w.height = 1 + static_cast<int>(random.below(static_cast<uint32_t>(height)));
          w.x = static_cast<int>(random.below(static_cast<uint32_t>(width - w.width + 1)));
          w.y = static_cast<int>(random.below(static_cast<uint32_t>(height - w.height + 1)));
          const PicturePart part = decode_window(file, at(w), {});
          ASSERT_EQ(part.scale, 1);
          ASSERT_LE(part.x, w.x);
          ASSERT_LE(part.y, w.y);
          ASSERT_GE(part.x + part.picture.width, w.x + w.width);
          ASSERT_GE(part.y + part.picture.height, w.y + w.height);
          for (int y = 0; y < w.height; ++y)
            ASSERT_EQ(std::memcmp(part.picture.row(w.y - part.y + y) + 3 * (w.x - part.x), whole.row(w.y + y) + 3 * w.x,
                                  static_cast<size_t>(3 * w.width)),
                      0)
                << horizontal << "x" << vertical << (progressive ? " progressive" : "") << ", row " << y << " of "
                << w.width << "x" << w.height << " at " << w.x << "," << w.y << " in " << width << "x" << height;
        }
      }
}

TEST(Decode, AWindowThatIsMadeSmallerIsDecodedAtTheScaleThatSuffices) {
  const Picture picture = made_up_picture(640, 480);
  const FileBytes file = jpeg_file(picture, {.quality = 95});
  const Window window = {101, 37, 450, 400};
  const auto scale = [&](int side, bool exact) { return decode_window(file, at(window), {{side, side}, exact}).scale; };
  EXPECT_EQ(scale(400, false), 1);
  EXPECT_EQ(scale(201, false), 1);
  EXPECT_EQ(scale(200, false), 0.5);
  EXPECT_EQ(scale(101, false), 0.5);
  EXPECT_EQ(scale(100, false), 0.25);
  EXPECT_EQ(scale(50, false), 0.125);
  EXPECT_EQ(scale(10, false), 0.125);
  EXPECT_EQ(scale(10, true), 1);
  // A pixel of half the scale is the mean of four.
  const PicturePart half = decode_window(file, at(window), {{200, 200}, false});
  EXPECT_LE(half.x, window.x / 2);
  EXPECT_GE(half.x + half.picture.width, (window.x + window.width + 1) / 2);
  Picture expected(half.picture.width, half.picture.height);
  const Picture whole = decode(file);
  for (int y = 0; y < expected.height; ++y)
    for (int x = 0; x < 3 * expected.width; ++x) {
      const int from = 6 * (half.x + x / 3) + x % 3, row = 2 * (half.y + y);
      expected.row(y)[x] = static_cast<uint8_t>((whole.row(row)[from] + whole.row(row)[from + 3] +
                                                 whole.row(row + 1)[from] + whole.row(row + 1)[from + 3] + 2) /
                                                4);
    }
  EXPECT_LE(mean_difference(half.picture, expected), 4);
}

TEST(Decode, PngOfEveryType) {
  constexpr int kWidth = 21, kHeight = 10;
  Random random(9, Purpose::synthetic);
  std::vector<png_color> palette;
  for (int i = 0; i < 256; ++i)
    palette.push_back({static_cast<png_byte>(i), static_cast<png_byte>(255 - i), static_cast<png_byte>(i * 7)});
  struct Type {
    int type, samples;
    std::vector<int> bits;
  };
  for (const auto& [type, samples, all_bits] :
       {Type{PNG_COLOR_TYPE_GRAY, 1, {1, 2, 4, 8, 16}}, Type{PNG_COLOR_TYPE_PALETTE, 1, {1, 2, 4, 8}},
        Type{PNG_COLOR_TYPE_RGB, 3, {8, 16}}, Type{PNG_COLOR_TYPE_GRAY_ALPHA, 2, {8, 16}},
        Type{PNG_COLOR_TYPE_RGB_ALPHA, 4, {8, 16}}})
    for (const int bits : all_bits)
      for (const bool interlaced : {false, true})
        for (const bool transparent : {false, true}) {
          if (transparent && type != PNG_COLOR_TYPE_GRAY && type != PNG_COLOR_TYPE_PALETTE) continue;
          std::vector<std::vector<uint8_t>> rows;
          Picture expected(kWidth, kHeight);
          for (int y = 0; y < kHeight; ++y) {
            std::vector<uint8_t>& row = rows.emplace_back(static_cast<size_t>((kWidth * samples * bits + 7) / 8));
            for (int x = 0; x < kWidth; ++x) {
              int high[4] = {};  // of each sample
              for (int s = 0; s < samples; ++s) {
                const auto value = random.below(1u << bits);
                const int at = (x * samples + s) * bits;
                if (bits == 16) {
                  row[static_cast<size_t>(at / 8)] = static_cast<uint8_t>(value >> 8);
                  row[static_cast<size_t>(at / 8 + 1)] = static_cast<uint8_t>(value);
                  high[s] = static_cast<int>(value >> 8);
                } else {
                  row[static_cast<size_t>(at / 8)] |= static_cast<uint8_t>(value << (8 - bits - at % 8));
                  high[s] = static_cast<int>(value);
                }
              }
              uint8_t* const to = expected.row(y) + 3 * x;
              if (type == PNG_COLOR_TYPE_PALETTE) {
                const png_color color = palette[static_cast<size_t>(high[0])];
                to[0] = color.red, to[1] = color.green, to[2] = color.blue;
              } else if (samples <= 2) {
                const int grey = bits < 8 ? high[0] * 255 / ((1 << bits) - 1) : high[0];
                to[0] = to[1] = to[2] = static_cast<uint8_t>(grey);
              } else {
                for (int c = 0; c < 3; ++c) to[c] = static_cast<uint8_t>(high[c]);
              }
            }
          }
          PngOptions options{.type = type, .bits = bits, .interlaced = interlaced, .transparent = transparent};
          if (type == PNG_COLOR_TYPE_PALETTE) options.palette.assign(palette.begin(), palette.begin() + (1 << bits));
          const FileBytes file = png_file(kWidth, kHeight, rows, options);
          EXPECT_EQ(largest_difference(decode(file), expected), 0)
              << "type " << type << ", " << bits << " bits" << (interlaced ? ", interlaced" : "");
          const PicturePart part = decode_window(file, at({3, 4, 7, 2}), {});
          for (int y = 4; y < 6; ++y)
            EXPECT_EQ(std::memcmp(part.picture.row(y - part.y) + 3 * (3 - part.x), expected.row(y) + 9, 21), 0);
        }
}

TEST(Decode, TooManyPixelsAreRefusedBeforeTheyAreDecoded) {
  const Picture picture = made_up_picture(50, 40);
  for (const FileBytes& file : {jpeg_file(picture), png_file(picture)}) {
    EXPECT_EQ(problem_of(file, {.max_pixels = 2000}), "");
    EXPECT_EQ(problem_of(file, {.max_pixels = 1999}),
              "50x40: 2000 pixels are more than data.max_pixels, 1999, which may be raised (data verify, data convert: "
              "--max-pixels)");
    EXPECT_TRUE(problem([&] { decode_window(file, at({0, 0, 1, 1}), {}, {.max_pixels = 1999}); }));
  }
  // A header may claim anything.
  FileBytes bomb = jpeg_file(picture);
  const uint8_t frame[] = {0xff, 0xc0};
  const auto at = std::search(bomb.begin(), bomb.end(), std::begin(frame), std::end(frame),
                              [](std::byte a, uint8_t b) { return a == std::byte{b}; });
  ASSERT_NE(at, bomb.end());
  for (int i = 5; i < 9; ++i) at[i] = std::byte{0xff};
  expect_problem(bomb, "65500");  // libjpeg's own limit
  for (int i = 5; i < 9; i += 2) at[i + 1] = std::byte{0xdc};
  expect_problem(bomb, "65500x65500: 4290250000 pixels are more than data.max_pixels");
}

TEST(Decode, SidesThatAreTooLongAreRefused) {
  for (const char* header : {"P6 1000001 1 255\n", "P5 1 99999999 255\n"})
    expect_problem(bytes_of(header), " pixels are more than a side may have, 1000000: cut it");
  expect_problem(bytes_of("P6 1000000 1 255\n"), "truncated");
}

TEST(Decode, EveryTruncationIsFound) {
  const Picture picture = made_up_picture(48, 40);
  for (const FileBytes& file :
       {jpeg_file(picture, {.quality = 60}), jpeg_file(picture, {.quality = 60, .progressive = true}),
        jpeg_file(picture, {.quality = 60, .restart = 2}), png_file(picture), png_file(picture, /*interlaced=*/true)}) {
    ASSERT_EQ(problem_of(file), "");
    for (size_t length = 0; length < file.size(); ++length) {
      const std::span<const std::byte> cut = std::span(file).first(length);
      ASSERT_NE(problem_of(cut), "") << length << " of " << file.size();
      EXPECT_TRUE(problem([&] { decode_window(cut, at({1, 1, 5, 5}), {}); })) << length << " of " << file.size();
    }
  }
  // What hangs on behind the picture does no harm.
  FileBytes longer = jpeg_file(picture);
  longer.resize(longer.size() + 100);
  EXPECT_EQ(problem_of(longer), "");
}

TEST(Decode, DamageIsFoundOrHarmless) {
  const Picture picture = made_up_picture(40, 33);
  Random random(5, Purpose::synthetic);
  for (const FileBytes& file :
       {jpeg_file(picture), jpeg_file(picture, {.progressive = true}), jpeg_file(picture, {.components = 4}),
        jpeg_file(picture, {.restart = 1}), png_file(picture), png_file(picture, /*interlaced=*/true)}) {
    const size_t header = std::min<size_t>(file.size(), 700);
    for (size_t i = 0; i < header + 1500; ++i) {
      FileBytes damaged = file;
      const size_t at = i < header ? i : random.below(static_cast<uint32_t>(file.size()));
      damaged[at] = i % 3 == 0 ? std::byte{0xff} : damaged[at] ^ static_cast<std::byte>(1u << random.below(8));
      const DecodeOptions small{.max_pixels = 1 << 20};
      problem([&] { decode(damaged, small); });
      problem([&] {
        const auto middle = [](PictureSize size) {
          return Window{size.width / 3, size.height / 3, (size.width + 2) / 3, (size.height + 2) / 3};
        };
        decode_window(damaged, middle, {{8, 8}, i % 2 == 0}, small);
      });
    }
  }
}

/// Each scan costs a pass over all pixels, and needs but a few bytes.
TEST(Decode, ManyScansAreRefused) {
  const FileBytes file = jpeg_file(made_up_picture(32, 32), {.progressive = true});
  const auto marker = [&](size_t from, std::initializer_list<int> codes) {
    for (size_t i = from; i + 1 < file.size(); ++i)
      if (file[i] == std::byte{0xff})
        for (const int code : codes)
          if (file[i + 1] == static_cast<std::byte>(code)) return i;
    return file.size();
  };
  const size_t scan = marker(2, {0xda}), next = marker(scan + 2, {0xda, 0xc4, 0xd9});
  ASSERT_LT(next, file.size());
  const auto repeated = [&](int times) {
    FileBytes many(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(scan));
    for (int i = 0; i < times; ++i)
      many.insert(many.end(), file.begin() + static_cast<std::ptrdiff_t>(scan),
                  file.begin() + static_cast<std::ptrdiff_t>(next));
    many.insert(many.end(), file.begin() + static_cast<std::ptrdiff_t>(next), file.end());
    return many;
  };
  EXPECT_EQ(problem_of(repeated(100)), "");
  expect_problem(repeated(300), "more than 200 scans, the limit for a picture of 32x32 pixels");
}

TEST(Decode, LargePicturesMayHaveFewerScans) {
  EXPECT_EQ(most_jpeg_scans({1, 1}), 200);
  EXPECT_EQ(most_jpeg_scans({2000, 5000}), 200);
  EXPECT_EQ(most_jpeg_scans({4000, 5000}), 100);
  EXPECT_EQ(most_jpeg_scans({10000, 10000}), 20);
  EXPECT_EQ(most_jpeg_scans({30000, 30000}), 20);  // as data.max_pixels may allow
}

}  // namespace
}  // namespace ct
