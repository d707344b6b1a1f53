#include "data/cifar/python/python_batches.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <vector>

#include "base/new_folder.h"
#include "base/paths.h"
#include "base/tar_reader.h"
#include "base/utf8.h"
#include "data/cifar/cifar_set.h"
#include "data/cifar/python/pickled_batch.h"

namespace ct {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kNames = "batches.meta";
constexpr uint64_t kMostUnpacked = uint64_t{1} << 30;  // of the whole archive, which has a fifth of that
constexpr uint64_t kMostOfOne = uint64_t{64} << 20;    // of one file, which has half of that
constexpr std::string_view kRemedy = "download cifar-10-python.tar.gz from https://www.cs.toronto.edu/~kriz/ again";

/// What each file becomes, by the name it has in the archive.
std::map<std::string, std::string> wanted_files() {
  std::map<std::string, std::string> wanted = {{std::string(kNames), "batches.meta.txt"}};
  for (const Split split : {Split::train, Split::test})
    for (const std::string& name : batch_files(split)) wanted[fs::path(name).stem().string()] = name;
  return wanted;
}

std::vector<std::byte> records_of(const PickledBatch& batch) {
  const size_t images = batch.labels.size();
  std::vector<std::byte> records(images * kRecordBytes);
  for (size_t i = 0; i < images; ++i) {
    std::byte* const record = records.data() + i * kRecordBytes;
    record[0] = std::byte{batch.labels[i]};
    if (batch.by_columns)
      for (size_t j = 0; j < kImageBytes; ++j) record[1 + j] = batch.pixels[j * images + i];
    else
      std::memcpy(record + 1, batch.pixels.data() + i * kImageBytes, kImageBytes);
  }
  return records;
}

/// What is written for a file of the archive.
std::vector<std::byte> converted(const std::string& name, std::span<const std::byte> pickle) {
  if (name != kNames) {
    const PickledBatch batch = read_pickled_batch(pickle);
    if (batch.labels.size() != static_cast<size_t>(kRecordsPerFile))
      fail(ExitCode::data, batch.labels.size(), " images, CIFAR-10 has ", kRecordsPerFile, " in each file");
    return records_of(batch);
  }
  std::string list;
  for (const std::string& class_name : read_pickled_names(pickle)) list += printable(class_name) + "\n";
  const auto bytes = std::as_bytes(std::span(list));
  return {bytes.begin(), bytes.end()};
}

using Take = std::function<void(const std::string& name, const fs::path& path, std::span<const std::byte> pickle)>;

/// Those of the archive's files that are wanted, out of the archive or of a folder that was unpacked from it.
void each_file(const fs::path& from, const std::map<std::string, std::string>& wanted, const Take& take) {
  if (is_folder(from, ExitCode::data)) {
    for (const auto& [name, to] : std::map(wanted)) {
      const fs::path path = from / name;
      if (kind_of(path, ExitCode::data) != PathKind::file) continue;
      const MappedFile file(path, MappedFile::Links::follow, ExitCode::data);
      take(name, path, file.bytes());
      file.require_unchanged(ExitCode::data);
    }
    return;
  }
  TarReader tar(from, kMostUnpacked, ExitCode::data);
  const std::string folder = std::string(kPythonFolder) + "/";
  while (const auto member = tar.next()) {
    const std::string name = member->name.starts_with("./") ? member->name.substr(2) : member->name;
    if (!name.starts_with(folder) || !wanted.contains(name.substr(folder.size()))) continue;
    if (member->bytes > kMostOfOne)
      fail(ExitCode::data, from.string(), ": ", name, " has ", member->bytes, " bytes, far more than CIFAR-10's");
    take(name.substr(folder.size()), from / name, tar.content());
  }
}

}  // namespace

std::optional<fs::path> find_python_batches(const fs::path& path) {
  const auto is_batches = [](const fs::path& folder) { return is_there(folder / "data_batch_1", ExitCode::data); };
  const PathKind kind = kind_of(path, ExitCode::data);
  if (kind == PathKind::file) {
    const std::string name = path.filename().string();
    return name.ends_with(".tar.gz") || name.ends_with(".tgz") || name.ends_with(".tar") ? std::optional(path)
                                                                                         : std::nullopt;
  }
  if (kind == PathKind::other) return path;  // what comes through a pipe has no name
  if (kind != PathKind::folder) return std::nullopt;
  if (is_batches(path)) return path;
  if (is_batches(path / kPythonFolder)) return path / kPythonFolder;
  if (is_there(path / kPythonArchive, ExitCode::data)) return path / kPythonArchive;
  return std::nullopt;
}

void convert_python_batches(FileSystem& files, const fs::path& from, const fs::path& folder,
                            const std::function<void(const std::string&)>& reading) {
  const auto refuse = [&] {
    fail(ExitCode::usage, folder.string(), ": exists already; move it away or give another --out");
  };
  if (kind_of_entry(folder) != PathKind::nothing) refuse();
  const bool made = make_filled_folder(files, folder, [&](const fs::path& temporary) {
    auto missing = wanted_files();
    const auto convert = [&](const std::string& name, const fs::path& path, std::span<const std::byte> pickle) {
      if (reading) reading(name);
      try {
        write_new_file(files, temporary / missing.at(name), converted(name, pickle));
      } catch (const Error& error) {
        if (error.code() != ExitCode::data) throw;
        fail(error.code(), path.string(), ": ", error.what());
      }
      missing.erase(name);
    };
    try {
      each_file(from, missing, convert);
      if (!missing.empty())
        fail(ExitCode::data, from.string(), ": has no ", kPythonFolder, "/", missing.begin()->first);
    } catch (const Error& error) {
      if (error.code() != ExitCode::data) throw;
      fail(error.code(), error.what(), "; ", kRemedy);
    }
  });
  if (!made) refuse();
}

}  // namespace ct
