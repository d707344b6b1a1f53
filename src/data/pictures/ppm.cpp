// Netpbm's binary formats: PPM (P6, colours) and PGM (P5, grey).
#include <algorithm>
#include <limits>
#include <string_view>

#include "base/error.h"
#include "data/pictures/codecs.h"

namespace ct {
namespace {

/// The header: numbers, separated by blanks and comments, and one blank before the pixels.
class Header {
 public:
  explicit Header(std::span<const std::byte> file) : file_(file) {}

  int number(int most) {
    skip_blanks();
    int64_t value = 0;
    const size_t begin = at_;
    for (; at_ < file_.size() && byte() >= '0' && byte() <= '9' && value <= most; ++at_)
      value = 10 * value + (byte() - '0');
    if (at_ == file_.size()) fail(ExitCode::data, kEndsTooEarly);
    if (at_ == begin || value < 1 || value > most)
      fail(ExitCode::data, "a PPM file that cannot be decoded: its header is not that of a picture");
    return static_cast<int>(value);
  }
  std::span<const std::byte> pixels() const { return file_.subspan(std::min(file_.size(), at_ + 1)); }

 private:
  char byte() const { return static_cast<char>(file_[at_]); }
  void skip_blanks() {
    for (bool comment = false; at_ < file_.size(); ++at_) {
      if (byte() == '#') comment = true;
      if (!comment && std::string_view(" \t\n\v\f\r").find(byte()) == std::string_view::npos) return;
      if (byte() == '\n' || byte() == '\r') comment = false;
    }
  }

  std::span<const std::byte> file_;
  size_t at_ = 2;  // behind "P6"
};

}  // namespace

PicturePart decode_ppm(std::span<const std::byte> file, const ChooseWindow& choose, const DecodeOptions& options) {
  Header header(file);
  constexpr int kMost = std::numeric_limits<int>::max();
  const int width = header.number(kMost), height = header.number(kMost), largest = header.number(65535);
  const PictureSize size = {width, height};
  require_allowed(size, options);
  const Window window = choose ? choose(size) : Window{0, 0, width, height};
  require_inside(window, size);
  const size_t channels = file[1] == std::byte{'6'} ? 3 : 1, bytes = largest > 255 ? 2 : 1;
  const auto pixels = header.pixels();
  if (pixels.size() < static_cast<size_t>(width) * static_cast<size_t>(height) * channels * bytes)
    fail(ExitCode::data, kEndsTooEarly);

  PicturePart result{.picture = Picture(window.width, window.height), .x = window.x, .y = window.y};
  const auto value = [&](size_t i) {
    const auto high = static_cast<uint32_t>(pixels[i * bytes]);
    const uint32_t v = bytes == 2 ? high << 8 | static_cast<uint32_t>(pixels[2 * i + 1]) : high;
    const auto most = static_cast<uint32_t>(largest);
    return static_cast<uint8_t>(most == 255 ? v : (2 * 255 * std::min(v, most) + most) / (2 * most));
  };
  for (int y = 0; y < window.height; ++y) {
    uint8_t* const row = result.picture.row(y);
    const size_t first = static_cast<size_t>(window.y + y) * static_cast<size_t>(width) + static_cast<size_t>(window.x);
    for (size_t x = 0; x < static_cast<size_t>(window.width); ++x)
      for (size_t c = 0; c < 3; ++c) row[3 * x + c] = value((first + x) * channels + c % channels);
  }
  return result;
}

}  // namespace ct
