#include "cli/report/run_parts.h"

#include <algorithm>
#include <functional>
#include <memory>

#include "base/error.h"
#include "base/paths.h"
#include "base/text.h"
#include "checkpoint/store.h"
#include "train/config/document.h"
#include "train/run/run_files.h"

namespace ct::report {
namespace {

constexpr size_t kMostKeys = 500, kMostCheckpoints = 10000;

/// Reads a part; a failure is noted with the part's name, and leaves the rest as it is.
void read_part_of(RunParts& run, std::string_view part, const std::function<void()>& read) {
  try {
    read();
  } catch (const Error& error) {
    if (error.code() == ExitCode::memory) throw;
    run.missing.push_back(str(part, ": ", error.what()));
  }
}

void read_metrics(RunParts& run) {
  const Path path = run.folder / kMetricsFile;
  struct stat info {};
  FileSystem files;
  if (!is_there(path)) return;
  const MappedFile file(path);
  run.records = read_records(file.text());
  if (files.status(path, info) == 0) run.written = info.st_mtime;
  if (file.was_cut()) run.missing.push_back(str(kMetricsFile, ": it was cut while it was read"));
  if (run.records.damaged > 0)
    run.missing.push_back(str(kMetricsFile, ": ", counted(run.records.damaged, "line"),
                              run.records.damaged == 1 ? " is" : " are", " no record"));
}

void flatten(const document::Node& node, const std::string& prefix, std::vector<ConfigKey>& keys) {
  for (const document::Entry& entry : node.entries) {
    const std::string key = prefix + entry.key;
    if (entry.value.kind == document::Kind::map && !entry.value.entries.empty())
      flatten(entry.value, key + ".", keys);
    else if (keys.size() < kMostKeys)
      keys.push_back({key, document::flow(entry.value), ""});
  }
}

/// The schema is not asked, so that a configuration of a newer version is shown, too.
void read_config(RunParts& run) {
  const Path path = run.folder / kConfigFile;
  if (!is_there(path)) return;
  const std::string text = read_file(path, document::kMaxBytes);
  flatten(document::parse_yaml(text, std::make_shared<document::Origin>(std::string(kConfigFile))), "", run.config);
}

void add_origins(RunParts& run) {
  const auto origins = run.records.start.find("origins");
  if (origins == run.records.start.end() || !origins->is_object()) return;
  for (ConfigKey& key : run.config) {
    const std::string origin = text_in(*origins, key.key.c_str());
    key.origin = origin.empty() ? "default" : origin;
  }
}

void read_checkpoints(RunParts& run) {
  const Path folder = run.folder / kCheckpointFolder;
  if (!is_folder(folder)) return;
  FileSystem files;
  const Store store(files, folder, {});
  for (const int64_t step : store.list()) {
    if (run.checkpoints.size() == kMostCheckpoints) break;
    SavedStep saved{.step = step};
    try {
      const Manifest manifest = store.manifest(step);
      for (const Part& part : manifest.parts) saved.bytes += part.bytes;
      saved.files = manifest.parts.size();
      saved.not_finite = manifest.not_finite.size();
    } catch (const Error& error) {
      if (error.code() == ExitCode::memory) throw;
      if (!is_there(store.path_of(step))) continue;  // the run has removed it meanwhile
      saved.readable = false;
      run.missing.push_back(str("the checkpoint of step ", step, ": ", error.what()));
    }
    run.checkpoints.push_back(saved);
  }
}

}  // namespace

std::string RunParts::value(std::string_view key) const {
  const auto found = std::ranges::find(config, key, &ConfigKey::key);
  return found == config.end() ? "" : found->value;
}

std::string RunParts::reason() const { return records.ended ? text_in(records.end, "reason") : ""; }

bool may_be_run(const Path& folder) {
  const auto is_there_or_unreadable = [&](std::string_view name) {
    try {
      return is_there(folder / name);
    } catch (const Error&) {
      return true;
    }
  };
  return is_there_or_unreadable(kMetricsFile) || is_there_or_unreadable(kCheckpointFolder) ||
         is_there_or_unreadable(kConfigFile);
}

RunParts read_run(const Path& folder, const std::string& name) {
  RunParts run{.folder = folder, .name = name};
  read_part_of(run, kMetricsFile, [&] { read_metrics(run); });
  read_part_of(run, kConfigFile, [&] { read_config(run); });
  read_part_of(run, kCheckpointFolder, [&] { read_checkpoints(run); });
  run.evaluation = read_evaluation(folder, run.missing);
  if (!run.records.empty()) {
    read_part_of(run, kConfigFile, [&] {
      if (!is_there(folder / kConfigFile)) run.missing.push_back(str(kConfigFile, ": there is none"));
    });
  } else if (!run.checkpoints.empty() && run.written == 0) {
    run.missing.push_back(str(kMetricsFile, ": there is none"));
  }
  add_origins(run);
  return run;
}

bool is_run(const RunParts& run) { return !run.records.empty() || !run.checkpoints.empty(); }

std::optional<std::vector<std::string>> runs_of_sweep(const Path& folder) {
  const Path path = folder / kSweepRecords;
  if (kind_of(path) != PathKind::file) return {};
  const std::string text = read_file(path);
  std::vector<std::string> names, all = list_folder(folder);
  size_t begin = 0;
  for (size_t end; (end = text.find('\n', begin)) != text.npos; begin = end + 1) {
    const Tree record = shallow_json(std::string_view(text).substr(begin, end - begin));
    if (!record.is_object()) continue;
    const std::string name = text_in(record, "run");
    const auto found = std::ranges::find(all, name);
    if (found == all.end()) continue;
    names.push_back(name);
    all.erase(found);
  }
  names.insert(names.end(), all.begin(), all.end());
  std::erase_if(names, [&](const std::string& name) {
    return kind_of_entry(folder / name) != PathKind::folder || !may_be_run(folder / name);
  });
  return names;
}

const EvalRecord* newest_evaluation(const RunRecords& records, EvaluatedSplit split) {
  const EvalRecord* newest = nullptr;
  for (const EvalRecord& record : records.evals)
    if (record.split == split) newest = &record;
  return newest;
}

const EvalRecord* best_evaluation(const RunRecords& records) {
  if (records.ended) {
    const auto best = records.end.find("best");
    if (best != records.end.end() && best->is_object())
      for (const EvalRecord& record : records.evals)
        if (record.step == count_in(*best, "step") && word_of(record.split) == text_in(*best, "split")) return &record;
  }
  for (const EvaluatedSplit split : {EvaluatedSplit::val, EvaluatedSplit::test, EvaluatedSplit::train})
    if (const EvalRecord* const newest = newest_evaluation(records, split)) return newest;
  return nullptr;
}

}  // namespace ct::report
