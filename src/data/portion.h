// What a configuration holds out of the training images: data.validation and data.test.
#pragma once

#include <cstdint>
#include <string>

namespace ct {

struct Portion {
  enum class Unit : uint8_t { images, percent, fold, folder };
  Unit unit = Unit::images;
  double amount = 0;            // images or percent
  int64_t fold = 1, folds = 1;  // the fold-th of `folds` equal parts
  std::string folder;           // of pictures that are not training images

  bool empty() const { return unit == Unit::images && amount == 0; }
  bool is_folder() const { return unit == Unit::folder; }
  /// Is it held out of the training images?
  bool is_share() const { return !empty() && !is_folder(); }
  bool operator==(const Portion&) const = default;
};

/// "20%", "8", "2/5" (the second of five folds); any other text is a folder.
Portion portion_of(const std::string& text);
/// The reason why it cannot be held out of any set, without the key; empty: it can.
std::string fault_of(const Portion& portion);
/// As portion_of() reads it.
std::string to_text(const Portion& portion);

}  // namespace ct
