#include "cli/jobscript/script.h"

#include <fmt/format.h>

#include <cstdio>
#include <regex>
#include <sstream>
#include <string_view>

#include "base/error.h"
#include "base/shell_word.h"

namespace ct {
namespace {

using Words = std::vector<std::string>;

/// What differs between schedulers. Lines end with a line break.
struct Dialect {
  std::string header;
  std::string hosts;       // writes lines "NAME slots=N" of the scheduler's list to standard output
  const char* task;        // the number of an array job's task, from 0
  const char* requeue;     // when the run was stopped with a good checkpoint
  const char* timer = "";  // why the script itself signals before the limit; empty: the scheduler does
};

Dialect slurm(const JobRequest& r) {
  std::string header;
  const auto line = [&](const auto&... parts) { header += str("#SBATCH --", parts..., "\n"); };
  line("job-name=", r.name);
  line("nodes=", r.nodes);
  line(r.array ? "ntasks-per-node=1" : str("ntasks-per-node=", r.ranks_per_node));
  if (r.array && r.ranks_per_node > 1) line("cpus-per-task=", r.ranks_per_node);
  if (r.gpus_per_node > 0) line("gpus-per-node=", r.gpus_per_node);
  if (r.words.size() > 1) line("array=0-", r.words.size() - 1);
  line("time=", duration_text(r.seconds));
  line("signal=B:USR1@", r.signal_before);
  line("requeue");
  line("open-mode=append");
  line(r.words.size() > 1 ? "output=%x-%A_%a.out" : "output=%x-%j.out");
  if (!r.queue.empty()) line("partition=", r.queue);
  if (!r.account.empty()) line("account=", r.account);
  return {
      .header = header,
      .hosts = str(R"(scontrol show hostnames "$SLURM_JOB_NODELIST" | sed 's/$/ slots=)", r.ranks_per_node, "/'"),
      .task = "task=${SLURM_ARRAY_TASK_ID:-0}",
      .requeue = R"(# Slurm runs jobs again whose exit code is in its RequeueExit; where 75 is not, the job asks for it.
if [ "$code" -eq 75 ] && [ -z "$cancelled" ]; then
  case ",$(scontrol show config 2>/dev/null | awk '$1 == "RequeueExit" { print $3 }')," in
    *,75,*) ;;
    *) scontrol requeue "${SLURM_ARRAY_JOB_ID:+${SLURM_ARRAY_JOB_ID}_}${SLURM_ARRAY_TASK_ID:-$SLURM_JOB_ID}" ;;
  esac
fi
)"};
}

Dialect sge(const JobRequest& r) {
  std::string header;
  const auto line = [&](const auto&... parts) { header += str("#$ -", parts..., "\n"); };
  line("N ", r.name);
  line("cwd");
  line("j y");
  line("S /bin/bash");
  const int slots = r.array ? r.ranks_per_node : r.nodes * r.ranks_per_node;
  if (slots > 1) line("pe ", r.parallel_environment, " ", slots);
  if (r.words.size() > 1) line("t 1-", r.words.size());
  line("l h_rt=", duration_text(r.seconds));
  line("notify");
  line("r y");
  if (!r.queue.empty()) line("q ", r.queue);
  if (!r.account.empty()) line("P ", r.account);
  if (r.gpus_per_node > 0)
    header += str("# Add your site's request for ", r.gpus_per_node,
                  " GPUs per node, for example: #$ -l gpu=", r.gpus_per_node, "\n");
  // The parallel environment decides how many slots a host gets; with GPUs each host must get ranks_per_node slots.
  const std::string check =
      r.gpus_per_node == 0 ? ""
                           : str(R"({ n[$1] += $2 } END { for (host in n) if (n[host] != )", r.ranks_per_node,
                                 R"() { print "error: host " host " has " n[host] " slots, not )", r.ranks_per_node,
                                 R"(: use a parallel environment (qconf -spl) whose allocation_rule is )",
                                 r.ranks_per_node, R"(" >"/dev/stderr"; exit 2 } } )");
  return {.header = header,
          .hosts = str(R"({ if [ -n "${PE_HOSTFILE:-}" ]; then awk ')", check,
                       R"({ print $1, "slots=" $2 }' "$PE_HOSTFILE" || exit 2; else echo "localhost slots=)",
                       r.nodes * r.ranks_per_node, R"("; fi; })"),
          .task = "case ${SGE_TASK_ID:-undefined} in undefined) task=0 ;; *) task=$((SGE_TASK_ID - 1)) ;; esac",
          .requeue = "",
          .timer =
              "Grid Engine's soft limit (s_rt) does not requeue a job that has restarted on the same host: this "
              "timer replaces it"};
}

