// MNIST: handwritten digits in idx files (http://yann.lecun.com/exdb/mnist/), two for each split; and Fashion-MNIST,
// which has the same files in a folder that is named after it. A file of images has a header of 16 bytes (0x803, count,
// rows, columns, all big-endian), then the pixels, row by row; a file of labels has a header of 8 bytes (0x801, count),
// then one byte for each label.
//
// The files of images are mapped read-only, so the ranks of one host share the pages; labels are copied and checked.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "data/dataset.h"

namespace ct {

inline constexpr int kMnistClasses = 10;
inline constexpr SampleShape kMnistShape = {1, 28, 28};
inline constexpr std::string_view kMnistName = "MNIST", kMnistFolder = "mnist", kFashionFolder = "fashion-mnist";
inline constexpr std::string_view kMnistSource = "https://ossci-datasets.s3.amazonaws.com/mnist/";

struct MnistFiles {
  std::string_view images, labels;
};
inline constexpr MnistFiles mnist_files(Split split) {
  return split == Split::train ? MnistFiles{"train-images-idx3-ubyte", "train-labels-idx1-ubyte"}
                               : MnistFiles{"t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"};
}

/// A file of images or of labels.
struct IdxFile {
  std::span<const std::byte> items = {};  // all bytes after the header
  int64_t count = 0;
  std::string problem = {};  // the fault, in one line without the path; empty: none
};
IdxFile read_images(std::span<const std::byte> file);
IdxFile read_labels(std::span<const std::byte> file);

/// The reason why `path` cannot be opened, for example that it is still compressed; empty: the file exists.
std::string missing_file(const std::filesystem::path& path);
/// The remedy in error messages: how to get complete files again.
std::string_view mnist_remedy();
/// "label 3 is 77, the classes are 0 to 9"
std::string bad_label(int64_t i, int label);
/// "9 labels for 10 images"; empty: one for each.
std::string count_problem(int64_t images, int64_t labels);

class MnistSet final : public DataSet {
 public:
  /// Opens the files of `split`. Error(data) with the faulty file.
  MnistSet(const std::filesystem::path& folder, Split split, OnCorrupt on_corrupt);

  uint32_t fingerprint() const override;
  bool read(int64_t i, const SampleKey& key, uint8_t* to) const override;
  bool direct() const override { return true; }
  void check_unchanged() const override { file_.require_unchanged(ExitCode::data); }
  void check_not_cut() const override {
    if (file_.was_cut()) check_unchanged();
  }

 private:
  MappedFile file_;                       // of images
  std::vector<const std::byte*> pixels_;  // of each image
};

}  // namespace ct
