#include "checkpoint/torch/zip.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace ct {
namespace {

constexpr uint32_t kEnd = 0x06054b50, kEnd64 = 0x06064b50, kLocator64 = 0x07064b50, kInDirectory = 0x02014b50,
                   kLocal = 0x04034b50;
constexpr size_t kEndBytes = 22, kEnd64Bytes = 56, kLocatorBytes = 20, kInDirectoryBytes = 46, kLocalBytes = 30;
constexpr size_t kLongestComment = 65535;

/// Numbers at places of the archive, which are checked.
class Reader {
 public:
  Reader(std::span<const std::byte> file, const Path& path) : file_(file), path_(path) {}

  template <class T>
  T at(uint64_t place) const {
    T value;
    std::memcpy(&value, part(place, sizeof value).data(), sizeof value);  // zip is little-endian, and so are we
    return value;
  }
  std::span<const std::byte> part(uint64_t begin, uint64_t bytes) const {
    if (begin > file_.size() || bytes > file_.size() - begin) fail("it is cut off or damaged");
    return file_.subspan(begin, bytes);
  }
  std::string_view text(uint64_t begin, uint64_t bytes) const {
    const auto from = part(begin, bytes);
    return {reinterpret_cast<const char*>(from.data()), from.size()};
  }
  size_t size() const { return file_.size(); }
  [[noreturn]] void fail(const std::string& why) const {
    ct::fail(ExitCode::checkpoint, in_quotes(path_.native()), ": ", why, "; use another copy of it");
  }

 private:
  std::span<const std::byte> file_;
  const Path& path_;
};

struct Directory {
  uint64_t begin, entries;
};

Directory directory_of(const Reader& file) {
  if (file.size() < kEndBytes) file.fail("it is cut off or damaged");
  uint64_t end = file.size() - kEndBytes;
  const uint64_t least = end > kLongestComment ? end - kLongestComment : 0;
  while (file.at<uint32_t>(end) != kEnd) {
    if (end == least) file.fail("the zip archive has no directory: it is cut off or damaged");
    --end;
  }
  Directory directory{file.at<uint32_t>(end + 16), file.at<uint16_t>(end + 10)};
  if (end >= kLocatorBytes && file.at<uint32_t>(end - kLocatorBytes) == kLocator64) {
    const auto end64 = file.at<uint64_t>(end - kLocatorBytes + 8);
    if (file.part(end64, kEnd64Bytes).empty() || file.at<uint32_t>(end64) != kEnd64)
      file.fail("the zip archive's directory is damaged");
    directory = {file.at<uint64_t>(end64 + 48), file.at<uint64_t>(end64 + 32)};
  }
  return directory;
}

/// Replaces numbers that do not fit into 32 bits by those of the field for ZIP64, which has them in this order.
void take_zip64(const Reader& file, uint64_t extra, uint64_t bytes, std::span<uint64_t* const> numbers) {
  constexpr uint16_t kZip64 = 1;
  constexpr uint64_t kHeader = 4;
  for (uint64_t at = extra, end = extra + bytes; at + kHeader <= end;) {
    const auto kind = file.at<uint16_t>(at), size = file.at<uint16_t>(at + 2);
    if (kind == kZip64) {
      uint64_t from = at + kHeader;
      for (uint64_t* number : numbers) {
        if (*number != UINT32_MAX) continue;
        if (from + sizeof *number > at + kHeader + size) file.fail("the zip archive's directory is damaged");
        *number = file.at<uint64_t>(from);
        from += sizeof *number;
      }
      return;
    }
    at += kHeader + size;
  }
}

}  // namespace

std::vector<ZipEntry> stored_entries(std::span<const std::byte> archive, const Path& path) {
  const Reader file(archive, path);
  const Directory directory = directory_of(file);
  if (directory.entries > archive.size() / kInDirectoryBytes) file.fail("the zip archive's directory is damaged");
  std::vector<ZipEntry> entries;
  uint64_t at = directory.begin;
  for (uint64_t i = 0; i < directory.entries; ++i) {
    if (file.at<uint32_t>(at) != kInDirectory) file.fail("the zip archive's directory is damaged");
    const auto flags = file.at<uint16_t>(at + 8), method = file.at<uint16_t>(at + 10);
    uint64_t packed = file.at<uint32_t>(at + 20), bytes = file.at<uint32_t>(at + 24),
             local = file.at<uint32_t>(at + 42);
    const auto name_bytes = file.at<uint16_t>(at + 28), extra = file.at<uint16_t>(at + 30),
               comment = file.at<uint16_t>(at + 32);
    const std::string_view name = file.text(at + kInDirectoryBytes, name_bytes);
    uint64_t* const numbers[] = {&bytes, &packed, &local};
    take_zip64(file, at + kInDirectoryBytes + name_bytes, extra, numbers);
    at += kInDirectoryBytes + name_bytes + extra + comment;
    if ((flags & 1) != 0 || method != 0)
      file.fail(str(in_quotes(name), " in the zip archive is ", (flags & 1) != 0 ? "encrypted" : "compressed",
                    ", which torch.save() never does"));
    if (packed != bytes || file.at<uint32_t>(local) != kLocal) file.fail("the zip archive's directory is damaged");
    const uint64_t data = local + kLocalBytes + file.at<uint16_t>(local + 26) + uint64_t{file.at<uint16_t>(local + 28)};
    entries.push_back({name, file.part(data, bytes)});
  }
  return entries;
}

}  // namespace ct
