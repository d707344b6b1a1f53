// Tar archives for tests.
#pragma once

#include <zlib.h>

#include <cstdio>
#include <string>

namespace ct {

/// Header, content and padding of a member; type '0' is a regular file, '2' a link, '5' a folder.
inline std::string tar_member(const std::string& name, const std::string& content, char type = '0') {
  std::string header(512, '\0');
  const auto put = [&](size_t at, const std::string& text) { header.replace(at, text.size(), text); };
  const auto octal = [](size_t number, int digits) {
    char text[16];
    std::snprintf(text, sizeof text, "%0*zo", digits, number);
    return std::string(text);
  };
  put(0, name);
  put(100, "0000644");
  put(124, octal(content.size(), 11));
  put(156, std::string(1, type));
  put(257, std::string("ustar\00000", 8));
  put(148, std::string(8, ' '));
  size_t sum = 0;
  for (const unsigned char byte : header) sum += byte;
  put(148, octal(sum, 6) + std::string("\0 ", 2));
  return header + content + std::string((512 - content.size() % 512) % 512, '\0');
}

inline std::string gzipped(const std::string& bytes, int level = 1) {
  z_stream stream{};
  deflateInit2(&stream, level, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

}  // namespace ct
