#include "train/freezing.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "optim/parameter_groups.h"
#include "train/config/suggest.h"

namespace ct {
namespace {

/// The names of parameters and of the modules that contain them: "layer1", "layer1.0", "layer1.0.conv1.weight".
std::vector<std::string> names_of_parts(const Graph& graph) {
  std::vector<std::string> names;
  for (const Parameter& p : graph.parameters()) {
    if (p.statistic) continue;
    for (size_t dot = p.name.find('.'); dot != std::string::npos; dot = p.name.find('.', dot + 1))
      names.push_back(p.name.substr(0, dot));
    names.push_back(p.name);
  }
  std::ranges::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

/// "; did you mean 'layer1*'?", or the first parts of all names.
std::string names_near(const std::string& pattern, const Graph& graph) {
  const std::vector<std::string> names = names_of_parts(graph);
  const std::string word = pattern.substr(0, pattern.find_first_of("*?["));
  const std::string near = nearest(word.ends_with('.') ? word.substr(0, word.size() - 1) : word, names);
  if (!near.empty()) return str("; did you mean ", in_quotes(near + "*"), "?");
  std::vector<std::string> first;
  std::ranges::copy_if(names, std::back_inserter(first), [](const auto& name) { return name.find('.') == name.npos; });
  return str("; their names begin with ", joined(first, ", "));
}

}  // namespace

IsFrozen frozen_by(const std::vector<std::string>& patterns) {
  if (patterns.empty()) return {};
  return [patterns](const std::string& name) {
    return std::ranges::any_of(patterns, [&](const std::string& pattern) { return optim::matches(pattern, name); });
  };
}

void require_learning(const Config& config, const Graph& graph, const std::string& where) {
  const auto learnable = [](const Parameter& p) { return !p.statistic; };
  for (const std::string& pattern : config.train.freeze)
    if (std::ranges::none_of(graph.parameters(),
                             [&](const Parameter& p) { return learnable(p) && optim::matches(pattern, p.name); }))
      fail(ExitCode::usage, where, "train.freeze: ", in_quotes(pattern), " matches no parameter of ", config.model.name,
           names_near(pattern, graph));
  const IsFrozen is_frozen = frozen_by(config.train.freeze);
  if (is_frozen &&
      std::ranges::all_of(graph.parameters(), [&](const Parameter& p) { return !learnable(p) || is_frozen(p.name); }))
    fail(ExitCode::usage, where, "train.freeze: ", config.model.name,
         " has no parameter left that learns; leave out the patterns that match its last layer");
}

LearningPhase phase_at(const Config& config, const RunState& state) {
  const int64_t epoch = config.train.freeze.empty() ? 0 : config.train.unfreeze_at;
  if (epoch == 0 || state.epoch < epoch) return {};
  if (state.epoch == epoch && state.batch == 0) return {false, true, state.scalars.applied};
  return {false, false, state.optimizer_begun};
}

Config without_freezing(Config config) {
  config.train.freeze.clear();
  return config;
}

std::string learning_note(const Graph& graph) {
  const int64_t learnt = graph.learnt_count(), all = graph.parameter_count();
  return learnt == all ? "" : str(learnt, " of ", all, " parameters learn (train.freeze)");
}

}  // namespace ct
