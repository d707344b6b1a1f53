#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <vector>

#include "data/pictures/codecs.h"

// After <cstdio>, which they need.
#include <jerror.h>
#include <jpeglib.h>

#include "base/error.h"

namespace ct {
namespace {

/// A reader of one file. libjpeg reports errors by a jump over its own frames: every call of it goes through guarded(),
/// whose body owns nothing.
class Jpeg {
 public:
  explicit Jpeg(std::span<const std::byte> file) {
    d.err = jpeg_std_error(&errors_);
    d.client_data = this;
    errors_.error_exit = [](j_common_ptr reader) { of(reader).leave(); };
    errors_.emit_message = [](j_common_ptr reader, int level) { of(reader).warn(level); };
    guarded([&] { jpeg_create_decompress(&d); });
    source_.next_input_byte = reinterpret_cast<const JOCTET*>(file.data());
    source_.bytes_in_buffer = file.size();
    source_.init_source = [](j_decompress_ptr) {};
    source_.term_source = [](j_decompress_ptr) {};
    source_.resync_to_restart = jpeg_resync_to_restart;
    source_.fill_input_buffer = [](j_decompress_ptr reader) -> boolean { of(reader).end_too_early(); };
    source_.skip_input_data = [](j_decompress_ptr reader, long bytes) {
      jpeg_source_mgr& source = *reader->src;
      if (bytes <= 0) return;
      if (static_cast<size_t>(bytes) > source.bytes_in_buffer) of(reader).end_too_early();
      source.next_input_byte += bytes;
      source.bytes_in_buffer -= static_cast<size_t>(bytes);
    };
    d.src = &source_;
    progress_.progress_monitor = [](j_common_ptr reader) { of(reader).count_scans(); };
    d.progress = &progress_;
  }
  ~Jpeg() { jpeg_destroy_decompress(&d); }
  Jpeg(const Jpeg&) = delete;
  Jpeg& operator=(const Jpeg&) = delete;

  template <class Body>
  void guarded(Body body) {
    if (setjmp(failed_) != 0) fail(out_of_memory_ ? ExitCode::memory : ExitCode::data, message_);
    body();
  }

  PictureSize read_header() {
    guarded([&] { jpeg_read_header(&d, TRUE); });
    return size();
  }
  PictureSize size() const { return {static_cast<int>(d.image_width), static_cast<int>(d.image_height)}; }

  /// Windows are decoded without a look at what follows them; the end of the picture tells a file that was cut.
  void require_end() {
    const uint8_t* const data = source_.next_input_byte;
    for (size_t end = source_.bytes_in_buffer; end > 1;) {
      const void* const found = memrchr(data + 1, JPEG_EOI, end - 1);
      if (found == nullptr) break;
      end = static_cast<size_t>(static_cast<const uint8_t*>(found) - data);
      if (data[end - 1] == 0xff) return;
    }
    fail(ExitCode::data, kEndsTooEarly);
  }

  jpeg_decompress_struct d{};

 private:
  template <class Reader>
  static Jpeg& of(Reader* reader) {
    return *static_cast<Jpeg*>(reader->client_data);
  }

  [[noreturn]] void leave() {
    char text[JMSG_LENGTH_MAX];
    errors_.format_message(reinterpret_cast<j_common_ptr>(&d), text);
    out_of_memory_ = errors_.msg_code == JERR_OUT_OF_MEMORY;
    std::snprintf(message_, sizeof message_, "a JPEG file that cannot be decoded: %s", text);
    std::longjmp(failed_, 1);
  }
  [[noreturn]] void end_too_early() {
    std::snprintf(message_, sizeof message_, "%s", kEndsTooEarly);
    std::longjmp(failed_, 1);
  }
  /// Pixels made up in place of damaged ones are refused. What is odd but costs no pixel is found in good pictures too.
  void warn(int level) {
    if (level >= 0) return;
    switch (errors_.msg_code) {
      case JWRN_ADOBE_XFORM:
      case JWRN_BOGUS_PROGRESSION:
      case JWRN_EXTRANEOUS_DATA:
      case JWRN_JFIF_MAJOR:
      case JWRN_NOT_SEQUENTIAL:
        break;
      default:
        leave();
    }
  }
  void count_scans() {
    const int most = most_jpeg_scans(size());
    if (d.input_scan_number <= most) return;
    std::snprintf(message_, sizeof message_,
                  "a JPEG file of more than %d scans, the limit for a picture of %dx%d pixels", most, size().width,
                  size().height);
    std::longjmp(failed_, 1);
  }

