#include "train/foreign_names.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "model/vit_tiny.h"

namespace ct {
namespace {

/// "layer1.0." of "layer1.0.conv1.weight" and "layer1.0.bn1.weight": the whole parts that all names begin with.
template <class Named>
std::string common_parts(const std::vector<Named>& tensors) {
  const std::string* first = nullptr;
  size_t common = 0;
  for (const Named& t : tensors) {
    if (is_counter(t.name)) continue;
    if (!first) first = &t.name, common = t.name.size();
    const size_t most = std::min(common, t.name.size());
    common = static_cast<size_t>(
        std::mismatch(first->begin(), first->begin() + static_cast<ptrdiff_t>(most), t.name.begin()).first -
        first->begin());
  }
  return first ? first->substr(0, first->substr(0, common).rfind('.') + 1) : "";
}

using Names = std::set<std::string_view>;

/// What stands before all names of the tensors and not before all wanted ones, where wanted names stand behind it.
std::string prefix_of(const std::vector<LogicalTensor>& tensors, const std::vector<TensorSpec>& wanted,
                      const Names& names) {
  std::string prefix = common_parts(tensors);
  const std::string own = common_parts(wanted);
  if (!prefix.ends_with(own)) return "";
  prefix.resize(prefix.size() - own.size());
  const auto has = [&](size_t behind) {
    return std::ranges::any_of(tensors, [&](const LogicalTensor& t) {
      return t.name.size() > behind && names.contains(std::string_view(t.name).substr(behind));
    });
  };
  return !has(0) && has(prefix.size()) ? prefix : "";
}

}  // namespace

bool is_counter(std::string_view name) { return name.ends_with("num_batches_tracked") || name == "n_averaged"; }

std::string take_wanted_names(std::vector<LogicalTensor>& tensors, const std::vector<TensorSpec>& wanted) {
  Names names;
  for (const TensorSpec& spec : wanted) names.insert(spec.name);
  const std::string prefix = prefix_of(tensors, wanted, names);
  for (LogicalTensor& t : tensors) {
    if (t.name.starts_with(prefix)) t.name.erase(0, prefix.size());
    if (names.contains(t.name)) continue;
    if (std::string own = name_in_vit_tiny(t.name); names.contains(own)) t.name = std::move(own);
  }
  std::ranges::sort(tensors, {}, &LogicalTensor::name);
  return prefix;
}

}  // namespace ct
