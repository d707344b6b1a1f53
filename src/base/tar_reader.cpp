#include "base/tar_reader.h"

#include <archive.h>
#include <archive_entry.h>

#include <array>
#include <cerrno>
#include <exception>

#include "base/gzip_input.h"

namespace ct {

/// zlib unpacks, because it compares gzip's checksum, which libarchive does not.
struct TarReader::Stream {
  Stream(const std::filesystem::path& path, uint64_t limit, ExitCode code)
      : input(path, limit, code), tar(archive_read_new(), &archive_read_free) {
    check(tar != nullptr, "libarchive has no reader");
    archive_read_support_format_tar(tar.get());
    if (archive_read_open(tar.get(), this, nullptr, &Stream::read, nullptr) != ARCHIVE_OK) fail_tar();
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  static la_ssize_t read(archive* tar, void* stream, const void** bytes) {
    Stream& self = *static_cast<Stream*>(stream);
    *bytes = self.block.data();
    try {
      return static_cast<la_ssize_t>(self.input.read(self.block));
    } catch (...) {  // must not pass through libarchive
      self.fault = std::current_exception();
      archive_set_error(tar, EIO, "cannot be read");
      return -1;
    }
  }

  [[noreturn]] void fail_tar() {
    if (fault) std::rethrow_exception(fault);
    const char* const why = archive_error_string(tar.get());
    input.fail_file(str("not a tar archive, or damaged or truncated: ", why != nullptr ? why : "no reason given"));
  }

  GzipInput input;
  std::unique_ptr<archive, decltype(&archive_read_free)> tar;
  std::array<std::byte, 1 << 16> block;
  std::exception_ptr fault;
};

TarReader::TarReader(const std::filesystem::path& path, uint64_t limit, ExitCode code)
    : stream_(std::make_unique<Stream>(path, limit, code)), limit_(limit) {}

TarReader::~TarReader() = default;

std::optional<TarReader::Member> TarReader::next() {
  for (;;) {
    archive_entry* entry = nullptr;
    const int result = archive_read_next_header(stream_->tar.get(), &entry);
    if (result == ARCHIVE_EOF) {
      // What lies behind the last member is of no interest, but with it comes the checksum of all.
      while (stream_->input.read(stream_->block) > 0) {
      }
      return std::nullopt;
    }
    if (result != ARCHIVE_OK && result != ARCHIVE_WARN) stream_->fail_tar();
    if (archive_entry_filetype(entry) != AE_IFREG || archive_entry_hardlink(entry) != nullptr) continue;
    const char* const name = archive_entry_pathname(entry);
    size_ = static_cast<uint64_t>(archive_entry_size(entry));
    return Member{.name = name != nullptr ? name : "", .bytes = size_};
  }
}

std::vector<std::byte> TarReader::content() {
  if (size_ > limit_) stream_->input.fail_file(str("unpacks to more than ", limit_, " bytes"));
  std::vector<std::byte> bytes(static_cast<size_t>(size_));
  size_t done = 0;
  while (done < bytes.size()) {
    const la_ssize_t n = archive_read_data(stream_->tar.get(), bytes.data() + done, bytes.size() - done);
    if (n < 0 || n == 0) stream_->fail_tar();
    done += static_cast<size_t>(n);
  }
  return bytes;
}

std::string tar_library() { return archive_version_string(); }

}  // namespace ct
