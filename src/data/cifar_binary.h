// Image sets in CIFAR-10's binary layout (https://www.cs.toronto.edu/~kriz/cifar.html): five training files
// data_batch_1..5.bin and test_batch.bin of 10,000 records each; a record is one label byte and 3,072 pixel bytes,
// planar: 32x32 red, then green, then blue, row by row.
//
// The files are mapped read-only, so the ranks of one host share the pages; labels are copied and checked at open.
// Everything wrong with them is Error(data), one line that names the file (and record) and the remedy.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/files.h"

namespace ct {

enum class Split { train, test };
enum class OnCorrupt { error, skip };

inline constexpr int kImageClasses = 10, kImageChannels = 3, kImageSide = 32;
inline constexpr size_t kImageBytes = 3072, kRecordBytes = 3073;
inline constexpr int64_t kRecordsPerFile = 10000;
inline constexpr std::string_view kCifarName = "CIFAR-10", kSyntheticName = "synthetic-10";
inline constexpr std::string_view kCifarFolder = "cifar-10-batches-bin", kSyntheticFolder = "synthetic-10-batches-bin";

/// The file names of a split, in the order in which images are numbered.
std::vector<std::string> batch_files(Split split);

struct ImageSetOptions {
  OnCorrupt on_corrupt = OnCorrupt::error;  // a record whose label is not a class: refused, or left out and counted
  std::optional<int64_t> records_per_file = {};  // absent: see records_per_file(); 0: any whole number, for small sets
};

class ImageSet {
 public:
  /// Maps the files of `split` in `folder`. Whether it is CIFAR-10 or the synthetic set shows in the folder
  /// (is_synthetic_folder).
  ImageSet(const std::filesystem::path& folder, Split split, const ImageSetOptions& options = {});
  /// Owns records in memory; no files. Labels are checked likewise.
  ImageSet(std::string name, Split split, std::vector<std::string> class_names, std::vector<uint8_t> records);

  const std::string& name() const { return name_; }  // "CIFAR-10" or "synthetic-10"
  Split split() const { return split_; }
  const std::filesystem::path& folder() const { return folder_; }  // empty: in memory
  int64_t count() const { return static_cast<int64_t>(records_.size()); }
  int64_t skipped() const { return skipped_; }  // records left out by OnCorrupt::skip
  int classes() const { return kImageClasses; }
  int channels() const { return kImageChannels; }
  int height() const { return kImageSide; }
  int width() const { return kImageSide; }
  const std::vector<std::string>& class_names() const { return class_names_; }

  /// 3,072 planar bytes of image i, valid as long as the set.
  const uint8_t* pixels(int64_t i) const { return records_[i] + 1; }
  int label(int64_t i) const { return labels_[i]; }
  /// Asks for the cache lines of image i, which a later pixels(i) will read. Cheap only where its pages are known to
  /// the processor: ask for those a batch earlier, since a page walk costs as much as the copy of half an image.
  void prefetch(int64_t i) const {
    const uint8_t* const pixels = records_[i] + 1;
    for (size_t byte = 0; byte < kImageBytes; byte += 64) __builtin_prefetch(pixels + byte, 0, 2);
    __builtin_prefetch(pixels + kImageBytes - 1, 0, 2);
  }
  void prefetch_pages(int64_t i) const {
    const uint8_t* const pixels = records_[i] + 1;
    __builtin_prefetch(pixels, 0, 2);
    __builtin_prefetch(pixels + kImageBytes - 1, 0, 2);
  }

  /// Throws Error(data) naming the file that was written or cut since the set was opened, as a mapping shows such
  /// changes: call it before what was made of the images counts. Files replaced or removed do no harm.
  void check_unchanged() const;
  /// The same where a cut file has shown already: it costs next to nothing.
  void check_not_cut() const {
    for (const MappedFile& file : files_)
      if (file.was_cut()) file.require_unchanged(ExitCode::data);
  }

 private:
  void add_records(const uint8_t* data, int64_t count, const std::string& file, OnCorrupt on_corrupt);

  std::string name_;
  Split split_;
  std::filesystem::path folder_;
  std::vector<std::string> class_names_;
  std::vector<MappedFile> files_;
  std::vector<uint8_t> memory_;
  std::vector<const uint8_t*> records_;
  std::vector<uint8_t> labels_;
  int64_t skipped_ = 0;
};

/// Names listed in folder/batches.meta.txt; empty when there is no such file. Error(data) where it cannot be read, or
/// there are not ten.
std::vector<std::string> read_class_names(const std::filesystem::path& folder);

/// Does the folder hold the synthetic set: by its own name, or by the class names written in it wherever it was moved?
bool is_synthetic_folder(const std::filesystem::path& folder);

/// How many records each file of the set in `folder` should have: kRecordsPerFile, or as the longest file of a
/// synthetic set, which may have been written with fewer images.
int64_t records_per_file(const std::filesystem::path& folder);

/// What is wrong with a file of that many bytes, or nothing. records_per_file 0: any whole number.
std::string size_problem(uint64_t bytes, int64_t records_per_file);

/// How to get whole files again, for error messages: by set.
std::string data_remedy(bool synthetic);

}  // namespace ct
