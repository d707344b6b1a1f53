// The records of a run (metrics.jsonl), read as far as they can be, also while the run writes them.
#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace ct::report {

/// Sorted by key: a reader that keeps the order of keys takes quadratic time for many.
using Tree = nlohmann::json;

inline constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

/// NaN: a number that was not finite, or is not there.
struct StepRecord {
  int64_t step = 0, epoch = 0;
  double loss = kNone, lr = kNone, grad_norm = kNone, samples_per_sec = kNone, wait_fraction = kNone;
};
struct EpochRecord {
  int64_t step = 0, epoch = 0;
  double loss = kNone;
};
enum class EvaluatedSplit : uint8_t { train, val, test };
std::string_view word_of(EvaluatedSplit split);
struct EvalRecord {
  int64_t step = 0, epoch = 0, images = 0;
  EvaluatedSplit split = EvaluatedSplit::test;
  double loss = kNone, accuracy = kNone, top5 = kNone;  // accuracies: 0 to 1; top5: of sets with more than 5 classes
};

struct RunRecords {
  // Each ascending by step, with one record a step (and split): a later line replaces an earlier one.
  std::vector<StepRecord> steps;
  std::vector<EpochRecord> epochs;
  std::vector<EvalRecord> evals;
  std::vector<double> per_class;  // accuracies of the newest evaluation's classes; NaN: a class without images
  Tree start, end;                // the newest records of these kinds; null: none. Not deep
  int64_t starts = 0;
  int64_t saved = -1;      // the step of the newest checkpoint
  bool ended = false;      // `end` is the last of the two
  int64_t damaged = 0;     // lines that are no records
  bool cut = false;        // the text ends within a line that is no record: one that is being written, or was lost
  int64_t disordered = 0;  // steps and epochs that do not come after those before them, as a run's do
  bool empty() const { return steps.empty() && epochs.empty() && evals.empty() && starts == 0 && end.is_null(); }
};

RunRecords read_records(std::string_view text);

/// JSON as a program writes it: null where `text` is none, or has lists and objects more than 32 deep, which could
/// exhaust the stack of whoever copies it.
Tree shallow_json(std::string_view text);

/// The number, text, or whole number from 0 under a key; NaN, an empty text, -1: it has none.
double number_in(const Tree& object, const char* key);
std::string text_in(const Tree& object, const char* key);
int64_t count_in(const Tree& object, const char* key);
/// What is under a key; null: nothing, or `object` is none.
const Tree& child(const Tree& object, const char* key);

/// A number that can be drawn: beyond 1e100 it is as good as infinite, and below 1e-100 it is 0.
double drawable(double number);

}  // namespace ct::report
