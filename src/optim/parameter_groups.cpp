#include "optim/parameter_groups.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace ct::optim {
namespace {

/// The part of a pattern that one character of a name matches: `?`, a set in brackets, or a character.
struct Place {
  std::string_view text;
  bool holds(char c) const {
    if (text.size() < 3) return text == "?" || text[0] == c;
    const std::string_view set = text.substr(1, text.size() - 2);
    for (size_t i = 0; i < set.size(); ++i) {
      const bool range = i + 2 < set.size() && set[i + 1] == '-';
      if (range ? set[i] <= c && c <= set[i + 2] : set[i] == c) return true;
      if (range) i += 2;
    }
    return false;
  }
};
Place place_at(std::string_view pattern, size_t at) {
  const size_t end = pattern[at] == '[' ? pattern.find(']', at + 2) : std::string_view::npos;
  return {pattern.substr(at, end == std::string_view::npos ? 1 : end + 1 - at)};
}

bool holds(const ParameterGroup& group, const Parameter& p) {
  return matches(group.pattern, p.name) &&
         (!group.dimensions || *group.dimensions == static_cast<int64_t>(p.shape.size()));
}

}  // namespace

bool matches(std::string_view pattern, std::string_view name) {
  size_t p = 0, n = 0, star = pattern.size(), resume = 0;  // the last *, and where the name goes on behind it
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*')
      star = p++, resume = n;
    else if (p < pattern.size() && place_at(pattern, p).holds(name[n]))
      p += place_at(pattern, p).text.size(), ++n;
    else if (star < pattern.size())
      p = star + 1, n = ++resume;
    else
      return false;
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

std::vector<ConfigKey> keys_of(ParameterGroup& group) {
  return {{"pattern", &group.pattern, "pattern of parameter names"},
          {"dimensions", &group.dimensions, "number of dimensions of the parameter", {.min = 0}},
          {"rows", &group.rows, "the first N rows of each parameter", {.min = 1}},
          {"lr_scale", &group.lr_scale, "factor of the rate", {.min = 0}},
          {"weight_decay", &group.weight_decay, "replaces the optimizer's", {.min = 0}}};
}

std::vector<ParameterTreatment> treatments(const Graph& graph, const std::vector<ParameterGroup>& groups,
                                           double weight_decay, double layer_decay) {
  const auto last_layer = static_cast<int>(graph.units().size()) - 1;
  std::vector<ParameterTreatment> all(graph.parameters().size());
  std::vector<bool> taken(groups.size()), matched(groups.size());
  for (size_t i = 0; i < all.size(); ++i) {
    const Parameter& p = graph.parameters()[i];
    if (p.statistic) continue;
    const double scale = std::pow(layer_decay, last_layer - p.unit);
    static_cast<Treatment&>(all[i]) = {weight_decay, static_cast<float>(scale)};
    const int64_t rows = p.layout.dims.front();
    int64_t begin = 0;  // of the rows that no group has taken
    for (size_t k = 0; k < groups.size(); ++k) {
      const ParameterGroup& group = groups[k];
      if (!holds(group, p)) continue;
      matched[k] = true;
      const int64_t end = std::min(group.rows.value_or(rows), rows);
      if (end <= begin) continue;
      taken[k] = true;
      begin = end;
      const Treatment own{group.weight_decay.value_or(weight_decay), static_cast<float>(scale * group.lr_scale)};
      if (end == rows)
        static_cast<Treatment&>(all[i]) = own;
      else
        all[i].first_rows.push_back({end, own});
    }
  }
  for (size_t k = 0; k < groups.size(); ++k) {
    if (taken[k] || groups[k].may_be_empty) continue;
    const std::string group = str("optimizer.groups[", k, "] (pattern ", groups[k].pattern,
                                  groups[k].dimensions ? str(", dimensions ", *groups[k].dimensions) : "",
                                  groups[k].rows ? str(", rows ", *groups[k].rows) : "", ")");
    if (matched[k])
      fail(ExitCode::usage, group, " is empty, because earlier groups match all of its parameters; put it before them");
    std::string names;
    for (const Parameter& p : graph.parameters())
      if (!p.statistic) names += (names.empty() ? "" : ", ") + p.name;
    fail(ExitCode::usage, group, " matches no parameter of the model, whose parameters are ", names);
  }
  return all;
}

}  // namespace ct::optim
