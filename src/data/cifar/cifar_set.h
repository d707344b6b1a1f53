// Data sets in CIFAR-10's binary layout (https://www.cs.toronto.edu/~kriz/cifar.html): five training files
// data_batch_1..5.bin and test_batch.bin of 10,000 records each; a record is one label byte and 3,072 pixel bytes,
// planar: 32x32 red, then green, then blue, row by row.
//
// The files are mapped read-only, so the ranks of one host share the pages; labels are copied and checked at open. A
// fault is Error(data), one line with the file (and record) and the remedy.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "data/dataset.h"

namespace ct {

inline constexpr int kCifarClasses = 10;
inline constexpr SampleShape kCifarShape = {3, 32, 32};
inline constexpr size_t kImageBytes = 3072, kRecordBytes = 3073;
inline constexpr int64_t kRecordsPerFile = 10000;
inline constexpr std::string_view kCifarName = "CIFAR-10", kSyntheticName = "synthetic-10";
inline constexpr std::string_view kCifarFolder = "cifar-10-batches-bin", kSyntheticFolder = "synthetic-10-batches-bin";

/// The file names of a split, in the order in which images are numbered.
std::vector<std::string> batch_files(Split split);
std::vector<std::string> all_batch_files();

struct CifarOptions {
  OnCorrupt on_corrupt = OnCorrupt::error;       // for a record with a fault: error, or leave out and count
  std::optional<int64_t> records_per_file = {};  // absent: see records_per_file(); 0: any whole number, for small sets
};

/// The fault of a label; empty: none.
std::string label_problem(int label, int classes);
/// The fault of a record, its labels and its pixels, with `label`; empty: none. Where a power failure or a full quota
/// took a part of a file there are zeros, which would pass for a black image of the first class.
std::string record_problem(std::span<const uint8_t> record, int label, int classes);

class CifarSet final : public DataSet {
 public:
  /// Maps the files of `split` in `folder`; is_synthetic_folder distinguishes CIFAR-10 from the synthetic set.
  CifarSet(const std::filesystem::path& folder, Split split, const CifarOptions& options = {});
  /// A set of records in its own memory, without files. Labels are checked as in files.
  CifarSet(std::string name, std::vector<std::string> class_names, std::vector<uint8_t> records);

  /// The 3,072 planar bytes of image i, valid for the lifetime of the set.
  const uint8_t* pixels(int64_t i) const { return records_[static_cast<size_t>(i)] + 1; }
  /// "data_batch_2.bin has the same bytes as data_batch_1.bin": a file with images of `later`, which may be this set,
  /// and another one of this set; empty: there are none.
  std::string repeated_in(const CifarSet& later) const;

  uint32_t fingerprint() const override;
  bool read(int64_t i, const SampleKey& key, uint8_t* to) const override;
  bool direct() const override { return true; }
  void prefetch(std::span<const uint32_t> next, std::span<const uint32_t> after_next) const override;
  void check_unchanged() const override;
  void check_not_cut() const override;

 private:
  void add_records(const uint8_t* data, int64_t count, const std::string& file, OnCorrupt on_corrupt);

  std::vector<MappedFile> files_;
  std::vector<uint8_t> memory_;
  std::vector<const uint8_t*> records_;
};

/// The names in folder/batches.meta.txt; empty if there is no such file. Error(data) if it cannot be read or does not
/// have ten names.
std::vector<std::string> read_class_names(const std::filesystem::path& folder);

/// Does the folder contain the synthetic set, by its name or, after a move, by the class names in it?
bool is_synthetic_folder(const std::filesystem::path& folder);

/// The number of records that each file of the set in `folder` should have: kRecordsPerFile, or that of most files
/// of a synthetic set, which may be smaller.
int64_t records_per_file(const std::filesystem::path& folder);

/// The fault of a file of that many bytes; empty: none. records_per_file 0: any whole number.
std::string size_problem(uint64_t bytes, int64_t records_per_file);

/// The fault of a file, which need not belong to the set; labels are not checked.
std::string batch_problem(std::span<const std::byte> file, int64_t records_per_file);

/// The remedy in error messages: how to get complete files again.
std::string_view data_remedy(bool synthetic);

}  // namespace ct
