// Which way each operation takes of those that a library has for it.
#pragma once

#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"

namespace ct {

/// By machine, pass and shape, so that those of other machines are kept for them: a time measured on another machine
/// says nothing about this one.
class PlanBook {
 public:
  /// Empty where there is none yet.
  std::string& operator[](const std::string& key) { return plans_[key]; }
  /// Notes that a plan is not there any more (another version of a library), and why.
  void miss(std::string why) { missed_.push_back(std::move(why)); }

  /// All plans, a line each: key, a tab, the plan. Empty: there was no choice.
  std::string text() const {
    std::string text;
    for (const auto& [key, plan] : plans_)
      if (!plan.empty()) text += key + "\t" + plan + "\n";
    return text;
  }
  /// Has operations prepared from now on take the ways of another rank or an earlier run on such a device, for the same
  /// bits.
  void use(const std::string& text) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);)
      if (const size_t tab = line.find('\t'); tab != std::string::npos)
        plans_[line.substr(0, tab)] = line.substr(tab + 1);
  }
  /// The first of those that were not there, why, and how many more; empty: all were.
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
