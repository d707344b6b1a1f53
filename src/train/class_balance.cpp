#include "train/class_balance.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/text.h"
#include "train/config/document.h"
#include "train/config/suggest.h"
#include "train/config/validate.h"

namespace ct {
namespace {

constexpr size_t kNamed = 5;  // classes of a message

std::string first_names(const std::vector<std::string>& names) {
  const size_t shown = std::min(names.size(), kNamed);
  return joined(std::span(names).first(shown), ", ", [](const std::string& name) { return name; }) +
         (names.size() > shown ? str(", and ", names.size() - shown, " more") : "");
}

size_t class_of(const Config& config, const std::vector<std::string>& names, const std::string& name) {
  const auto found = std::ranges::find(names, name);
  if (found != names.end()) return static_cast<size_t>(found - names.begin());
  const std::string near = nearest(name, names);
  fail(ExitCode::usage, place_of_key(config, "train.class_weights"), "train.class_weights: no class is called ",
       document::quoted(name),
       near.empty() ? "; the classes are " + first_names(names) : "; did you mean " + near + "?");
}

}  // namespace

std::vector<float> class_weights(const Config& config, const std::vector<std::string>& names,
                                 std::span<const int64_t> counts) {
  const ClassWeights& asked = config.train.class_weights;
  if (asked.empty()) return {};
  std::vector<double> ratios(counts.size(), 1);
  if (asked.automatic)
    std::ranges::transform(counts, ratios.begin(), [](int64_t n) { return n > 0 ? 1 / static_cast<double>(n) : 0.0; });
  for (const auto& [name, weight] : asked.by_name) ratios[class_of(config, names, name)] = weight;
  const double sum = std::inner_product(counts.begin(), counts.end(), ratios.begin(), 0.0);
  if (!(sum > 0))
    fail(ExitCode::usage, place_of_key(config, "train.class_weights"),
         "train.class_weights leaves no image that counts: every class that has images weighs 0");
  const auto images = static_cast<double>(std::accumulate(counts.begin(), counts.end(), int64_t{0}));
  std::vector<float> weights;
  for (const double ratio : ratios) weights.push_back(static_cast<float>(ratio * images / sum));
  return weights;
}

std::string imbalance(const Config& config, const std::vector<std::string>& names, std::span<const int64_t> counts) {
  constexpr int64_t kMost = 5;
  if (!config.train.class_weights.empty() || config.data.sampler == Sampler::balanced) return "";
  size_t least = 0, most = 0;  // of the classes that have images; notes name the others
  for (size_t c = 0; c < counts.size(); ++c) {
    if (counts[c] > counts[most]) most = c;
    if (counts[c] > 0 && (counts[least] == 0 || counts[c] < counts[least])) least = c;
  }
  if (counts.empty() || counts[most] <= kMost * counts[least]) return "";
  const auto text = [&](size_t c) { return str(names[c], " ", counts[c]); };
  return str("classes have very different numbers of training images: ", text(most), ", ", text(least),
             "; train.class_weights: auto or data.sampler: balanced lets them count alike");
}

std::string weak_classes(const Evaluation& evaluation, const std::vector<std::string>& names) {
  constexpr double kEnoughHits = 10;  // by chance: fewer tell little
  const double chance = 1 / static_cast<double>(evaluation.classes.size());
  std::vector<std::string> weak;
  for (size_t c = 0; c < evaluation.classes.size(); ++c) {
    const auto& [images, correct] = evaluation.classes[c];
    const double by_chance = static_cast<double>(images) * chance;
    if (by_chance >= kEnoughHits && static_cast<double>(correct) < by_chance / 2)
      weak.push_back(str(names[c], " ", correct, " of ", images));
  }
  if (weak.empty()) return "";
  return str("below half of chance on the ", evaluation.split, " images: ", first_names(weak));
}

}  // namespace ct
