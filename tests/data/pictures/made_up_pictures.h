// Pictures to encode, and their files as libjpeg and libpng write them.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <vector>

// After <cstdio>, which it needs.
#include <jpeglib.h>
#include <png.h>

#include "base/random.h"
#include "data/pictures/picture.h"

namespace ct {

using FileBytes = std::vector<std::byte>;

/// Waves of several lengths, blocks with hard edges, and a little noise: what interpolation and transforms can get
/// wrong.
inline Picture made_up_picture(int width, int height, uint64_t seed = 1) {
  Picture picture(width, height);
  Random random(seed, Purpose::synthetic);
  const int wave = 7 + static_cast<int>(random.below(20)), block = 5 + static_cast<int>(random.below(11));
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x)
      for (int c = 0; c < 3; ++c) {
        const int smooth = (x * (c + 1) + y * (3 - c)) * 255 / (wave * 8) % 511;
        const int edge = (x / block + y / (block + c)) % 2 * 60;
        const int level = std::abs(smooth - 255) * 3 / 4 + edge + static_cast<int>(random.below(8)) - 4;
        picture.row(y)[3 * x + c] = static_cast<uint8_t>(std::min(std::max(level, 0), 255));
      }
  return picture;
}

struct JpegOptions {
  int quality = 90;
  int components = 3;                // 1: the red is taken as grey; 4: inks, inverted as Adobe writes them
  bool ycck = false;                 // of inks
  int horizontal = 2, vertical = 2;  // brightness samples for each of colour
  bool progressive = false;
  int restart = 0;  // blocks between markers from which decoding could go on
};

inline FileBytes jpeg_file(const Picture& picture, const JpegOptions& options = {}) {
  jpeg_compress_struct c{};
  jpeg_error_mgr errors;
  c.err = jpeg_std_error(&errors);
  jpeg_create_compress(&c);
  unsigned char* data = nullptr;
  unsigned long bytes = 0;
  jpeg_mem_dest(&c, &data, &bytes);
  c.image_width = static_cast<JDIMENSION>(picture.width);
  c.image_height = static_cast<JDIMENSION>(picture.height);
  c.input_components = options.components;
  c.in_color_space = options.components == 1 ? JCS_GRAYSCALE : options.components == 3 ? JCS_RGB : JCS_CMYK;
  jpeg_set_defaults(&c);
  if (options.ycck) jpeg_set_colorspace(&c, JCS_YCCK);
  jpeg_set_quality(&c, options.quality, TRUE);
  if (options.components == 3 || options.ycck) {
    c.comp_info[0].h_samp_factor = options.horizontal;
    c.comp_info[0].v_samp_factor = options.vertical;
    if (options.ycck)
      c.comp_info[3].h_samp_factor = options.horizontal, c.comp_info[3].v_samp_factor = options.vertical;
  }
  c.restart_interval = static_cast<unsigned>(options.restart);
  if (options.progressive) jpeg_simple_progression(&c);
  jpeg_start_compress(&c, TRUE);
  std::vector<uint8_t> row(static_cast<size_t>(picture.width) * static_cast<size_t>(options.components));
  for (int y = 0; y < picture.height; ++y) {
    for (int x = 0; x < picture.width; ++x) {
      const uint8_t* const from = picture.row(y) + 3 * x;
      uint8_t* const to = row.data() + x * options.components;
      for (int k = 0; k < options.components; ++k) to[k] = k < 3 ? from[k] : static_cast<uint8_t>(255 - from[1] / 3);
    }
    JSAMPROW rows = row.data();
    jpeg_write_scanlines(&c, &rows, 1);
  }
  jpeg_finish_compress(&c);
  jpeg_destroy_compress(&c);
  FileBytes file(bytes);
  std::memcpy(file.data(), data, bytes);
  std::free(data);
  return file;
}

struct PngOptions {
  int type = PNG_COLOR_TYPE_RGB;
  int bits = 8;
  bool interlaced = false;
  std::vector<png_color> palette = {};
  bool transparent = false;  // of a palette or grey: a tRNS chunk
};

/// `rows` as PNG stores them: samples of 16 bits begin with the high byte, those of fewer than 8 are packed.
inline FileBytes png_file(int width, int height, std::vector<std::vector<uint8_t>> rows, const PngOptions& options) {
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  FileBytes file;
  png_set_write_fn(
      png, &file,
      [](png_structp writer, png_bytep data, size_t bytes) {
        auto& to = *static_cast<FileBytes*>(png_get_io_ptr(writer));
        to.insert(to.end(), reinterpret_cast<std::byte*>(data), reinterpret_cast<std::byte*>(data) + bytes);
      },
      nullptr);
  png_set_IHDR(png, info, static_cast<unsigned>(width), static_cast<unsigned>(height), options.bits, options.type,
               options.interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
               PNG_FILTER_TYPE_DEFAULT);
  if (!options.palette.empty())
    png_set_PLTE(png, info, options.palette.data(), static_cast<int>(options.palette.size()));
  png_byte alpha[2] = {0, 128};
  png_color_16 clear{};
  if (options.transparent) png_set_tRNS(png, info, alpha, options.palette.empty() ? 0 : 2, &clear);
  std::vector<png_bytep> pointers;
  for (auto& row : rows) pointers.push_back(row.data());
  png_set_rows(png, info, pointers.data());
  png_write_png(png, info, PNG_TRANSFORM_IDENTITY, nullptr);
  png_destroy_write_struct(&png, &info);
  return file;
}

inline FileBytes png_file(const Picture& picture, bool interlaced = false) {
  std::vector<std::vector<uint8_t>> rows;
  for (int y = 0; y < picture.height; ++y) rows.emplace_back(picture.row(y), picture.row(y) + 3 * picture.width);
  return png_file(picture.width, picture.height, std::move(rows), {.interlaced = interlaced});
}

}  // namespace ct
