#include "data/cifar/cifar_set.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <sstream>

#include "base/crc32c.h"
#include "base/paths.h"
#include "base/utf8.h"
#include "base/wrong_download.h"
#include "data/synthetic/synthetic.h"

namespace ct {
namespace fs = std::filesystem;
namespace {

// The tutorial's short names, and those that the archive's own batches.meta.txt lists for the same classes.
constexpr std::array<std::string_view, 10> kTutorialNames = {"plane", "car",  "bird",  "cat",  "deer",
                                                             "dog",   "frog", "horse", "ship", "truck"};
constexpr std::array<std::string_view, 10> kArchiveNames = {"airplane", "automobile", "bird",  "cat",  "deer",
                                                            "dog",      "frog",       "horse", "ship", "truck"};

constexpr uint64_t kLongestNames = 4096;  // bytes of the file with the class names

std::vector<std::string> strings(const std::array<std::string_view, 10>& names) { return {names.begin(), names.end()}; }

}  // namespace

std::vector<std::string> batch_files(Split split) {
  if (split == Split::test) return {"test_batch.bin"};
  std::vector<std::string> names;
  for (int i = 1; i <= 5; ++i) names.push_back(str("data_batch_", i, ".bin"));
  return names;
}

std::vector<std::string> all_batch_files() {
  std::vector<std::string> names = batch_files(Split::train);
  names.push_back(batch_files(Split::test).front());
  return names;
}

std::string_view data_remedy(bool synthetic) {
  return synthetic ? "delete the folder; cifar-train data synth --out DIR writes it again"
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
    return str("truncated: ", bytes, " bytes are not a whole number of records of ", kRecordBytes);
  return "";
}

std::string batch_problem(std::span<const std::byte> file, int64_t records_per_file) {
  const std::string_view wrong = wrong_download(file);
  return wrong.empty() ? size_problem(file.size(), records_per_file) : std::string(wrong);
}

std::string label_problem(int label, int classes) {
  return label < classes ? "" : str("has label ", label, ", the classes are 0 to ", classes - 1);
}

std::string record_problem(std::span<const uint8_t> record, int label, int classes) {
  const bool zeros = record[0] == 0 && std::memcmp(record.data(), record.data() + 1, record.size() - 1) == 0;
  return zeros ? "contains only zeros, as after a power failure" : label_problem(label, classes);
}

std::vector<std::string> read_class_names(const fs::path& folder) {
  const fs::path path = folder / "batches.meta.txt";
  if (!is_there(path, ExitCode::data)) return {};
  std::istringstream in(read_file(path, kLongestNames, MappedFile::Links::follow, ExitCode::data));
  std::vector<std::string> names;
  bool clean = true;
  for (std::string line; std::getline(in, line);) {
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
    clean = clean && fault_of_name(line).empty();
    if (!line.empty()) names.push_back(line);
  }
  if (!clean || names.size() != kCifarClasses) {
    fail(ExitCode::data, path.string(), ": not a list of ", kCifarClasses,
         " class names in UTF-8, one per line; restore or delete it");
  }
  return names;
}

bool is_synthetic_folder(const fs::path& folder) {
  const fs::path name = folder.has_filename() ? folder.filename() : folder.parent_path().filename();
  return name == kSyntheticFolder || read_class_names(folder) == strings(kSyntheticClasses);
}

int64_t records_per_file(const fs::path& folder) {
  if (!is_synthetic_folder(folder)) return kRecordsPerFile;
  std::map<uint64_t, int> files;  // of each length
  for (const std::string& name : all_batch_files()) {
    std::error_code error;
    const uint64_t bytes = fs::file_size(folder / name, error);
    if (!error && bytes > 0) ++files[bytes];
  }
  if (files.empty()) return 0;
  // That of most files: others are damaged.
  const auto most = std::ranges::max_element(files, {}, [](const auto& length) { return length.second; });
  return std::min(static_cast<int64_t>(most->first / kRecordBytes), kRecordsPerFile);
}

CifarSet::CifarSet(const fs::path& folder, Split split, const CifarOptions& options)
    : DataSet(std::string(is_synthetic_folder(folder) ? kSyntheticName : kCifarName), kCifarShape) {
  if (const PathKind kind = kind_of(folder, ExitCode::data); kind != PathKind::folder) {
    fail(ExitCode::data, folder.string(), ": ", kind == PathKind::nothing ? "no such folder" : "not a folder",
         "; data.path must be the folder that contains ", kCifarFolder, "/");
  }
  const bool synthetic = name() == kSyntheticName;
  class_names_ = read_class_names(folder);
  if (synthetic) {
    class_names_ = strings(kSyntheticClasses);
  } else if (class_names_.empty() || class_names_ == strings(kArchiveNames)) {
    class_names_ = strings(kTutorialNames);
  }
  const int64_t records = options.records_per_file.value_or(records_per_file(folder));
  for (const std::string& file : batch_files(split)) {
    const fs::path path = folder / file;
    if (const PathKind kind = kind_of(path, ExitCode::data); kind != PathKind::file) {
      fail(ExitCode::data, path.string(), ": ", kind == PathKind::nothing ? "no such file" : "not a file", "; ",
           data_remedy(synthetic));
    }
    const auto bytes = files_.emplace_back(path, MappedFile::Links::follow, ExitCode::data).bytes();
    const std::string problem = batch_problem(bytes, records);
    if (!problem.empty()) fail(ExitCode::data, path.string(), ": ", with_remedy(problem, data_remedy(synthetic)));
    add_records(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size() / kRecordBytes, path.string(),
                options.on_corrupt);
  }
  check_unchanged();
  if (records_.empty()) fail(ExitCode::data, folder.string(), ": no record is valid; ", data_remedy(synthetic));
}

CifarSet::CifarSet(std::string name, std::vector<std::string> class_names, std::vector<uint8_t> records)
    : DataSet(std::move(name), kCifarShape), memory_(std::move(records)) {
  class_names_ = std::move(class_names);
  check(class_names_.size() == kCifarClasses && memory_.size() % kRecordBytes == 0,
        "a malformed set of images in memory");
  add_records(memory_.data(), memory_.size() / kRecordBytes, this->name(), OnCorrupt::error);
}

void CifarSet::add_records(const uint8_t* data, int64_t count, const std::string& file, OnCorrupt on_corrupt) {
  records_.reserve(records_.size() + count);
  labels_.reserve(labels_.size() + count);
  for (int64_t i = 0; i < count; ++i) {
    const uint8_t* const record = data + i * kRecordBytes;
    const std::string problem = record_problem({record, kRecordBytes}, record[0], kCifarClasses);
    if (problem.empty()) {
      records_.push_back(record);
      labels_.push_back(record[0]);
    } else if (on_corrupt == OnCorrupt::skip) {
      ++skipped_;
    } else {
      check_unchanged();  // what was cut reads as zeros
      fail(ExitCode::data, file, ": record ", i, " ", problem, "; restore the file or ", kSkipDamaged);
    }
  }
}

std::string CifarSet::repeated_in(const CifarSet& later) const {
  const auto has_images = [this](const MappedFile& file) {
    const auto* const begin = reinterpret_cast<const uint8_t*>(file.bytes().data());
    return std::ranges::any_of(records_,
                               [&](const uint8_t* r) { return r >= begin && r < begin + file.bytes().size(); });
  };
  for (const MappedFile& file : later.files_) {
    for (const MappedFile& other : files_) {
      if (&other == &file) break;
      if (file.text() == other.text() && has_images(other))
        return str(file.path().filename().string(), " has the same bytes as ", other.path().filename().string());
    }
  }
  return "";
}

uint32_t CifarSet::fingerprint() const {
  uint32_t crc = 0;
  for (const uint8_t* record : records_) crc = crc32c({reinterpret_cast<const std::byte*>(record), kRecordBytes}, crc);
  return crc;
}

bool CifarSet::read(int64_t i, const SampleKey&, uint8_t* to) const {
  std::memcpy(to, pixels(i), kImageBytes);
  return true;
}

/// Cache lines are asked for only where their page is known to the processor, which is why pages come a micro-batch
/// earlier: a page walk costs as much as the copy of half an image.
void CifarSet::prefetch(std::span<const uint32_t> next, std::span<const uint32_t> after_next) const {
  for (const uint32_t image : after_next) {
    __builtin_prefetch(pixels(image), 0, 2);
    __builtin_prefetch(pixels(image) + kImageBytes - 1, 0, 2);
  }
  for (const uint32_t image : next) {
    const uint8_t* const at = pixels(image);
    for (size_t byte = 0; byte < kImageBytes; byte += 64) __builtin_prefetch(at + byte, 0, 2);
    __builtin_prefetch(at + kImageBytes - 1, 0, 2);
  }
}

void CifarSet::check_unchanged() const {
  for (const MappedFile& file : files_) file.require_unchanged(ExitCode::data);
}

void CifarSet::check_not_cut() const {
  for (const MappedFile& file : files_)
    if (file.was_cut()) file.require_unchanged(ExitCode::data);
}

}  // namespace ct