Dialect pbs(const JobRequest& r) {
  std::string header;
  const auto line = [&](const auto&... parts) { header += str("#PBS -", parts..., "\n"); };
  line("N ", r.name);
  const int processes = r.array ? 1 : r.ranks_per_node;
  line("l select=", r.nodes, ":ncpus=", r.ranks_per_node, ":mpiprocs=", processes,
       r.gpus_per_node > 0 ? str(":ngpus=", r.gpus_per_node) : "");
  if (r.words.size() > 1) line("J 0-", r.words.size() - 1);
  line("l walltime=", duration_text(r.seconds));
  line("j oe");
  line("r y");
  if (!r.queue.empty()) line("q ", r.queue);
  if (!r.account.empty()) line("W group_list=", r.account);
  header += r.array ? "# PBS does not requeue tasks of an array: submit this script again until all have finished.\n"
                    : "# The script resubmits itself if it is submitted with: qsub -v JOB_SCRIPT=$PWD/job.sh job.sh\n";
  return {
      .header = header,
      .hosts =
          R"(awk '!($1 in n) { order[++hosts] = $1 } { ++n[$1] } END { for (i = 1; i <= hosts; ++i) print order[i], "slots=" n[order[i]] }' "$PBS_NODEFILE")",
      .task = "task=${PBS_ARRAY_INDEX:-0}",
      .requeue = r.array ? "" : R"(if [ "$code" -eq 75 ] && [ -z "$cancelled" ] && [ -n "${JOB_SCRIPT:-}" ]; then
  qsub -v JOB_SCRIPT="$JOB_SCRIPT" "$JOB_SCRIPT"
fi
)",
      .timer = "PBS sends no signal before the limit: this timer does"};
}

std::string line_of(const Words& words) {
  std::string line;
  for (const std::string& word : words) line += " " + shell_word(word);
  return line;
}

/// The command that is the job, to be run in the background.
std::string command_of(const JobRequest& r, const Dialect& dialect) {
  std::ostringstream out;
  if (r.array) {
    out << dialect.task << "\ncase $task in\n";
    for (size_t i = 0; i < r.words.size(); ++i) out << "  " << i << ") set --" << line_of(r.words[i]) << " ;;\n";
    out << "  *) echo \"error: there is no run $task\" >&2; exit 2 ;;\nesac\n\n";
    out << shell_word(r.program) << " \"$@\" &\n";
    return out.str();
  }
  out << "hosts=$(mktemp \"${TMPDIR:-/tmp}/hosts.XXXXXX\") || exit 8\n"
      << dialect.hosts << " >\"$hosts\"\n"
      << "# When mpirun is ended, ranks have this many seconds to save. mpirun reports their exit code after this "
         "time.\n"
      << "export OMPI_MCA_odls_base_sigkill_timeout=10\n\n"
      << "mpirun --hostfile \"$hosts\" -np " << r.nodes * r.ranks_per_node << " --map-by slot --bind-to none \\\n  "
      << shell_word(r.program) << line_of(r.words.at(0)) << " &\n";
  return out.str();
}

