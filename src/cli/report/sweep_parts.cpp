#include "cli/report/sweep_parts.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/paths.h"
#include "base/text.h"
#include "checkpoint/run_lock.h"
#include "cli/report/run_parts.h"
#include "cli/sweep/results.h"
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
  const PathKind kind = kind_of(path);
  if (kind == PathKind::nothing && !has_sweep_table(folder)) return {};
  const std::string text = kind == PathKind::file ? read_file(path) : "";
  const std::vector<std::string> names = list_folder(folder);
  std::set<std::string> left(names.begin(), names.end()), begun, planned;
  SweepParts sweep;
  const auto note = [&](const std::string& what) {
    sweep.missing.push_back(in_quotes(path.native()) + ": " + what + ", so not all is known of the sweep");
  };
  bool has_plan = false;
  int64_t damaged = 0;
  const auto take = [&](const std::string& name) {
    if (kind_of_entry(folder / name) == PathKind::folder && may_be_run(folder / name)) sweep.runs.push_back(name);
  };
  for (size_t begin = 0, end = 0; begin < text.size(); begin = end + 1) {
    end = std::min(text.find('\n', begin), text.size());
    if (end == begin) continue;
    const Tree record = shallow_json(std::string_view(text).substr(begin, end - begin));
    const std::string event = text_in(record, "event");
    if (event.empty()) {
      const bool is_being_written = end == text.size() && is_in_use(folder) != false;
      damaged += is_being_written ? 0 : 1;
      continue;
    }
    if (event == "sweep") {
      has_plan = true;
      const std::vector<std::string> runs = texts_in(record, "runs");
      sweep.planned = runs.size();
      planned.insert(runs.begin(), runs.end());
      sweep.keys = texts_in(record, "keys");
    }
    const std::string name = text_in(record, "run");
    sweep.codes.erase(name);  // it has begun again, or ended once more
    if (const int64_t code = count_in(record, "code"); event == "run" && code > 0) sweep.codes[name] = code;
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
  if (kind == PathKind::nothing)
    note(str("it is gone, although there is a sweep's ", kSweepTable));
  else if (kind != PathKind::file)
    note("it is no file");
  else if (damaged > 0)
    note(counted(damaged, "line") + (damaged == 1 ? " is" : " are") + " no record");
  else if (!has_plan && is_in_use(folder) == false)
    note("the names of its runs are not in it");
  return sweep;
}

}  // namespace ct::report
