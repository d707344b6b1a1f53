#include "data/pictures/encode.h"

#include <jpeglib.h>
#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstdio>  // jpeglib.h needs it before
#include <cstdlib>

#include "base/error.h"

namespace ct {
namespace {

/// libjpeg leaves through this when something is wrong; its text is kept.
struct JpegError {
  jpeg_error_mgr manager;  // first: libjpeg's pointer to it is one to all
  std::jmp_buf leave;
  char text[JMSG_LENGTH_MAX];
};

[[noreturn]] void leave(j_common_ptr compress) {
  auto* const error = reinterpret_cast<JpegError*>(compress->err);
  error->manager.format_message(compress, error->text);
  std::longjmp(error->leave, 1);
}

/// C's way, without objects that longjmp would leave behind. False: `error` says why.
bool write_jpeg(const Picture& picture, int quality, JpegError& error, unsigned char*& bytes, unsigned long& count) {
  jpeg_compress_struct compress;
  compress.err = jpeg_std_error(&error.manager);
  error.manager.error_exit = leave;
  error.manager.output_message = [](j_common_ptr) {};
  jpeg_create_compress(&compress);
  if (setjmp(error.leave) != 0) {
    jpeg_destroy_compress(&compress);
    return false;
  }
  jpeg_mem_dest(&compress, &bytes, &count);
  compress.image_width = static_cast<JDIMENSION>(picture.width);
  compress.image_height = static_cast<JDIMENSION>(picture.height);
  compress.input_components = 3;
  compress.in_color_space = JCS_RGB;
  jpeg_set_defaults(&compress);
  jpeg_set_quality(&compress, quality, TRUE);
  jpeg_start_compress(&compress, TRUE);
  while (compress.next_scanline < compress.image_height) {
    JSAMPROW row = const_cast<JSAMPROW>(picture.row(static_cast<int>(compress.next_scanline)));
    jpeg_write_scanlines(&compress, &row, 1);
  }
  jpeg_finish_compress(&compress);
  jpeg_destroy_compress(&compress);
  return true;
}

}  // namespace

std::vector<std::byte> encode_jpeg(const Picture& picture, int quality) {
  if (std::min(picture.width, picture.height) < 1 || std::max(picture.width, picture.height) > kLongestJpeg)
    fail(ExitCode::data, "a picture of ", picture.width, "x", picture.height,
         " cannot become a JPEG, whose sides have 1 to ", kLongestJpeg, " pixels");
  JpegError error;
  unsigned char* bytes = nullptr;  // libjpeg's, from malloc
  unsigned long count = 0;
  const bool written = write_jpeg(picture, quality, error, bytes, count);
  // Only memory can fail now. What `bytes` says is then left alone: libjpeg may have freed it already.
  if (!written)
    fail(ExitCode::memory, "a picture of ", picture.width, "x", picture.height,
         " cannot be encoded as JPEG: ", error.text);
  std::vector<std::byte> file(reinterpret_cast<std::byte*>(bytes), reinterpret_cast<std::byte*>(bytes) + count);
  std::free(bytes);
  return file;
}

std::vector<std::byte> encode_png(std::span<const uint8_t> planar, int channels, int width, int height) {
  const size_t plane = static_cast<size_t>(width) * static_cast<size_t>(height);
  check((channels == 1 || channels == 3) && planar.size() == plane * static_cast<size_t>(channels), "a PNG of ",
        channels, " channels from ", planar.size(), " bytes");
  std::vector<uint8_t> pixels(planar.begin(), planar.end());
  if (channels == 3)
    for (size_t i = 0; i < plane; ++i)
      for (size_t c = 0; c < 3; ++c) pixels[3 * i + c] = planar[c * plane + i];
  png_image image{.version = PNG_IMAGE_VERSION,
                  .width = static_cast<png_uint_32>(width),
                  .height = static_cast<png_uint_32>(height),
                  .format = channels == 3 ? png_uint_32{PNG_FORMAT_RGB} : png_uint_32{PNG_FORMAT_GRAY}};
  png_alloc_size_t bytes = PNG_IMAGE_PNG_SIZE_MAX(image);
  std::vector<std::byte> file(bytes);
  const int written = png_image_write_to_memory(&image, file.data(), &bytes, /*convert_to_8_bit=*/0, pixels.data(),
                                                /*row_stride=*/0, /*colormap=*/nullptr);
  if (written == 0)
    fail(ExitCode::data, "a picture of ", width, "x", height, " cannot be encoded as PNG: ", image.message);
  file.resize(bytes);
  return file;
}

}  // namespace ct
