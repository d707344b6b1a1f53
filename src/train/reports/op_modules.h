// Maps an operation of a lowered program to a module of the network, by the model's names of parameters and values:
// "layer1.0.conv1" is a part of "layer1.0", which is a part of "layer1".
#pragma once

#include <map>
#include <string>
#include <vector>

#include "plan/program.h"

namespace ct {

class OpModules {
 public:
  OpModules(const Graph& graph, const LoweredProgram& program);

  /// The module whose parameters the operation reads or whose gradients it writes; if there are none, the module whose
  /// values it writes or reads. "": the model itself. Operations outside layers are "(input)", "(loss)", "(update)" or
  /// "(exchange)".
  std::string of(const Op& op) const;
  /// The number of learnt elements of each module, including its submodules, by name; "" is the whole model.
  const std::map<std::string, int64_t>& parameters() const { return parameters_; }
  /// All modules in the order of their first parameters, each after the module that contains it; "" first.
  const std::vector<std::string>& names() const { return names_; }

 private:
  std::string longest_known(const std::string& value_name) const;

  const LoweredProgram& program_;
  std::map<ValueId, std::string> of_value_;  // of parameters and their gradients
  std::map<std::string, int64_t> parameters_;
  std::vector<std::string> names_ = {""};
};

/// "a.b.c" has the depth 3, "" 0.
int depth_of(const std::string& module);
/// The module without its last part: "a.b" of "a.b.c", "" of "a".
std::string parent_of(const std::string& module);

}  // namespace ct
