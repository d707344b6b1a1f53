// Precision, recall and F1 of each class, and which classes are taken for which.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace ct {

/// A quotient without a divisor is 0, as in scikit-learn: the precision of a class that no image is taken for, and the
/// recall of one without images.
struct ClassScores {
  double precision = 0, recall = 0, f1 = 0;
  int64_t support = 0;    // images of the class
  int64_t predicted = 0;  // images that are taken for it
};

/// The counts of (true class, predicted class). Only pairs that occur take memory, because a set may have 65,536
/// classes.
class Confusion {
 public:
  explicit Confusion(int classes) : classes_(static_cast<size_t>(classes)) {}
  void add(int32_t label, int32_t predicted) {
    ++pairs_[{label, predicted}];
    ++classes_[static_cast<size_t>(label)].support;
    ++classes_[static_cast<size_t>(predicted)].predicted;
  }

  int classes() const { return static_cast<int>(classes_.size()); }
  int64_t count(int32_t label, int32_t predicted) const;
  std::vector<ClassScores> scores() const;

  struct Pair {
    int32_t label, predicted;
    int64_t images;
  };
  /// All pairs that occur, by label, then by answer.
  std::vector<Pair> pairs() const;
  /// The commonest mistakes, at most `most`; equally common ones in the order of classes.
  std::vector<Pair> mistakes(size_t most) const;

 private:
  std::map<std::pair<int32_t, int32_t>, int64_t> pairs_;
  std::vector<ClassScores> classes_;  // their counts only
};

/// Does the class occur, as the truth or as an answer? Means leave out classes that do not.
inline bool occurs(const ClassScores& scores) { return scores.support > 0 || scores.predicted > 0; }
/// The mean over classes that occur (macro), and the mean over images (weighted). Counts are sums.
ClassScores macro_mean(const std::vector<ClassScores>& classes);
ClassScores weighted_mean(const std::vector<ClassScores>& classes);

}  // namespace ct
