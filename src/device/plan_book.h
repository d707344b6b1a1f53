// The choice among the algorithms (plans) that a library offers for each operation.
#pragma once

#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"

namespace ct {

/// The chosen plans by machine, pass and shape. Plans of other machines are kept for those machines, because a time
/// that was measured on one machine says nothing about another.
class PlanBook {
 public:
  /// The plan of a key; empty: none is chosen yet.
  std::string& operator[](const std::string& key) { return plans_[key]; }
  /// Records the reason why a plan is no longer available, for example another version of the library.
  void miss(std::string why) { missed_.push_back(std::move(why)); }

  /// All plans, one in each line: the key, a tab, the plan. Empty: no plan was chosen.
  std::string text() const {
    std::string text;
    for (const auto& [key, plan] : plans_)
      if (!plan.empty()) text += key + "\t" + plan + "\n";
    return text;
  }
  /// Makes operations that are prepared from now on use the plans of another rank, or of an earlier run on such a
  /// device, so that they give the same bits.
  void use(const std::string& text) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);)
      if (const size_t tab = line.find('\t'); tab != std::string::npos)
        plans_[line.substr(0, tab)] = line.substr(tab + 1);
  }
  /// The reason for the first plan that was not available, and the number of others; empty: all were available.
  std::string missed() const {
    if (missed_.empty()) return "";
    const size_t more = missed_.size() - 1;
    return missed_.front() + (more > 0 ? str(" (and ", more, " more like it)") : "");
  }

 private:
  std::map<std::string, std::string> plans_;
  std::vector<std::string> missed_;
};

}  // namespace ct
