#include "data/cifar_binary.h"

#include <sys/stat.h>

#include <algorithm>
#include <sstream>

#include "data/synthetic.h"

namespace ct {
namespace fs = std::filesystem;
namespace {

// The tutorial's short names, and those that the archive's own batches.meta.txt lists for the same classes.
constexpr std::array<std::string_view, 10> kTutorialNames = {"plane", "car",  "bird",  "cat",  "deer",
                                                             "dog",   "frog", "horse", "ship", "truck"};
constexpr std::array<std::string_view, 10> kArchiveNames = {"airplane", "automobile", "bird",  "cat",  "deer",
                                                            "dog",      "frog",       "horse", "ship", "truck"};

std::vector<std::string> strings(const std::array<std::string_view, 10>& names) { return {names.begin(), names.end()}; }

MappedFile map_data_file(const fs::path& path, bool synthetic) {
  try {
    return MappedFile(path);
  } catch (const Error& error) {
    fail(ExitCode::data, error.what(), "; ", data_remedy(synthetic));
  }
}

}  // namespace

std::vector<std::string> batch_files(Split split) {
  if (split == Split::test) return {"test_batch.bin"};
  std::vector<std::string> names;
  for (int i = 1; i <= 5; ++i) names.push_back(str("data_batch_", i, ".bin"));
  return names;
}

std::string data_remedy(bool synthetic) {
  return synthetic ? "delete the folder: it is written again when it is needed"
                   : "unpack cifar-10-binary.tar.gz from https://www.cs.toronto.edu/~kriz/ again";
}

std::string size_problem(uint64_t bytes, int64_t records_per_file) {
  const uint64_t whole = records_per_file * kRecordBytes;
  if (bytes == 0) return "empty";
  if (whole != 0 && bytes != whole) {
    return str(bytes < whole ? "truncated: " : "too long: ", bytes, " bytes where ", whole, " belong (",
               records_per_file, " records of ", kRecordBytes, ")");
  }
  if (bytes % kRecordBytes != 0)
    return str("truncated: ", bytes, " bytes are no whole number of records of ", kRecordBytes);
  return "";
}

std::vector<std::string> read_class_names(const fs::path& folder) {
  const fs::path path = folder / "batches.meta.txt";
  std::error_code error;
  if (!fs::exists(path, error)) return {};
  std::vector<std::string> names;
  bool clean = true;
  try {
    std::istringstream in(read_file(path, 4096));
    for (std::string line; std::getline(in, line);) {
      while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
      clean = clean && std::none_of(line.begin(), line.end(), [](unsigned char c) { return c < 32 || c == 127; });
      if (!line.empty()) names.push_back(line);
    }
  } catch (const Error&) {  // a folder, unreadable, or far too long
    clean = false;
  }
  if (!clean || names.size() != kImageClasses) {
    fail(ExitCode::data, path.string(), ": not a list of ", kImageClasses,
         " class names, one a line; restore or delete it");
  }
  return names;
}

bool is_synthetic_folder(const fs::path& folder) {
  const fs::path name = folder.has_filename() ? folder.filename() : folder.parent_path().filename();
  return name == kSyntheticFolder || read_class_names(folder) == strings(kSyntheticClasses);
}

ImageSet::ImageSet(const fs::path& folder, Split split, const ImageSetOptions& options)
    : split_(split), folder_(folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) {
    fail(ExitCode::data, folder.string(), ": ", fs::exists(folder, error) ? "not a folder" : "no such folder",
         "; data.path names the folder that holds ", kCifarFolder, "/");
  }
  const bool synthetic = is_synthetic_folder(folder);
  name_ = synthetic ? kSyntheticName : kCifarName;
  class_names_ = read_class_names(folder);
  if (synthetic) {
    class_names_ = strings(kSyntheticClasses);
  } else if (class_names_.empty() || class_names_ == strings(kArchiveNames)) {
    class_names_ = strings(kTutorialNames);
  }
  for (const std::string& file : batch_files(split)) {
    const fs::path path = folder / file;
    struct stat info {};  // before the mapping: what is written later shows
    const bool present = stat(path.c_str(), &info) == 0;
    if (!present || !S_ISREG(info.st_mode)) {
      fail(ExitCode::data, path.string(), ": ", present ? "not a file" : "no such file", "; ", data_remedy(synthetic));
    }
    files_.push_back({.path = path,
                      .map = map_data_file(path, synthetic),
                      .device = info.st_dev,
                      .inode = info.st_ino,
                      .size = static_cast<uint64_t>(info.st_size),
                      .modified_s = info.st_mtim.tv_sec,
                      .modified_ns = info.st_mtim.tv_nsec});
    const auto bytes = files_.back().map.bytes();
    const std::string problem = size_problem(bytes.size(), options.records_per_file);
    if (!problem.empty()) fail(ExitCode::data, path.string(), ": ", problem, "; ", data_remedy(synthetic));
    add_records(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size() / kRecordBytes, path.string(),
                options.on_corrupt);
  }
  check_unchanged();
  if (records_.empty())
    fail(ExitCode::data, folder.string(), ": no record has a valid label; ", data_remedy(synthetic));
}

ImageSet::ImageSet(std::string name, Split split, std::vector<std::string> class_names, std::vector<uint8_t> records)
    : name_(std::move(name)), split_(split), class_names_(std::move(class_names)), memory_(std::move(records)) {
  check(class_names_.size() == kImageClasses && memory_.size() % kRecordBytes == 0,
        "a malformed set of images in memory");
  add_records(memory_.data(), memory_.size() / kRecordBytes, name_, OnCorrupt::error);
}

void ImageSet::add_records(const uint8_t* data, int64_t count, const std::string& file, OnCorrupt on_corrupt) {
  records_.reserve(records_.size() + count);
  labels_.reserve(labels_.size() + count);
  for (int64_t i = 0; i < count; ++i) {
    const uint8_t* const record = data + i * kRecordBytes;
    if (record[0] < kImageClasses) {
      records_.push_back(record);
      labels_.push_back(record[0]);
    } else if (on_corrupt == OnCorrupt::skip) {
      ++skipped_;
    } else {
      fail(ExitCode::data, file, ": record ", i, " has label ", int{record[0]}, ", the classes are 0 to ",
           kImageClasses - 1, "; restore the file or set data.on_corrupt to skip");
    }
  }
}

void ImageSet::check_unchanged() const {
  for (const BatchFile& file : files_) {
    struct stat now {};
    if (stat(file.path.c_str(), &now) != 0 || now.st_dev != file.device || now.st_ino != file.inode) continue;
    if (static_cast<uint64_t>(now.st_size) != file.size || now.st_mtim.tv_sec != file.modified_s ||
        now.st_mtim.tv_nsec != file.modified_ns) {
      fail(ExitCode::data, file.path.string(), ": changed while it was in use; restore the file and start again");
    }
  }
}

}  // namespace ct
