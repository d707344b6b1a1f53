// Which module of the network an operation of a lowered program belongs to, by the names that parameters and values
// have from the model: "layer1.0.conv1" is a part of "layer1.0", and that of "layer1".
#pragma once

#include <map>
#include <string>
#include <vector>

#include "plan/program.h"

namespace ct {

class OpModules {
 public:
  OpModules(const Graph& graph, const LoweredProgram& program);

  /// The module whose parameters it reads or writes the gradient of; without any, the one whose values it writes or
  /// reads. "": the model's own. What is no layer is "(input)", "(loss)", "(update)" or "(exchange)".
  std::string of(const Op& op) const;
  /// What is learnt of each module, all that lies in it counted: by name, "" for the whole model.
  const std::map<std::string, int64_t>& parameters() const { return parameters_; }
  /// All modules in the order of their first parameters, each behind the one that it is a part of; "" first.
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
