#include "cli/jobscript/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "base/error.h"
#include "base/files.h"
#include "base/text.h"
#include "cli/verbs.h"
#include "train/device.h"

namespace ct {
namespace {

constexpr int64_t kShort = 60;  // seconds in which a run may not come to save

/// Of directives, which no shell reads: nothing to be quoted.
void require_plain(const char* option, const std::string& text) {
  const bool plain = std::ranges::all_of(text, [](unsigned char c) {
    return std::isalnum(c) != 0 || std::string_view("._-@+").find(static_cast<char>(c)) != std::string_view::npos;
  });
  if (!plain) fail(ExitCode::usage, option, " ", in_quotes(text), ": give letters, digits and . _ - @ + only");
}

}  // namespace

void add_job_options(CLI::App& app, JobOptions& o) {
  app.add_option("--time", o.time, "time limit of the job: HH:MM:SS, D-HH:MM:SS, or 90m, 12h");
  app.add_option("--signal-before", o.signal_before,
                 "seconds before the limit at which the run is asked to save and exit")
      ->check(CLI::Range(1, 86400))
      ->capture_default_str();
  app.add_option("--name", o.name, "name of the job")->capture_default_str();
  app.add_option("--queue", o.queue, "the site's queue or partition");
  app.add_option("--account", o.account, "the site's account, project or group");
  app.add_option("--pe", o.parallel_environment, "Grid Engine's parallel environment")->capture_default_str();
  app.add_option("--gpus-per-node", o.gpus_per_node, "GPUs to request on each host")->check(CLI::Range(0, 1024));
}

JobRequest job_request(const JobOptions& o) {
  JobRequest request{.gpus_per_node = o.gpus_per_node,
                     .signal_before = o.signal_before,
                     .name = o.name,
                     .queue = o.queue,
                     .account = o.account,
                     .parallel_environment = o.parallel_environment};
  const std::string scheduler = lower_case(o.scheduler);
  if (scheduler != "slurm" && scheduler != "sge" && scheduler != "pbs")
    fail(ExitCode::usage, "scheduler ", in_quotes(o.scheduler), ": give slurm, sge or pbs");
  request.scheduler = of_word(scheduler, Scheduler::slurm);
  if (o.time.empty()) fail(ExitCode::usage, "a job needs a limit: give --time HH:MM:SS");
  const auto seconds = parse_duration(o.time);
  if (!seconds) fail(ExitCode::usage, "--time ", in_quotes(o.time), ": give HH:MM:SS, D-HH:MM:SS, or 90m, 12h");
  request.seconds = *seconds;
  if (*seconds <= o.signal_before)
    fail(ExitCode::usage, "--time ", o.time, " does not exceed --signal-before ", o.signal_before,
         " s: give the job more time");
  if (*seconds - o.signal_before < kShort)
    warn(str("--time ", o.time, " leaves ", *seconds - o.signal_before,
             " s until the run is asked to end: this may be ",
             "too short for one save, and the job would never progress"));
  if (o.name.empty() || std::isalpha(static_cast<unsigned char>(o.name[0])) == 0)
    fail(ExitCode::usage, "--name ", in_quotes(o.name), ": begin it with a letter");
  require_plain("--name", o.name);
  require_plain("--queue", o.queue);
  require_plain("--account", o.account);
  require_plain("--pe", o.parallel_environment);
  return request;
}

void require_gpus_asked_for(const JobOptions& o, const Config& config, int64_t ranks) {
  if (o.gpus_per_node > 0 && config.device != "cpu") require_gpu_each(config, ranks, o.gpus_per_node);
}

std::string short_job_warning() {
  for (const char* variable : {kJobEndVariable, "SLURM_JOB_END_TIME"}) {
    const char* text = std::getenv(variable);
    int64_t end = 0;
    if (text == nullptr) continue;
    if (const char* stop = text + std::strlen(text); std::from_chars(text, stop, end).ptr != stop || end <= 0)
      return str(variable, "=", in_quotes(text), " is not a time in seconds since 1970, and is ignored");
    const int64_t left = end - static_cast<int64_t>(std::time(nullptr));
    if (left < 0)
      return str(variable, "=", text, " is over for ", -left, " s: it may be inherited from an earlier job");
    if (left >= kShort) return "";
    return str("this job ends in ", left, " s (", variable,
               "), which may be too short to save once: ask the scheduler for more time");
  }
  return "";
}

}  // namespace ct
