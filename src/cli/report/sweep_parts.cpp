#include "cli/report/sweep_parts.h"

#include <set>

#include "base/error.h"
#include "base/paths.h"
#include "cli/report/run_parts.h"
#include "train/run/run_files.h"

namespace ct::report {
namespace {

std::vector<std::string> texts_in(const Tree& object, const char* key) {
  std::vector<std::string> texts;
  const Tree& list = child(object, key);
  if (list.is_array())
    for (const Tree& one : list)
      if (one.is_string()) texts.push_back(one.get<std::string>());
  return texts;
}

}  // namespace

std::optional<SweepParts> read_sweep(const Path& folder) {
  const Path path = folder / kSweepRecords;
  if (kind_of(path) != PathKind::file) return {};
  const std::string text = read_file(path);
  const std::vector<std::string> names = list_folder(folder);
  std::set<std::string> left(names.begin(), names.end()), begun, planned;
  SweepParts sweep;
  const auto take = [&](const std::string& name) {
    if (kind_of_entry(folder / name) == PathKind::folder && may_be_run(folder / name)) sweep.runs.push_back(name);
  };
  size_t begin = 0;
  for (size_t end; (end = text.find('\n', begin)) != text.npos; begin = end + 1) {
    const Tree record = shallow_json(std::string_view(text).substr(begin, end - begin));
    if (!record.is_object()) continue;
    if (text_in(record, "event") == "sweep") {
      const std::vector<std::string> runs = texts_in(record, "runs");
      sweep.planned = runs.size();
      planned.insert(runs.begin(), runs.end());
      sweep.keys = texts_in(record, "keys");
    }
    const std::string name = text_in(record, "run");
    if (name.empty() || !begun.insert(name).second) continue;
    if (left.erase(name) > 0)
      take(name);
    else
      sweep.missing.push_back(in_quotes((folder / name).native()) +
                              ": the run's folder is gone, although sweep.jsonl says that it began");
  }
  for (const std::string& name : left) {
    const size_t before = sweep.runs.size();
    take(name);
    if (sweep.runs.size() == before || planned.empty() || planned.contains(name)) continue;
    sweep.runs.pop_back();
    sweep.strangers.push_back(in_quotes((folder / name).native()) +
                              ": is no run of the sweep by its sweep.jsonl, and left out: give this folder by itself");
  }
  sweep.begun = begun.size();
  return sweep;
}

}  // namespace ct::report
