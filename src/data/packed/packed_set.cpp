#include "data/packed/packed_set.h"

#include <array>

#include "base/crc32c.h"
#include "base/utf8.h"
#include "base/wrong_download.h"

namespace ct {
namespace fs = std::filesystem;

PackedFile::PackedFile(const fs::path& path) : file_(path, MappedFile::Links::follow, ExitCode::data) {
  try {
    index_ = read_packed_index(file_.bytes());
  } catch (const Error& error) {
    file_.require_unchanged(ExitCode::data);  // what was cut just now says more by itself
    fail(error.code(), path.string(), ": ", with_remedy(error.what(), kPackedRemedy));
  }
}

PackedSet::PackedSet(const fs::path& path, Split split, const PictureTransform& transform, OnCorrupt on_corrupt)
    : PictureSet(std::string(kPackedName), transform, on_corrupt),
      packed_(path),
      split_(split),
      pictures_(packed_.index().of(split)) {
  class_names_ = packed_.index().class_names;
  labels_.reserve(pictures_.size());
  for (const PackedEntry& picture : pictures_) labels_.push_back(static_cast<uint16_t>(picture.label));
  check_unchanged();
}

uint32_t PackedSet::fingerprint() const {
  uint32_t crc = 0;
  const auto add = [&crc](std::span<const std::byte> bytes) { crc = crc32c(bytes, crc); };
  for (const std::string& name : class_names_) add(std::as_bytes(std::span(name.c_str(), name.size() + 1)));
  for (const PackedEntry& picture : pictures_) {
    const std::array<uint32_t, 2> numbers = {picture.crc, picture.label};
    add(std::as_bytes(std::span(numbers)));
  }
  return crc;
}

std::span<const std::byte> PackedSet::bytes(int64_t i, std::vector<std::byte>&) const {
  const PackedEntry picture = pictures_[static_cast<size_t>(i)];  // a copy: the file may be written over any moment
  if (const std::string problem = packed_.problem(picture); !problem.empty()) {
    check_unchanged();  // a file that was written over is no damaged one
    fail(ExitCode::data, problem);
  }
  return packed_.bytes(picture);
}

std::string PackedSet::picture_name(int64_t i) const {
  return str(packed_.file().path().string(), ": ", printable(packed_.index().name(split_, i)));
}

void PackedSet::prefetch(std::span<const uint32_t> next, std::span<const uint32_t>) const {
  for (const uint32_t i : next) packed_.file().read_ahead(packed_.bytes(PackedEntry(pictures_[i])));
}

}  // namespace ct
