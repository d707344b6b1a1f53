#include "base/tar_reader.h"

#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>
#include <utility>

#include "base/files.h"
#include "base/input.h"

namespace ct {
namespace {

// A header fills a block: fields at fixed places, numbers as octal text.
constexpr size_t kBlock = 512;
struct Field {
  size_t at, bytes;
};
constexpr Field kName = {0, 100}, kSize = {124, 12}, kChecksum = {148, 8}, kType = {156, 1}, kMagic = {257, 5},
                kPrefix = {345, 155};
using Header = std::array<std::byte, kBlock>;

std::string_view text(const Header& header, Field field) {
  const std::string_view all(reinterpret_cast<const char*>(header.data()) + field.at, field.bytes);
  return all.substr(0, all.find('\0'));
}

/// Nothing where it is no number.
std::optional<uint64_t> octal(const Header& header, Field field) {
  std::string_view digits = text(header, field);
  while (!digits.empty() && digits.front() == ' ') digits.remove_prefix(1);
  while (!digits.empty() && digits.back() == ' ') digits.remove_suffix(1);
  uint64_t number = 0;
  for (const char digit : digits) {
    if (digit < '0' || digit > '7') return std::nullopt;
    number = number << 3 | static_cast<uint64_t>(digit - '0');  // 12 digits at most
  }
  return digits.empty() ? std::nullopt : std::optional(number);
}

/// The sum of all bytes, those of the checksum itself counting as spaces.
uint64_t checksum(const Header& header) {
  uint64_t sum = 0;
  for (size_t i = 0; i < kBlock; ++i)
    sum += i - kChecksum.at < kChecksum.bytes ? uint64_t{' '} : std::to_integer<uint64_t>(header[i]);
  return sum;
}

}  // namespace

struct TarReader::Stream {
  gzFile file = nullptr;
  ~Stream() { gzclose_r(file); }
};

TarReader::TarReader(const std::filesystem::path& path, uint64_t limit, ExitCode code)
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

TarReader::~TarReader() = default;

void TarReader::fail_archive(const std::string& problem) const { fail(code_, path_.string(), ": ", problem); }

void TarReader::read(std::byte* to, size_t bytes) {
  if (bytes > limit_ - read_) fail_archive(str("unpacks to more than ", limit_, " bytes"));
  while (bytes > 0) {
    const size_t n = read_some({to, bytes});
    if (n == 0) fail_archive("ends too early: the archive is truncated");
    to += n;
    bytes -= n;
  }
}

/// As many bytes as come next, at most the span's; 0 at the end.
size_t TarReader::read_some(std::span<std::byte> to) {
  constexpr size_t kMost = size_t{1} << 20;
  const int n = gzread(stream_->file, to.data(), static_cast<unsigned>(std::min(to.size(), kMost)));
  int error = Z_OK;
  const char* const why = gzerror(stream_->file, &error);
  if (error == Z_BUF_ERROR) fail_archive("ends too early: the archive is truncated");
  if (n < 0 || (error != Z_OK && error != Z_STREAM_END))
    fail_archive(str(error == Z_ERRNO ? "cannot be read: " : "damaged: ", why));
  read_ += static_cast<uint64_t>(n);
  return static_cast<size_t>(n);
}

/// What lies behind the last member is of no interest, but with it comes the checksum of all.
void TarReader::read_to_end() {
  std::array<std::byte, 1 << 16> thrown_away;
  while (read_some(thrown_away) > 0)
    if (read_ > limit_) fail_archive(str("unpacks to more than ", limit_, " bytes"));
}

void TarReader::skip(uint64_t bytes) {
  std::array<std::byte, 1 << 16> thrown_away;
  while (bytes > 0) {
    const auto part = static_cast<size_t>(std::min<uint64_t>(bytes, thrown_away.size()));
    read(thrown_away.data(), part);
    bytes -= part;
  }
}

std::optional<TarReader::Member> TarReader::next() {
  for (;;) {
    skip(std::exchange(left_, 0));
    skip(std::exchange(padding_, 0));
    Header header;
    read(header.data(), kBlock);
    if (std::ranges::all_of(header, [](std::byte b) { return b == std::byte{0}; })) {
      read_to_end();
      return std::nullopt;
    }
    const auto size = octal(header, kSize);
    if (!size || text(header, kMagic) != "ustar" || octal(header, kChecksum) != checksum(header))
      fail_archive(
          str("not a tar archive, or damaged: there is no header at byte ", read_ - kBlock, " of the unpacked data"));
    left_ = *size;
    padding_ = (kBlock - left_ % kBlock) % kBlock;
    const std::string_view type = text(header, kType), prefix = text(header, kPrefix);
    if (!type.empty() && type != "0") continue;  // a folder, a link, a long name
    std::string name(text(header, kName));
    if (!prefix.empty()) name = str(prefix, "/", name);
    return Member{.name = std::move(name), .bytes = left_};
  }
}

std::vector<std::byte> TarReader::content() {
  if (left_ > limit_ - read_) fail_archive(str("unpacks to more than ", limit_, " bytes"));
  std::vector<std::byte> bytes(static_cast<size_t>(left_));
  read(bytes.data(), bytes.size());
  left_ = 0;
  return bytes;
}

}  // namespace ct
