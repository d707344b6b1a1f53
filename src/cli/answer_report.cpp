#include "cli/answer_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "base/utf8.h"
#include "cli/csv_table.h"
#include "metrics/log_format.h"

namespace ct {
namespace {

constexpr size_t kMistakes = 5, kMostRows = 20;

std::string row_of(std::string_view title, const ClassScores& s, size_t width) {
  return fmt::format("{:>{}} {:9.2f} {:9.2f} {:9.2f} {:9}", title, width, 100 * s.precision, 100 * s.recall, 100 * s.f1,
                     s.support);
}

Json to_json(const ClassScores& s) {
  return {{"precision", s.precision}, {"recall", s.recall}, {"f1", s.f1}, {"support", s.support}};
}

}  // namespace

void AnswerReport::add(int64_t place, int32_t label, std::span<const float> logits) {
  const int32_t predicted = answer_in(logits);
  const std::vector<double> p = probabilities(logits);
  const auto at = [](const std::vector<double>& of, int32_t c) { return of[static_cast<size_t>(c)]; };
  confusion_.add(label, predicted);
  error_.add(at(p, predicted), predicted == label);
  rows_.push_back({place, label, predicted, at(p, predicted), at(p, label)});
  if (!temperature_) return;
  error_at_temperature_.add(at(probabilities(logits, temperature_->value), predicted), predicted == label);
  loss_at_temperature_ += loss_at(logits, label, temperature_->value);
}

std::vector<std::string> AnswerReport::lines() const {
  const std::vector<ClassScores> scores = confusion_.scores();
  std::vector<int32_t> shown;
  for (int32_t c = 0; c < confusion_.classes(); ++c) shown.push_back(c);
  std::vector<std::string> lines;
  if (shown.size() > kMostRows) {
    std::erase_if(shown, [&](int32_t c) { return !occurs(scores[static_cast<size_t>(c)]); });
    std::ranges::stable_sort(shown, {}, [&](int32_t c) { return scores[static_cast<size_t>(c)].f1; });
    const size_t all = shown.size();
    shown.resize(std::min(all, kMostRows));
    lines.push_back(fmt::format("The {} worst of {} classes by F1:", shown.size(), all));
  }
  size_t width = std::string_view("weighted mean").size();
  for (const int32_t c : shown) width = std::max(width, name(c).size());
  lines.push_back(fmt::format("{:{}} {:>9} {:>9} {:>9} {:>9}", "", width, "precision", "recall", "F1", "support"));
  for (const int32_t c : shown) lines.push_back(row_of(name(c), scores[static_cast<size_t>(c)], width));
  lines.push_back(row_of("mean", macro_mean(scores), width));
  lines.push_back(row_of("weighted mean", weighted_mean(scores), width));
  for (const auto& [label, predicted, images] : confusion_.mistakes(kMistakes))
    lines.push_back(fmt::format(
        "{} taken for {}: {} of {} images, {}", name(label), name(predicted), images,
        scores[static_cast<size_t>(label)].support,
        percent(static_cast<double>(images) / static_cast<double>(scores[static_cast<size_t>(label)].support))));
  lines.push_back("Calibration error (ECE, 15 bins): " + percent(error_.value()));
  if (temperature_)
    lines.push_back(fmt::format("Temperature {:.4g}, fitted on {}: loss {:.4f}, calibration error {}",
                                temperature_->value, counted(temperature_->images, "validation image"),
                                loss_at_temperature_ / static_cast<double>(rows_.size()),
                                percent(error_at_temperature_.value())));
  if (temperature_ && temperature_->value == kColdest)
    lines.emplace_back("No lower temperature is tried: the validation images are nearly all answered rightly");
  if (temperature_ && temperature_->value == kHottest)
    lines.emplace_back(
        "No higher temperature is tried: the answers on the validation images are no better than chance");
  return lines;
}

void AnswerReport::add_to(Json& record) const {
  const std::vector<ClassScores> scores = confusion_.scores();
  Json classes = Json::array(), mistakes = Json::array();
  for (int32_t c = 0; c < confusion_.classes(); ++c) {
    Json one = {{"name", name(c)}};
    one.update(to_json(scores[static_cast<size_t>(c)]));
    classes.push_back(std::move(one));
  }
  for (const auto& [label, predicted, images] : confusion_.mistakes(kMistakes))
    mistakes.push_back({{"label", name(label)}, {"predicted", name(predicted)}, {"images", images}});
  record["classes"] = std::move(classes);
  record["mean"] = to_json(macro_mean(scores));
  record["weighted_mean"] = to_json(weighted_mean(scores));
  record["confusions"] = std::move(mistakes);
  record["ece"] = error_.value();
  if (temperature_)
    record["temperature"] = {{"value", temperature_->value},
                             {"at_bound", temperature_->value == kColdest || temperature_->value == kHottest},
                             {"images", temperature_->images},
                             {"loss", loss_at_temperature_ / static_cast<double>(rows_.size())},
                             {"ece", error_at_temperature_.value()}};
}

std::string AnswerReport::confusion_table() const {
  std::string table(kConfusionHeader);
  for (const std::string& name : names_) table += "," + csv_field(name);
  for (int32_t label = 0; label < confusion_.classes(); ++label) {
    table += "\n" + csv_field(name(label));
    for (int32_t c = 0; c < confusion_.classes(); ++c) table += "," + std::to_string(confusion_.count(label, c));
  }
  return table + "\n";
}

std::string AnswerReport::predictions_table(const std::function<std::string(int64_t)>& image_name) const {
  std::string table(kPredictionsHeader);
  for (const Row& row : rows_)
    table += fmt::format("\n{},{},{},{},{}", csv_field(image_name(row.place)), csv_field(name(row.label)),
                         csv_field(name(row.predicted)), row.probability, row.label_probability);
  return table + "\n";
}

}  // namespace ct
