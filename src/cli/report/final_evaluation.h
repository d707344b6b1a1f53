// evaluation.json and evaluation.png of a run (train/run/evaluation_files.h), read as far as they can be.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/files.h"
#include "cli/report/run_records.h"

namespace ct::report {

struct FinalEvaluation {
  struct Class {
    std::string name;
    int64_t images = 0, predicted = 0;
    double precision = kNone, recall = kNone, f1 = kNone;
  };
  struct Pair {
    size_t label = 0, predicted = 0;
    int64_t images = 0;
  };
  /// A bin of answers by their probability.
  struct Bin {
    int64_t images = 0;
    double probability = kNone, accuracy = kNone;  // the means
  };
  struct Answer {
    size_t answer = 0;  // a class
    double probability = 0;
  };
  struct Picture {
    int64_t image = 0;  // its number in the set
    size_t label = 0;
    double label_probability = 0;
    std::vector<Answer> answers;
  };

  int64_t step = -1, images = 0;
  std::string split;
  double loss = kNone, accuracy = kNone, ece = kNone;
  std::vector<Class> classes;
  std::vector<Pair> confusion;
  std::vector<Bin> bins;
  std::vector<Picture> right, wrong;  // the most confident first
  std::string sheet;                  // a PNG file with the pictures of `right`, then those of `wrong`; empty: none
  int64_t columns = 0, width = 0, height = 0;  // pictures in a row of it; px of a picture
};

/// Nullopt: there is no such file. `missing` gets a line for each part that is damaged.
std::optional<FinalEvaluation> read_evaluation(const Path& folder, std::vector<std::string>& missing);

}  // namespace ct::report