  jpeg_error_mgr errors_{};
  jpeg_source_mgr source_{};
  jpeg_progress_mgr progress_{};
  std::jmp_buf failed_;
  char message_[JMSG_LENGTH_MAX + 64];
  bool out_of_memory_ = false;
};

/// The fewest eighths of the resolution that are enough. Only halves have vector code in libjpeg-turbo: others would
/// cost more than they save.
int enough_eighths(const Window& window, const Wanted& wanted) {
  if (wanted.exact) return 8;
  for (const int eighths : {1, 2, 4})
    if (int64_t{window.width} * eighths >= int64_t{wanted.size.width} * 8 &&
        int64_t{window.height} * eighths >= int64_t{wanted.size.height} * 8)
      return eighths;
  return 8;
}

/// Pixels of one side of a window at a scale, with what interpolated colours need beside them.
struct Range {
  int begin, end;
};
Range scaled_range(int at, int length, int eighths, unsigned whole) {
  constexpr int kMargin = 4;  // two colour samples
  const int64_t begin = int64_t{at} * eighths / 8, end = (int64_t{at + length} * eighths + 7) / 8;
  return {static_cast<int>(std::max<int64_t>(begin - kMargin, 0)),
          static_cast<int>(std::min<int64_t>(end + kMargin, whole))};
}

/// What inks leave of white paper, by Pillow's rounding; `cmyk` is inverted, so 255 is no ink.
void cmyk_to_rgb(const uint8_t* cmyk, int pixels, uint8_t* rgb) {
  for (int i = 0; i < pixels; ++i, cmyk += 4, rgb += 3) {
    const int white = cmyk[3];
    for (int c = 0; c < 3; ++c) {
      const int product = (255 - cmyk[c]) * white + 128;
      rgb[c] = static_cast<uint8_t>(white - ((product >> 8) + product) / 256);
    }
  }
}

}  // namespace

int most_jpeg_scans(PictureSize size) {
  constexpr int64_t kPixels = 2'000'000'000, kFewest = 20, kMost = 200;  // of all scans: a few seconds
  const int64_t pixels = std::max<int64_t>(1, int64_t{size.width} * size.height);
  return static_cast<int>(std::clamp(kPixels / pixels, kFewest, kMost));
}

PicturePart decode_jpeg(std::span<const std::byte> file, const ChooseWindow& window, const Wanted& wanted,
                        const DecodeOptions& options) {
  Jpeg jpeg(file);
  jpeg_decompress_struct& d = jpeg.d;
  const PictureSize size = jpeg.read_header();
  require_allowed(size, options);
  const Window part = window ? window(size) : Window{0, 0, size.width, size.height};
  require_inside(part, size);
  jpeg.require_end();

  const bool inks = d.num_components == 4;
  const int eighths = window ? enough_eighths(part, wanted) : 8;
  d.out_color_space = inks ? JCS_CMYK : JCS_RGB;
  d.dct_method = JDCT_ISLOW;
  d.scale_num = static_cast<unsigned>(eighths);
  d.scale_denom = 8;
  // Coefficients of a progressive picture: two bytes of each of at most four components.
  d.mem->max_memory_to_use = (64 << 20) + 8l * size.width * size.height;
  jpeg.guarded([&] { jpeg_start_decompress(&d); });

  const Range columns = scaled_range(part.x, part.width, eighths, d.output_width);
  const Range rows = scaled_range(part.y, part.height, eighths, d.output_height);
  JDIMENSION x = static_cast<JDIMENSION>(columns.begin), width = static_cast<JDIMENSION>(columns.end - columns.begin);
  jpeg.guarded([&] { jpeg_crop_scanline(&d, &x, &width); });  // begins and ends where blocks do

  PicturePart result{.picture = Picture(static_cast<int>(width), rows.end - rows.begin),
                     .x = static_cast<int>(x),
                     .y = rows.begin,
                     .scale = eighths / 8.0};
  Picture& picture = result.picture;
  std::vector<uint8_t> row(inks ? size_t{width} * 4 : 0);
  jpeg.guarded([&] {
    if (rows.begin > 0) jpeg_skip_scanlines(&d, static_cast<JDIMENSION>(rows.begin));
    constexpr int kAtOnce = 4;
    JSAMPROW to[kAtOnce];
    for (int y = 0; y < picture.height;) {
      const int most = inks ? 1 : std::min(kAtOnce, picture.height - y);
      for (int i = 0; i < most; ++i) to[i] = inks ? row.data() : picture.row(y + i);
      const auto read = static_cast<int>(jpeg_read_scanlines(&d, to, static_cast<JDIMENSION>(most)));
      if (inks) cmyk_to_rgb(row.data(), picture.width, picture.row(y));
      y += read;
    }
  });
  return result;
}

std::string jpeg_library() {
  constexpr int kVersion = LIBJPEG_TURBO_VERSION_NUMBER;  // 2001005; the library itself tells no version
  return str("libjpeg-turbo ", kVersion / 1000000, ".", kVersion / 1000 % 1000, ".", kVersion % 1000);
}

}  // namespace ct
