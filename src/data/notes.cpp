#include "data/notes.h"

#include <algorithm>

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

std::string same_images(const DataSet& train, const DataSet& test) {
  if (train.count() != test.count() || train.fingerprint() != test.fingerprint()) return "";
  return "the images to test on are those that are trained on, so accuracies say nothing of others: give others as "
         "data.val";
}

}  // namespace ct