/// Signals the job when its time is up, where the scheduler does not. What ends all of the script's processes ends it
/// too.
std::string timer_of(const JobRequest& r, const Dialect& dialect) {
  return str("# ", dialect.timer, ".\n", "(\n",
             "  trap 'kill \"$nap\"; exit' TERM\n",  // or the nap would outlive the job
             "  sleep ", r.seconds - r.signal_before, " &\n", "  nap=$!\n", "  wait \"$nap\" && kill -USR1 \"$job\"\n",
             ") >/dev/null 2>&1 &\n", "timer=$!\n");
}

}  // namespace

static Dialect dialect_of(const JobRequest& r) {
  switch (r.scheduler) {
    case Scheduler::slurm:
      return slurm(r);
    case Scheduler::sge:
      return sge(r);
    case Scheduler::pbs:
      return pbs(r);
  }
  fail(ExitCode::bug, "no such scheduler");
}

std::string job_script(const JobRequest& asked) {
  JobRequest r = asked;
  // Grid Engine runs jobs again that end with 99.
  if (r.scheduler == Scheduler::sge)
    for (auto& words : r.words) words.insert(words.end(), {"--requeue-code", "99"});
  const Dialect dialect = dialect_of(r);
  std::ostringstream out;
  const bool has_timer = *dialect.timer != '\0';
  const bool asks_again = *dialect.requeue != '\0';  // unless somebody has ended the job
  out << "#!/bin/bash\n"
      << dialect.header << "\n"
      << "# module load openmpi  # the site's module of Open MPI, and of CUDA for GPUs\n\n";
  if (r.scheduler == Scheduler::pbs) out << "cd \"$PBS_O_WORKDIR\" || exit 8\n";
  out << kJobEndVariable << "=$(($(date +%s) + " << r.seconds << "))\nexport " << kJobEndVariable << "\n"
      << command_of(r, dialect) << "job=$!\n"
      << (has_timer ? timer_of(r, dialect) : "") << (asks_again ? "cancelled=\n" : "")
      << "# This shell forwards the scheduler's signals to the job and waits again.\n"
      << "trap 'kill -USR1 \"$job\" 2>/dev/null' USR1 USR2 XCPU" << (asks_again ? "" : " TERM INT") << "\n"
      << (asks_again ? "trap 'cancelled=yes; kill -USR1 \"$job\" 2>/dev/null' TERM INT\n" : "") << "wait \"$job\"\n"
      << "code=$?\n"
      << "while [ \"$code\" -gt 128 ] && kill -0 \"$job\" 2>/dev/null; do\n"
      << "  wait \"$job\"\n"
      << "  code=$?\n"
      << "done\n"
      << "wait \"$job\" 2>/dev/null  # it may have ended while a signal was forwarded\n"
      << "last=$?\n"
      << "[ \"$last\" -eq 127 ] || code=$last\n"
      << (has_timer ? "kill \"$timer\" 2>/dev/null\n" : "");
  if (!r.array) out << "rm -f \"$hosts\"\n";
  out << dialect.requeue << "exit \"$code\"\n";
  return out.str();
}

std::optional<int64_t> parse_duration(const std::string& text) {
  static const std::regex kClock("(?:([0-9]{1,3})-)?([0-9]{1,4}):([0-5][0-9]):([0-5][0-9])"),
      kUnits("([0-9]{1,8})([smhd])");
  std::smatch m;
  int64_t seconds = 0;
  if (std::regex_match(text, m, kClock)) {
    const int64_t days = m[1].matched ? std::stoll(m[1]) : 0;
    seconds = ((days * 24 + std::stoll(m[2])) * 60 + std::stoll(m[3])) * 60 + std::stoll(m[4]);
  } else if (std::regex_match(text, m, kUnits)) {
    const char unit = m[2].str()[0];
    seconds = std::stoll(m[1]) * (unit == 's' ? 1 : unit == 'm' ? 60 : unit == 'h' ? 3600 : 86400);
  }
  return seconds > 0 ? std::optional(seconds) : std::nullopt;
}

std::string duration_text(int64_t seconds) {
  return fmt::format("{:02}:{:02}:{:02}", static_cast<long>(seconds / 3600), static_cast<long>(seconds / 60 % 60),
                     static_cast<long>(seconds % 60));
}

}  // namespace ct
