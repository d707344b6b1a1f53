#include "cli/report/run_parts.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <functional>
#include <memory>

#include "base/error.h"
#include "base/paths.h"
#include "base/text.h"
#include "base/version.h"
#include "checkpoint/run_lock.h"
#include "checkpoint/store.h"
#include "train/config/document.h"
#include "train/run/run_files.h"
#include "train/weights.h"

namespace ct::report {
namespace {

constexpr size_t kMostKeys = 500, kMostCheckpoints = 10000;

/// Is it a file, or unknown because the disk fails?
bool may_be_file(const Path& path) {
  struct stat info {};
  return FileSystem().status(path, info) == 0 ? S_ISREG(info.st_mode) : errno == EIO || errno == ESTALE;
}

/// Reads a part; a failure is noted with the part's name, and leaves the rest as it is.
void read_part_of(RunParts& run, std::string_view part, const std::function<void()>& read) {
  try {
    read();
  } catch (const Error& error) {
    if (error.code() == ExitCode::memory) throw;
    run.unreadable |= error.code() == ExitCode::io && may_be_file(run.folder / part);
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
  if (file.was_cut())
    run.missing.push_back(str(kMetricsFile, ": its end could not be read: it was cut meanwhile, or its disk fails"));
  const std::string writer = text_in(run.records.start, "version");
  if (run.records.damaged > 0)
    run.missing.push_back(
        str(kMetricsFile, ": ", counted(run.records.damaged, "line"), run.records.damaged == 1 ? " is" : " are",
            " no record",
            writer.empty() || writer == version()
                ? ""
                : str(" that cifar-train ", version(), " knows: cifar-train ", writer, " wrote them")));
}

/// The records of a run that continues from a checkpoint are rewound to it, so that no step is told twice.
void check_order(RunParts& run) {
  if (const int64_t count = run.records.disordered; count > 0)
    run.missing.push_back(str(kMetricsFile, ": ", counted(count, "record"),
                              count == 1 ? " repeats a step or goes" : " repeat steps or go",
                              " back: it has lines twice, or lines of another run"));
}

/// Has the folder the configuration of the run of which the records tell?
void check_config(RunParts& run) {
  const Tree &seed = child(run.records.start, "seed"), &model = child(run.records.start, "model");
  const auto differs = [&](std::string_view key, const std::string& told) {
    const std::string value = run.value(key);
    if (value.empty() || value == told) return false;
    run.missing.push_back(
        str(kConfigFile, ": is of another run: ", key, " is ", value, ", in ", kMetricsFile, " ", told));
    return true;
  };
  if (model.is_string() && differs("model.name", model.get<std::string>())) return;
  if (seed.is_number()) differs("seed", seed.dump());
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
  if (!is_sealed_config(text))
    run.missing.push_back(
        str(kConfigFile, ": it was changed since the run wrote it, so its values may not be the run's"));
}

void add_origins(RunParts& run) {
  const auto origins = run.records.start.find("origins");
  if (origins == run.records.start.end() || !origins->is_object()) return;
  for (ConfigKey& key : run.config) {
    const std::string origin = text_in(*origins, key.key.c_str());
    key.origin = origin.empty() ? "default" : origin;
  }
}

/// The files are compared with the manifest, but for their elements: to read these may take minutes.
void read_checkpoints(RunParts& run) {
  const Path folder = run.folder / kCheckpointFolder;
  if (!is_folder(folder)) return;
  FileSystem files;
  const Store store(files, folder, {});
  for (const int64_t step : store.list()) {
    if (run.checkpoints.size() == kMostCheckpoints) break;
    SavedStep saved{.step = step};
    std::vector<std::string> faults;
    const auto note = [&](const Error& error) { faults.emplace_back(error.what()); };
    try {
      const Manifest manifest = store.manifest(step);
      for (const Part& part : manifest.parts) saved.bytes += part.bytes;
      saved.files = manifest.parts.size();
      saved.not_finite = manifest.not_finite.size();
      for (const Part& part : manifest.parts)
        verify_part(store.path_of(step), part, SafetensorsFile::Check::header, note);
    } catch (const Error& error) {
      if (error.code() == ExitCode::memory) throw;
      note(error);
    }
    saved.damaged = !faults.empty();
    if (saved.damaged && !is_there(store.path_of(step))) continue;  // the run has removed it meanwhile
    for (const std::string& fault : faults) run.missing.push_back(str("the checkpoint of step ", step, ": ", fault));
    run.checkpoints.push_back(saved);
  }
}

/// Weights, by their header, and the names of the classes that the records have accuracies of.
void read_weights(RunParts& run, std::string_view name) {
  const Path path = run.folder / name;
  if (!is_there(path)) return;
  std::vector<std::string> names = info_of(SafetensorsFile(path, SafetensorsFile::Check::header)).class_names;
  if (!run.evaluation && names.size() == run.records.per_class.size()) run.classes = std::move(names);
}

/// The error in a log's last line.
void read_failure(RunParts& run) {
  const Path path = run.folder / "log.txt";
  if (kind_of(path) != PathKind::file) return;
  const std::string text(trimmed(read_file(path), " \t\r\n"));
  const std::string last = text.substr(text.rfind('\n') + 1);  // npos + 1: the text is one line
  if (constexpr std::string_view kError = "error: "; last.starts_with(kError)) run.failure = last.substr(kError.size());
}

bool is_sha256(std::string_view text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == text.npos;
}

/// The weights of which the records tell: the first evaluation and each better one writes best.bin, and the end
/// last.bin.
void check_weights(RunParts& run, bool has_ended) {
  const EvalRecord* const best = best_evaluation(run.records);
  if (run.in_use == false && best && !std::isnan(best->accuracy) && !is_there(run.folder / kBestFile))
    run.missing.push_back(str(kBestFile, ": there is none, although ", kMetricsFile, " tells of an evaluation"));
  if (run.in_use == false && has_ended && !is_there(run.folder / kLastFile))
    run.missing.push_back(str(kLastFile, ": there is none, although the run has ended"));
  const Tree& hash = child(run.records.end, "weights_sha256");
  if (!hash.is_null() && !(hash.is_string() && is_sha256(hash.get_ref<const std::string&>())))
    run.missing.push_back(str(kMetricsFile, ": weights_sha256 is not 64 hexadecimal digits"));
}

/// What one part says of another one that is not there, or says otherwise.
void compare_parts(RunParts& run) {
  const RunRecords& r = run.records;
  check_order(run);
  check_config(run);
  // The newest checkpoint is never removed; while a run goes on, a newer one may have replaced it.
  if (r.saved >= 0 && (run.checkpoints.empty() || run.checkpoints.back().step < r.saved))
    run.missing.push_back(
        str(kCheckpointFolder, ": the checkpoint of step ", r.saved, ", of which ", kMetricsFile, " tells, is gone"));
  if (r.empty() && !run.checkpoints.empty())
    run.missing.push_back(str(kMetricsFile, run.written == 0 ? ": there is none" : ": there is no record in it"));
  if (!r.empty() && r.starts == 0)
    run.missing.push_back(str(kMetricsFile, ": its start is missing, so data set, model and machine are not shown"));
  if (!r.empty() && !is_there(run.folder / kConfigFile)) run.missing.push_back(str(kConfigFile, ": there is none"));
  const bool has_weights = r.ended && run.reason() != "stopped" && run.reason() != "diverged";
  if (run.in_use == false && has_weights && !is_there(run.folder / kEvaluationFile))
    run.missing.push_back(
        str(kEvaluationFile, ": there is none, so the figures of its classes are missing: eval finds them anew"));
  check_weights(run, has_weights);
  if (run.in_use == false && r.cut)
    run.missing.push_back(str(kMetricsFile, ": its last line is no record, or was cut"));
  if (!run.evaluation || r.empty()) return;
  const FinalEvaluation& e = *run.evaluation;
  // It is written after the records of its step, just before the one of the end.
  const auto is_its = [&](const EvalRecord& record) {
    return record.step == e.step && word_of(record.split) == e.split;
  };
  const auto record = std::ranges::find_if(r.evals, is_its);
  if (run.in_use == false && !r.ended)
    run.missing.push_back(
        str(kMetricsFile, ": its end is missing: ", kEvaluationFile, ", of step ", e.step, ", is of a run that ended"));
  else if (run.in_use == false && record == r.evals.end())
    run.missing.push_back(
        str(kEvaluationFile, ": is of step ", e.step, ", of which ", kMetricsFile, " has no evaluation"));
  constexpr double kSame = 1e-3;  // another device may have repeated the evaluation
  const auto differ = [](double a, double b) {
    if (std::isnan(a) || std::isnan(b)) return std::isnan(a) != std::isnan(b);
    return std::abs(a - b) > kSame * std::max(1.0, std::abs(a));
  };
  if (record != r.evals.end() && (differ(record->loss, e.loss) || differ(record->accuracy, e.accuracy) ||
                                  (record->images > 0 && record->images != e.images)))
    run.missing.push_back(str(kEvaluationFile, ": its figures are not those of ", kMetricsFile));
}

}  // namespace

std::string RunParts::value(std::string_view key) const {
  const auto found = std::ranges::find(config, key, &ConfigKey::key);
  return found == config.end() ? "" : found->value;
}

std::string RunParts::reason() const { return records.ended ? text_in(records.end, "reason") : ""; }

bool RunParts::contradicts_sweep() const {
  return code != 0 && records.ended && reason() != "stopped" && reason() != "diverged";
}

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
  for (const std::string_view name : {kLastFile, kBestFile}) read_part_of(run, name, [&] { read_weights(run, name); });
  read_part_of(run, kLockName, [&] { run.in_use = is_in_use(folder); });
  read_part_of(run, "log.txt", [&] { read_failure(run); });
  read_part_of(run, "the run", [&] { compare_parts(run); });
  add_origins(run);
  return run;
}

bool is_run(const RunParts& run) { return !run.records.empty() || !run.checkpoints.empty(); }

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
