// CIFAR-100 (https://www.cs.toronto.edu/~kriz/cifar.html), in both of its forms: the binary version's train.bin and
// test.bin, whose records are a coarse label, a fine label and 3,072 pixel bytes as in CIFAR-10, and the python
// version's pickles train and test. Both have the names of the classes beside them.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "data/dataset.h"

namespace ct {

inline constexpr std::string_view kCifar100Name = "CIFAR-100", kCifar100Folder = "cifar-100-binary",
                                  kCifar100PythonFolder = "cifar-100-python";

/// Is `folder` one of the two forms? nullopt: neither; true: the python version.
std::optional<bool> is_cifar100_python(const std::filesystem::path& folder);
/// The file of a split.
std::filesystem::path cifar100_file(const std::filesystem::path& folder, Split split);
/// The remedy in error messages.
std::string_view cifar100_remedy();

class Cifar100Set final : public DataSet {
 public:
  /// Opens the file of `split`. Error(data) with the faulty file.
  Cifar100Set(const std::filesystem::path& folder, Split split, Labels labels, OnCorrupt on_corrupt);

  uint32_t fingerprint() const override;
  bool read(int64_t i, const SampleKey& key, uint8_t* to) const override;
  bool direct() const override { return true; }
  void check_unchanged() const override { file_.require_unchanged(ExitCode::data); }
  void check_not_cut() const override {
    if (file_.was_cut()) check_unchanged();
  }

 private:
  void read_records(Labels labels, OnCorrupt on_corrupt);
  void read_pickle(Labels labels);
  /// `problem`: of the record; empty: none.
  void add(int label, const uint8_t* pixels, const std::string& problem, OnCorrupt on_corrupt);
  [[noreturn]] void fail_file(const std::string& problem) const;

  MappedFile file_;
  std::vector<uint8_t> rows_;           // of a pickle whose pixels are not in rows
  std::vector<const uint8_t*> pixels_;  // of each image
};

}  // namespace ct
