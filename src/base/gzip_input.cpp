#include "base/gzip_input.h"

#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>

#include "base/files.h"
#include "base/input.h"

namespace ct {

struct GzipInput::Stream {
  gzFile file = nullptr;
  ~Stream() { gzclose_r(file); }
};

GzipInput::GzipInput(const std::filesystem::path& path, uint64_t limit, ExitCode code)
    : path_(path), limit_(limit), code_(code) {
  const int fd = Input(path, code).release();
  const gzFile file = gzdopen(fd, "r");
  if (file == nullptr) {
    ::close(fd);
    fail_io("open", path, ENOMEM, code);
  }
  stream_ = std::make_unique<Stream>(file);
  gzbuffer(file, 1 << 17);
}

GzipInput::~GzipInput() = default;

void GzipInput::fail_file(const std::string& problem) const { fail(code_, path_.string(), ": ", problem); }

size_t GzipInput::read(std::span<std::byte> to) {
  constexpr size_t kMost = size_t{1} << 20;
  const int n = gzread(stream_->file, to.data(), static_cast<unsigned>(std::min(to.size(), kMost)));
  int error = Z_OK;
  const char* const why = gzerror(stream_->file, &error);
  if (error == Z_BUF_ERROR) fail_file("ends too early: the file is truncated");
  if (n < 0 || (error != Z_OK && error != Z_STREAM_END))
    fail_file(str(error == Z_ERRNO ? "cannot be read: " : "damaged: ", why));
  read_ += static_cast<uint64_t>(n);
  if (read_ > limit_) fail_file(str("unpacks to more than ", limit_, " bytes"));
  return static_cast<size_t>(n);
}

}  // namespace ct
