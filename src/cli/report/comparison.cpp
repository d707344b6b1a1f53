#include "cli/report/comparison.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <unordered_map>

#include "base/error.h"
#include "base/text.h"
#include "cli/report/texts.h"
#include "metrics/log_format.h"

namespace ct::report {
namespace {

bool is_fold(std::string_view key, std::string_view value) {
  return key == "data.validation" && value.find('/') != value.npos;
}

std::string numbered(std::span<const RunParts> runs, size_t i) { return str("run ", i + 1, ", ", runs[i].name, ","); }

/// The names of the classes, as far as they are known.
std::string classes_of(const RunParts& run) {
  using Class = FinalEvaluation::Class;
  return run.evaluation ? joined(run.evaluation->classes, "\n", &Class::name) : joined(run.classes, "\n");
}

/// Were both judged by as many images of the same kind and classes? Within a sweep the numbers may differ, as those of
/// folds do.
bool same_images(const RunParts& a, const RunParts& b, bool one_sweep) {
  const std::string classes = classes_of(a), others = classes_of(b);
  return best_evaluation(a.records)->split == best_evaluation(b.records)->split &&
         text_in(a.records.start, "dataset") == text_in(b.records.start, "dataset") &&
         a.value("data.labels") == b.value("data.labels") && (classes == others || classes.empty() || others.empty()) &&
         (one_sweep ? a.value("data.path") == b.value("data.path")
                    : best_evaluation(a.records)->images == best_evaluation(b.records)->images);
}

/// Why these runs cannot be ranked by their best evaluations; empty: they can.
std::string obstacle(std::span<const RunParts> runs, bool one_sweep) {
  for (size_t i = 0; i < runs.size(); ++i) {
    const EvalRecord* const best = best_evaluation(runs[i].records);
    const bool is_stopped = runs[i].code == static_cast<int>(ExitCode::stopped) || runs[i].reason() == "stopped";
    if (runs[i].code != 0 && !is_stopped) return numbered(runs, i) + " failed";
    if (is_stopped || !runs[i].records.ended) return numbered(runs, i) + " has not ended";
    if (!best) return numbered(runs, i) + " was not evaluated";
    if (std::isnan(best->accuracy)) return numbered(runs, i) + " has no accuracy";
    if (!same_images(runs[i], runs[0], one_sweep)) return "the runs were evaluated on different images";
  }
  return "";
}

}  // namespace

std::vector<std::string> differing_keys(std::span<const RunParts> runs, std::span<const std::string> varied) {
  std::vector<std::string> order;
  std::unordered_map<std::string, std::pair<std::string, size_t>> first;  // by key: a value, and how many runs have it
  for (const RunParts& run : runs) {
    for (const ConfigKey& key : run.config) {
      const auto [found, is_new] = first.try_emplace(key.key, key.value, 0);
      if (is_new) order.push_back(key.key);
      found->second.second += found->second.first == key.value;
    }
  }
  std::erase_if(order, [&](const std::string& key) {
    const bool is_varied = std::ranges::find(varied, key) != varied.end();
    return key == "output" || (first[key].second == runs.size() && !is_varied);
  });
  // What a sweep varied comes first; other keys may only follow from it.
  std::ranges::stable_partition(order,
                                [&](const std::string& key) { return std::ranges::find(varied, key) != varied.end(); });
  return order;
}

std::string name_beside_others(const RunParts& run, bool one) {
  const auto last_part = [](const std::string& key) { return key.substr(key.rfind('.') + 1); };
  if (run.sweep.empty()) return run.name;
  std::vector<std::string> settings, repeat;
  for (const std::string& key : run.varied) {
    const std::string value = run.value(key), last = last_part(key);
    const bool is_unique = std::ranges::count(run.varied, last, last_part) == 1;
    (key == "seed" || is_fold(key, value) ? repeat : settings)
        .push_back((is_unique ? last : key) + "=" + (value.empty() ? "-" : value));
  }
  if (one) settings.insert(settings.end(), repeat.begin(), repeat.end());
  return run.sweep + ": " + (settings.empty() ? kAsConfigured : joined(settings, ", "));
}

std::vector<Settings> settings_of(std::span<const RunParts> runs, std::span<const std::string> varied) {
  std::vector<Settings> all;
  const std::vector<std::string> keys =
      varied.empty() ? differing_keys(runs, varied) : std::vector(varied.begin(), varied.end());
  const bool has_sweeps = std::ranges::any_of(runs, [](const RunParts& run) { return !run.sweep.empty(); });
  for (size_t i = 0; i < runs.size(); ++i) {
    std::string text;
    for (const std::string& key : keys) {
      const std::string value = runs[i].value(key);
      if (key != "seed" && !is_fold(key, value))
        text += (text.empty() ? "" : ", ") + key + "=" + (value.empty() ? "-" : value);
    }
    if (text.empty()) text = kAsConfigured;
    if (has_sweeps) text = name_beside_others(runs[i], /*one=*/false);
    auto found = std::ranges::find(all, text, &Settings::text);
    if (found == all.end()) found = all.insert(all.end(), Settings{.text = text});
    found->runs.push_back(i);
    const EvalRecord* const best = best_evaluation(runs[i].records);
    if (best && !std::isnan(best->accuracy) && runs[i].code == 0) {
      found->scores.accuracies.push_back(best->accuracy);
      found->scores.losses.push_back(best->loss);
    }
  }
  for (Settings& settings : all) {
    if (settings.scores.accuracies.empty()) continue;
    const MeanAndDeviation figures = mean_and_deviation(settings.scores.accuracies);
    settings.mean = figures.mean;
    settings.deviation = figures.deviation;
  }
  return all;
}

std::string common_weights(std::span<const RunParts> runs) {
  const std::string first = text_in(runs.front().records.end, "weights_sha256");
  const auto other = [&](const RunParts& run) { return text_in(run.records.end, "weights_sha256") != first; };
  return std::ranges::any_of(runs, other) ? "" : first;
}

Comparison compare(std::span<const RunParts> runs, const std::optional<SweepParts>& sweep) {
  Comparison all;
  if (sweep) all.varied = sweep->keys;
  all.weights = common_weights(runs);
  all.settings = settings_of(runs, all.varied);
  if (!all.weights.empty()) return all;
  const bool is_whole = !sweep || (runs.size() >= sweep->planned && sweep->missing.empty());
  if (!is_whole) {
    all.why_none = "not all runs of the sweep are here";
  } else if (all.settings.size() > 1) {
    all.why_none = obstacle(runs, sweep.has_value());
    if (!all.why_none.empty()) return all;
    std::vector<RunScores> scores;
    for (const Settings& settings : all.settings) scores.push_back(settings.scores);
    all.best = Best{best_of(scores), best_evaluation(runs[0].records)->split};
  }
  return all;
}

std::string best_in_words(const Comparison& all, std::span<const RunParts> runs) {
  if (!all.weights.empty()) return "All runs ended with the same weights, " + all.weights + ".";
  if (!all.why_none.empty()) return str("None is named as the best, because ", all.why_none, ".");
  if (!all.best) return "";
  const Settings& best = all.settings[all.best->index];
  const size_t first = best.runs.front(), repeats = best.scores.accuracies.size();
  return str("The best: ", best.runs.size() > 1 ? best.text : str(first + 1, " ", runs[first].name), ", ",
             percent(best.mean), repeats > 1 ? str(" in the mean of ", repeats, " runs") : "", " on the ",
             split_word(all.best->by), " images",
             all.best->by == EvaluatedSplit::val ? "." : ", which chose it, so that this figure is optimistic.");
}

}  // namespace ct::report
