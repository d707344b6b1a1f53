#include "data/notes.h"

#include <algorithm>
#include <vector>

#include "base/files.h"
#include "data/statistics.h"

namespace ct {

std::vector<std::string> notes_of(const DataSet& set, Split split) {
  std::vector<std::string> notes = set.notes();
  const std::vector<int64_t> counts = class_counts(set);
  const auto none = std::ranges::count(counts, 0);
  if (none == 0) return notes;
  const auto first = static_cast<size_t>(std::ranges::find(counts, 0) - counts.begin());
  notes.push_back(str("no images of the class ", in_quotes(set.class_names()[first]),
                      none > 1 ? str(" and ", none - 1, " more") : "", " to ", split == Split::train ? "train" : "test",
                      " on"));
  return notes;
}

std::vector<std::string> notes_of(const DataSet& train, const DataSet& test) {
  std::vector<std::string> notes = notes_of(train, Split::train);
  for (std::string& line : notes_of(test, Split::test)) notes.push_back(std::move(line));
  return notes;
}

namespace {

/// Are some images of both the same, byte for byte? A fingerprint of files is one of their names and sizes.
bool some_are_the_same(const DataSet& train, const DataSet& test) {
  const auto bytes = static_cast<size_t>(train.shape().bytes());
  if (bytes != static_cast<size_t>(test.shape().bytes())) return false;
  std::vector<uint8_t> one(bytes), other(bytes);
  const int64_t some = std::min<int64_t>(8, train.count());
  for (int64_t i = 0; i < some; ++i) {
    const int64_t at = i * train.count() / some;
    if (train.read(at, {}, one.data()) && test.read(at, {}, other.data()) && one != other) return false;
  }
  return true;
}

}  // namespace

std::string same_images(const DataSet& train, const DataSet& test) {
  if (train.count() != test.count() || train.fingerprint() != test.fingerprint() || !some_are_the_same(train, test))
    return "";
  return "the test images are the training images, so accuracies do not measure generalisation: give others as "
         "data.val";
}

}  // namespace ct
