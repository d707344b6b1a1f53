#include "checkpoint/tensor_differences.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <string_view>

#include "base/error.h"
#include "base/text.h"

namespace ct {
namespace {

/// "missing: 'a', 'b' and 3 more"
std::string listed(const char* what, const std::vector<std::string>& tensors) {
  constexpr size_t kMost = 10;
  if (tensors.empty()) return "";
  const auto shown = std::span(tensors).first(std::min(kMost, tensors.size()));
  return str(what, ": ", joined(shown, ", "),
             tensors.size() > kMost ? str(" and ", tensors.size() - kMost, " more") : "");
}

/// How long the lists of a network's equal parts are, by the first number in its tensors' names: of
/// "blocks.11.norm.bias" and others "blocks" has 12.
class Depths {
 public:
  void add(std::string_view name) {
    size_t begin = name.find('.') + 1;  // of a part behind a dot; 0: there is none
    for (size_t dot; begin > 0 && (dot = name.find('.', begin)) != std::string_view::npos; begin = dot + 1) {
      const std::string_view part = name.substr(begin, dot - begin);
      int64_t number = 0;
      const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), number);
      if (error != std::errc() || end != part.data() + part.size() || number < 0 || number > 1'000'000) continue;
      int64_t& depth = depths_[std::string(name.substr(0, begin - 1))];
      depth = std::max(depth, number + 1);
      return;
    }
  }
  /// "blocks 12 for 6" where both have such a list, of another length.
  std::vector<std::string> other_than(const Depths& wanted) const {
    std::vector<std::string> others;
    for (const auto& [list, depth] : depths_)
      if (const auto found = wanted.depths_.find(list); found != wanted.depths_.end() && found->second != depth)
        others.push_back(str(in_quotes(list), " ", depth, " for ", found->second));
    return others;
  }

 private:
  std::map<std::string, int64_t> depths_;
};

}  // namespace

std::string tensor_differences(const std::vector<LogicalTensor>& tensors, const std::vector<TensorSpec>& wanted,
                               bool (*ignored)(std::string_view name)) {
  std::vector<std::string> missing, other, unexpected;
  std::set<std::string_view> names;
  Depths here, there;
  for (const TensorSpec& spec : wanted) {
    names.insert(spec.name);
    there.add(spec.name);
    const LogicalTensor* t = find(tensors, spec.name);
    if (t == nullptr)
      missing.push_back(in_quotes(spec.name));
    else if (t->dtype != spec.dtype || t->shape != spec.shape)
      other.push_back(str(in_quotes(t->name), " ", describe({t->name, t->dtype, t->shape, {}}), " for ",
                          describe({spec.name, spec.dtype, spec.shape, {}})));
  }
  for (const LogicalTensor& t : tensors) {
    if (ignored && ignored(t.name)) continue;
    here.add(t.name);
    if (!names.contains(t.name)) unexpected.push_back(in_quotes(t.name));
  }
  std::vector<std::string> parts = {listed("of another depth", here.other_than(there)), listed("missing", missing),
                                    listed("of another shape", other), listed("unexpected", unexpected)};
  std::erase(parts, "");
  return joined(parts, "; ");
}

void refuse_tensors(const Path& path, const std::string& differences, const std::string& why) {
  fail(ExitCode::checkpoint, in_quotes(path.native()), " has different tensors from the model's (", differences,
       "): ", why);
}

void require_tensors(const std::vector<LogicalTensor>& tensors, const std::vector<TensorSpec>& wanted, const Path& path,
                     bool (*ignored)(std::string_view name)) {
  if (const std::string differences = tensor_differences(tensors, wanted, ignored); !differences.empty())
    refuse_tensors(path, differences, "it is of another model, give the configuration that wrote it");
}

}  // namespace ct
