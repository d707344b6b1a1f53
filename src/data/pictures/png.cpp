#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "data/pictures/codecs.h"

namespace ct {
namespace {

/// A reader of one file. libpng reports errors by a jump over its own frames: every call of it goes through guarded(),
/// whose body owns nothing.
class Png {
 public:
  explicit Png(std::span<const std::byte> file) : rest_(file) {
    guarded([&] {
      png = png_create_read_struct(
          PNG_LIBPNG_VER_STRING, this, [](png_structp reader, png_const_charp text) { of(reader).leave(text); },
          [](png_structp, png_const_charp) {});
      info = png != nullptr ? png_create_info_struct(png) : nullptr;
    });
    if (info == nullptr) {
      png_destroy_read_struct(&png, nullptr, nullptr);
      fail(ExitCode::memory, "no memory for reading a PNG file");
    }
    png_set_read_fn(png, this, [](png_structp reader, png_bytep to, size_t bytes) {
      Png& self = *static_cast<Png*>(png_get_io_ptr(reader));
      if (bytes > self.rest_.size()) {
        self.out_of_file_ = true;
        png_error(reader, "");
      }
      std::memcpy(to, self.rest_.data(), bytes);
      self.rest_ = self.rest_.subspan(bytes);
    });
    // Texts, profiles and the like may unpack to any size, and change no pixel here.
    png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
  }
  ~Png() { png_destroy_read_struct(&png, &info, nullptr); }
  Png(const Png&) = delete;
  Png& operator=(const Png&) = delete;

  template <class Body>
  void guarded(Body body) {
    if (setjmp(failed_) != 0) fail(ExitCode::data, out_of_file_ ? kEndsTooEarly : message_);
    body();
  }

  PictureSize read_header() {
    guarded([&] { png_read_info(png, info); });
    return {static_cast<int>(png_get_image_width(png, info)), static_cast<int>(png_get_image_height(png, info))};
  }

  png_structp png = nullptr;
  png_infop info = nullptr;

 private:
  static Png& of(png_structp reader) { return *static_cast<Png*>(png_get_error_ptr(reader)); }
  [[noreturn]] void leave(const char* text) {
    std::snprintf(message_, sizeof message_, "a PNG file that cannot be decoded: %s", text);
    std::longjmp(failed_, 1);
  }

  std::span<const std::byte> rest_;
  std::jmp_buf failed_;
  char message_[256];
  bool out_of_file_ = false;
};

}  // namespace

PicturePart decode_png(std::span<const std::byte> file, const ChooseWindow& choose, const DecodeOptions& options) {
  Png reader(file);
  const png_structp png = reader.png;
  const png_infop info = reader.info;
  const PictureSize size = reader.read_header();
  require_allowed(size, options);
  const Window window = choose ? choose(size) : Window{0, 0, size.width, size.height};
  require_inside(window, size);

  bool interlaced = false;
  reader.guarded([&] {
    png_set_expand(png);  // palettes, and fewer than 8 bits
    png_set_strip_16(png);
    png_set_gray_to_rgb(png);
    png_set_strip_alpha(png);
    interlaced = png_set_interlace_handling(png) > 1;
    png_read_update_info(png, info);
  });
  check(png_get_rowbytes(png, info) == static_cast<size_t>(size.width) * 3, "PNG rows of ", png_get_rowbytes(png, info),
        " bytes for ", size.width, " pixels");

  // Passes of an interlaced picture add to what came before, everywhere.
  const int begin = interlaced ? 0 : window.y;
  const int end = interlaced ? size.height : window.y + window.height;
  PicturePart result{.picture = Picture(size.width, end - begin), .y = begin};
  Picture& picture = result.picture;
  std::vector<uint8_t> other(static_cast<size_t>(size.width) * 3);
  if (interlaced) std::ranges::fill(picture.rgb, uint8_t{0});
  reader.guarded([&] {
    const int passes = interlaced ? 7 : 1;
    for (int pass = 0; pass < passes; ++pass)
      for (int y = 0; y < size.height; ++y)
        png_read_row(png, y >= begin && y < end ? picture.row(y - begin) : other.data(), nullptr);
    png_read_end(png, nullptr);
  });
  return result;
}

std::string png_library() { return str("libpng ", png_get_libpng_ver(nullptr)); }

}  // namespace ct
