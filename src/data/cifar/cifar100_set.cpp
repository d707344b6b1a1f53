#include "data/cifar/cifar100_set.h"

#include <cstring>
#include <sstream>

#include "base/crc32c.h"
#include "base/error.h"
#include "base/paths.h"
#include "base/text.h"
#include "base/utf8.h"
#include "base/wrong_download.h"
#include "data/cifar/cifar_set.h"
#include "data/cifar/python/pickled_batch.h"

namespace ct {
namespace fs = std::filesystem;
namespace {

constexpr size_t kRecord100 = kImageBytes + 2;
constexpr uint64_t kLongestList = 1 << 16;

size_t class_count(Labels labels) { return labels == Labels::fine ? 100 : 20; }

std::vector<std::string> names_in(const fs::path& folder, Labels labels, bool python) {
  const fs::path path = folder / (python                   ? "meta"
                                  : labels == Labels::fine ? "fine_label_names.txt"
                                                           : "coarse_label_names.txt");
  if (!is_there(path, ExitCode::data)) fail(ExitCode::data, path.string(), ": no such file; ", cifar100_remedy());
  const std::string text = read_file(path, kLongestList, MappedFile::Links::follow, ExitCode::data);
  std::vector<std::string> names;
  try {
    if (python) {
      names = read_pickled_names_100(std::as_bytes(std::span(text)), labels == Labels::coarse);
    } else {
      std::istringstream in(text);
      for (std::string line; std::getline(in, line);)
        if (const std::string_view name = trimmed(line); !name.empty()) names.emplace_back(name);
    }
  } catch (const Error& error) {
    fail(ExitCode::data, path.string(), ": ", error.what(), "; ", cifar100_remedy());
  }
  if (names.size() != class_count(labels))
    fail(ExitCode::data, path.string(), ": ", names.size(), " class names, not ", class_count(labels), "; ",
         cifar100_remedy());
  for (size_t n = 0; n < names.size(); ++n)
    if (const std::string fault = fault_of_name(names[n]); !fault.empty())
      fail(ExitCode::data, path.string(), ": class name ", n + 1, " ", fault, "; ", cifar100_remedy());
  return names;
}

MappedFile mapped(const fs::path& path) {
  if (const PathKind kind = kind_of(path, ExitCode::data); kind != PathKind::file)
    fail(ExitCode::data, path.string(), ": ", kind == PathKind::nothing ? "no such file" : "not a file", "; ",
         cifar100_remedy());
  return MappedFile(path, MappedFile::Links::follow, ExitCode::data);
}

}  // namespace

std::optional<bool> is_cifar100_python(const fs::path& folder) {
  if (is_there(folder / "fine_label_names.txt", ExitCode::data) || folder.filename() == kCifar100Folder) return false;
  if (kind_of(folder / "meta", ExitCode::data) == PathKind::file || folder.filename() == kCifar100PythonFolder)
    return true;
  return std::nullopt;
}

fs::path cifar100_file(const fs::path& folder, Split split) {
  const std::string name = split == Split::train ? "train" : "test";
  return folder / (is_cifar100_python(folder) == true ? name : name + ".bin");
}

std::string_view cifar100_remedy() {
  return "unpack cifar-100-binary.tar.gz from https://www.cs.toronto.edu/~kriz/ again";
}

Cifar100Set::Cifar100Set(const fs::path& folder, Split split, Labels labels, OnCorrupt on_corrupt)
    : DataSet(std::string(kCifar100Name), kCifarShape), file_(mapped(cifar100_file(folder, split))) {
  const bool python = is_cifar100_python(folder) == true;
  class_names_ = names_in(folder, labels, python);
  if (const std::string_view wrong = wrong_download(file_.bytes()); !wrong.empty()) fail_file(std::string(wrong));
  if (python)
    read_pickle(labels);
  else
    read_records(labels, on_corrupt);
  check_unchanged();
  if (labels_.empty()) fail_file("no record is valid");
}

void Cifar100Set::read_records(Labels labels, OnCorrupt on_corrupt) {
  const size_t bytes = file_.bytes().size();
  if (bytes == 0 || bytes % kRecord100 != 0)
    fail_file(bytes == 0 ? "empty"
                         : str("truncated: ", bytes, " bytes are not a whole number of records of ", kRecord100));
  const auto* const data = reinterpret_cast<const uint8_t*>(file_.bytes().data());
  for (size_t at = 0; at < bytes; at += kRecord100) {
    const int label = data[at + (labels == Labels::fine)];
    add(label, data + at + 2, record_problem({data + at, kRecord100}, label, classes()), on_corrupt);
  }
}

void Cifar100Set::read_pickle(Labels labels) {
  PickledBatch100 batch;
  try {
    batch = read_pickled_batch_100(file_.bytes());
  } catch (const Error& error) {
    if (error.code() == ExitCode::memory) throw;
    fail_file(error.what());
  }
  const auto* pixels = reinterpret_cast<const uint8_t*>(batch.pixels.data());
  const std::vector<uint8_t>& all = labels == Labels::fine ? batch.fine : batch.coarse;
  if (batch.by_columns) {
    rows_.resize(batch.pixels.size());
    for (size_t i = 0; i < all.size(); ++i)
      for (size_t j = 0; j < kImageBytes; ++j) rows_[i * kImageBytes + j] = pixels[j * all.size() + i];
    pixels = rows_.data();
  }
  for (size_t i = 0; i < all.size(); ++i)
    add(all[i], pixels + i * kImageBytes, label_problem(all[i], classes()), OnCorrupt::error);
}

void Cifar100Set::add(int label, const uint8_t* pixels, const std::string& problem, OnCorrupt on_corrupt) {
  if (problem.empty()) {
    labels_.push_back(static_cast<uint16_t>(label));
    pixels_.push_back(pixels);
  } else if (on_corrupt == OnCorrupt::skip) {
    ++skipped_;
  } else {
    check_unchanged();  // what was cut reads as zeros
    fail(ExitCode::data, file_.path().string(), ": record ", pixels_.size(), " ", problem, "; restore the file or ",
         kSkipDamaged);
  }
}

void Cifar100Set::fail_file(const std::string& problem) const {
  fail(ExitCode::data, file_.path().string(), ": ", with_remedy(problem, cifar100_remedy()));
}

uint32_t Cifar100Set::fingerprint() const {
  uint32_t crc = crc32c(std::as_bytes(std::span(labels_)));
  for (const uint8_t* pixels : pixels_) crc = crc32c({reinterpret_cast<const std::byte*>(pixels), kImageBytes}, crc);
  return crc;
}

bool Cifar100Set::read(int64_t i, const SampleKey&, uint8_t* to) const {
  std::memcpy(to, pixels_[static_cast<size_t>(i)], kImageBytes);
  return true;
}

}  // namespace ct
