// What eval says of a network's answers: scores by class, confusions, calibration, and tables of all of it.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "metrics/calibration.h"
#include "metrics/class_scores.h"
#include "metrics/metrics_log.h"

namespace ct {

/// The temperature that eval fitted, and the images on which it did.
struct Temperature {
  double value = 1;
  int64_t images = 0;
};

class AnswerReport {
 public:
  /// `names` are of the classes and must outlive this.
  AnswerReport(const std::vector<std::string>& names, std::optional<Temperature> temperature)
      : names_(names), confusion_(static_cast<int>(names.size())), temperature_(temperature) {}
  void add(int64_t place, int32_t label, std::span<const float> logits);

  /// The table of scores, of many classes only of those with the lowest F1; means; mistakes; calibration.
  std::vector<std::string> lines() const;
  /// Adds the fields to an `eval` record.
  void add_to(Json& record) const;

  static constexpr std::string_view kConfusionHeader = "label \\ predicted",
                                    kPredictionsHeader = "image,label,predicted,probability,label_probability";
  /// The images of each true class (rows) by the answered class (columns).
  std::string confusion_table() const;
  /// A row for each image, which `image_name` names by its place.
  std::string predictions_table(const std::function<std::string(int64_t place)>& image_name) const;

 private:
  struct Row {
    int64_t place;
    int32_t label, predicted;
    double probability, label_probability;
  };
  const std::string& name(int32_t c) const { return names_[static_cast<size_t>(c)]; }

  const std::vector<std::string>& names_;
  Confusion confusion_;
  CalibrationError error_, error_at_temperature_;
  std::optional<Temperature> temperature_;
  double loss_at_temperature_ = 0;  // the sum
  std::vector<Row> rows_;
};

}  // namespace ct
