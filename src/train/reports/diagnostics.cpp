#include "train/reports/diagnostics.h"

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/files.h"
#include "train/config/print.h"
#include "train/reports/memory_breakdown.h"

namespace ct {

void Diagnostics::print(const std::vector<std::string>& lines) {
  for (const std::string& line : lines) run_.log.note(line);
}

void Diagnostics::start() {
  const Config& config = run_.config;
  if (config.dump_state) print(state_dump(config, run_.session.comm().size()));
  if (config.memory_breakdown && run_.log.console().speaks()) {
    run_.log.note(memory_line("planned", planned_memory(run_.session, config)));
    report_memory("before training");
  }
  const int64_t profiled = config.flops_profiler.profile_step;
  if (config.flops_profiler.enabled && run_.state.step > profiled)
    run_.log.note(str("flops_profiler: step ", profiled + 1, " is past, so nothing is profiled"));
  if (const std::string doubt = comms_.doubt(); !doubt.empty()) run_.log.warn(doubt);
}

void Diagnostics::before_step() {
  const Config::FlopsProfiler& keys = run_.config.flops_profiler;
  if (!keys.enabled || run_.state.step != keys.profile_step) return;
  profile_.emplace(run_.session.graph(), run_.session.engine().lowered());
  begun_ = run_.clock.wall_seconds();
  run_.session.engine().bound().watch([this](const Step& step, double seconds) { profile_->took(step, seconds); });
}

void Diagnostics::after_step() {
  if (profile_) {
    run_.session.engine().bound().watch(nullptr);
    const double seconds = run_.clock.wall_seconds() - begun_;
    if (run_.log.console().speaks()) report_profile(seconds);
    profile_.reset();
    profiled_ = true;
  }
  if (first_ && run_.config.memory_breakdown) report_memory(str("after step ", run_.state.step));
  first_ = false;
  print(comms_.take_lines());
}

void Diagnostics::after_evaluation() {
  if (run_.config.memory_breakdown) report_memory(str("after the evaluation of step ", run_.state.step));
  print(comms_.take_lines());
}

void Diagnostics::end() {
  const Config& config = run_.config;
  run_.session.engine().settle();  // so that all collectives are counted
  if (config.memory_breakdown) report_memory("at the end");
  if (config.flops_profiler.enabled && !profiled_ && run_.state.step <= config.flops_profiler.profile_step)
    run_.log.note(str("flops_profiler: the run ended before step ", config.flops_profiler.profile_step + 1,
                      ", so nothing was profiled"));
  print(comms_.take_lines());
  if (config.comms_logger.enabled && comms_.doubt().empty()) print(comms_.table());
}

void Diagnostics::report_memory(const std::string& when) {
  if (!run_.log.console().speaks()) return;
  run_.log.note(memory_line("used " + when, used_memory(run_.session, saver_.snapshot_bytes())));
  run_.log.note(process_line(when, run_.session.backend().room()));
}

void Diagnostics::report_profile(double seconds) {
  const BatchSizes& batch = run_.session.batch();
  const std::vector<std::string> lines =
      profile_->text(run_.config.flops_profiler, {.model = run_.config.model.name,
                                                  .step = run_.state.step,
                                                  .images = batch.train,
                                                  .images_of_rank = batch.micro * batch.accumulation,
                                                  .seconds = seconds});
  if (!keeps_in_file(lines)) print(lines);
}

/// Writes flops_profiler.output_file. False: there is none, or it cannot be, which training does not end for; a file
/// that is no profile stays as it is.
bool Diagnostics::keeps_in_file(const std::vector<std::string>& lines) {
  const Path path = run_.config.flops_profiler.output_file;
  if (path.empty()) return false;
  try {
    std::error_code ignored;
    if (std::filesystem::is_regular_file(path, ignored) && std::filesystem::file_size(path, ignored) > 0) {
      std::string first;
      std::ifstream file(path);
      std::getline(file, first);
      if (first != lines.front())
        fail(ExitCode::io, in_quotes(path.native()), " is another file; give the name of a new one");
    }
    std::string text;
    for (const std::string& line : lines) text += line + "\n";
    FileSystem files;
    if (path.has_parent_path()) make_folders(files, path.parent_path());
    write_file_atomic(files, path, text);
    run_.log.note("flops_profiler: the profile is in " + in_quotes(path.native()));
    return true;
  } catch (const Error& error) {
    run_.log.warn(str("flops_profiler.output_file: ", error.what()));
    return false;
  }
}

}  // namespace ct
