#include <algorithm>
#include <utility>

#include "base/paths.h"
#include "base/sha256.h"
#include "base/shell_word.h"
#include "base/utf8.h"
#include "data/folder_names.h"
#include "data/kinds.h"
#include "data/packed/packed_set.h"

namespace ct {
namespace fs = std::filesystem;
namespace {

std::string how_to_get(const fs::path& path) {
  const fs::path file = path.extension() == kPackedSuffix ? path : path / str("NAME", kPackedSuffix);
  return str("create one with: cifar-train data convert --from FOLDER --out ", shell_word(file.string()));
}

/// A file, or the only packed one in a folder.
std::optional<fs::path> find(const fs::path& path) {
  const PathKind kind = kind_of(path, ExitCode::data);
  if (kind == PathKind::file) return path.extension() == kPackedSuffix ? std::optional(path) : std::nullopt;
  if (kind != PathKind::folder) return std::nullopt;
  std::optional<fs::path> found;
  for (const std::string& name : list_folder(path)) {
    if (is_hidden_name(name) || fs::path(name).extension() != kPackedSuffix) continue;
    if (found)
      fail(ExitCode::data, path.string(), ": contains several packed files, such as ", found->filename().string(),
           " and ", printable(name), "; give one of them");
    found = path / name;
  }
  return found;
}

std::unique_ptr<DataSet> open(const DataSource& source, Split split, const OpenOptions& options) {
  return std::make_unique<PackedSet>(source.folder, split, options.pictures, options.on_corrupt);
}

/// Memory for labels alone: the file's pages are the system's, which takes them back.
DataSize size(const DataSource& source, const OpenOptions& options) {
  DataSize size{.spec = {.sample = options.pictures.shape(), .classes = 1000, .test_images = 50000, .direct = false},
                .bytes = 1331167 * static_cast<int64_t>(sizeof(uint16_t))};  // as ImageNet's
  if (source.folder.empty()) return size;
  const PackedFile file(source.folder);
  size.spec.classes = static_cast<int>(file.index().class_names.size());
  size.spec.test_images = static_cast<int64_t>(file.index().of(Split::test).size());
  size.bytes = static_cast<int64_t>(file.index().entries.size() * sizeof(uint16_t));
  return size;
}

/// The file may be larger than memory: a picture is compared right after its bytes were hashed.
std::vector<FileReport> read_all(const MappedFile& file, const PackedIndex& index, FileReport& report) {
  const std::span<const std::byte> bytes = file.bytes();
  std::vector<FileReport> damaged;
  Sha256 hash;
  uint64_t hashed = 0;
  const auto hash_to = [&](uint64_t end) {
    if (end > hashed) hash.update(bytes.data() + hashed, end - hashed);
    hashed = std::max(hashed, end);
  };
  for (const Split split : {Split::train, Split::test}) {
    const auto pictures = index.of(split);
    for (size_t i = 0; i < pictures.size(); ++i) {
      const PackedEntry picture = pictures[i];  // a copy: the file may be written over any moment
      hash_to(std::min<uint64_t>(picture.offset + picture.bytes, bytes.size()));
      if (std::string problem = packed_problem(bytes, picture); !problem.empty())
        damaged.push_back({.path = file.path() / index.name(split, static_cast<int64_t>(i)),
                           .bytes = picture.bytes,
                           .records = 1,
                           .problem = std::move(problem)});
    }
  }
  hash_to(bytes.size());
  report.sha256 = hash.hex();
  return damaged;
}

/// The file, and each of its pictures that is damaged.
std::vector<FileReport> verify(const fs::path& path, const OpenOptions&, Depth depth) {
  std::vector<FileReport> damaged;
  const FileReport whole = report_of(path, [&](FileReport& report) {
    const MappedFile file(path, MappedFile::Links::follow, ExitCode::data);
    report.bytes = file.bytes().size();
    PackedIndex index;
    report.problem = report_of(path, [&](FileReport&) { index = read_packed_index(file.bytes()); }).problem;
    report.records = static_cast<int64_t>(index.entries.size());
    if (depth == Depth::every_byte && report.problem.empty()) damaged = read_all(file, index, report);
    file.require_unchanged(ExitCode::data);
  });
  damaged.insert(damaged.begin(), whole);
  return damaged;
}

}  // namespace

DataKind packed_kind() {
  return {.key = "packed",
          .name = kPackedName,
          .folder = "*.ctpack",
          .suffix = kPackedSuffix,
          .pictures = true,
          .remedy = kPackedRemedy,
          .how_to_get = how_to_get,
          .find = find,
          .open = open,
          .size = size,
          .verified = "the index and the checksum of every picture are compared",
          .verify = verify};
}

}  // namespace ct
