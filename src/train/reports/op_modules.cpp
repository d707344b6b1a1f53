#include "train/reports/op_modules.h"

#include <algorithm>

namespace ct {

int depth_of(const std::string& module) {
  return module.empty() ? 0 : 1 + static_cast<int>(std::count(module.begin(), module.end(), '.'));
}

std::string parent_of(const std::string& module) {
  const size_t dot = module.rfind('.');
  return dot == std::string::npos ? "" : module.substr(0, dot);
}

OpModules::OpModules(const Graph& graph, const LoweredProgram& program) : program_(program) {
  parameters_[""] = graph.parameter_count();
  for (const Parameter& p : graph.parameters()) {
    const std::string module = parent_of(p.name);
    of_value_[p.value] = module;
    if (p.grad != kNone) of_value_[p.grad] = module;
    const int64_t learnt = p.statistic ? 0 : p.layout.numel();
    const auto behind = static_cast<std::ptrdiff_t>(names_.size());
    for (std::string at = module; !at.empty(); at = parent_of(at)) {
      if (!parameters_.contains(at)) names_.insert(names_.begin() + behind, at);
      parameters_[at] += learnt;
    }
  }
}

/// Values are called after the layer that makes them, "conv1.out.relu", and gradients "d " and that.
std::string OpModules::longest_known(const std::string& value_name) const {
  std::string name = value_name;
  while (name.starts_with("d ")) name = name.substr(2);
  while (!name.empty() && !parameters_.contains(name)) name = parent_of(name);
  return name;
}

std::string OpModules::of(const Op& op) const {
  const auto* compute = std::get_if<ComputeOp>(&op);
  if (compute == nullptr) return "(exchange)";
  switch (std::visit([](const auto& o) { return o.kFacts.role; }, *compute)) {
    case Role::input:
      return "(input)";
    case Role::loss:
      return "(loss)";
    case Role::update:
      return "(update)";
    case Role::layer:
    case Role::evaluation:
    case Role::gradient:
      break;
  }
  for (const Ids& ids : {reads(op), writes(op)})
    for (const ValueId id : ids)
      if (const auto found = of_value_.find(id); found != of_value_.end()) return found->second;
  for (const Ids& ids : {writes(op), reads(op)})
    for (const ValueId id : ids)
      if (const std::string module = longest_known(program_[id].name); !module.empty()) return module;
  return "";
}

}  // namespace ct
