#include "cli/launch/launch.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <iterator>

#include "base/core_binding.h"
#include "base/cores.h"
#include "base/error.h"
#include "base/files.h"
#include "base/paths.h"
#include "base/text.h"
#include "base/utf8.h"
#include "cli/config_lookup.h"
#include "cli/launch/command.h"
#include "cli/launch/local_ranks.h"
#include "cli/launch/rank_place.h"
#include "cli/programs.h"
#include "comm/mpi/mpi.h"
#include "comm/rendezvous/endpoint.h"
#include "device/cuda.h"

namespace ct {
namespace {

enum class Starter : uint8_t { mpirun, srun, by_itself };

void note(const std::string& text) { std::fprintf(stderr, "launch: %s\n", printable(text).c_str()); }

std::string mpirun_path() {
  const auto path = in_bundle("mpirun");
  return path ? path->string() : on_path("mpirun") ? "mpirun" : "";
}

Starter starter_of(const LaunchFlags& flags, const Resources& resources) {
  const std::string launcher = lower_case(flags.launcher);
  if (launcher == "mvapich" || launcher == "mpich" || launcher == "impi")
    fail(ExitCode::usage, "--launcher ", launcher, " is not supported by this version: use openmpi or slurm");
  if (launcher != "openmpi" && launcher != "slurm" && launcher != "pdsh")
    fail(ExitCode::usage, "--launcher ", in_quotes(flags.launcher), ": give openmpi, slurm or pdsh");
  if (flags.no_ssh) return Starter::by_itself;
  if (launcher == "slurm") return Starter::srun;
  if (launcher == "pdsh") note("--launcher pdsh: mpirun replaces pdsh");
  const std::string lacks = !built_with_mpi()       ? "this program was built without MPI"
                            : mpirun_path().empty() ? "there is no mpirun on PATH"
                                                    : "";
  if (lacks.empty()) return Starter::mpirun;
  if (resources.here) return Starter::by_itself;
  fail(ExitCode::usage, lacks,
       ", so other hosts cannot be reached: run the same command on each of them with --no_ssh ",
       "--node_rank N --master_addr ADDRESS");
}

/// A process that another launcher started is already a rank and cannot launch ranks. Exception: with --no_ssh srun may
/// start one `launch` on each host, as it may start one torchrun.
void require_no_launcher(const LaunchFlags& flags) {
  const Launch launch = detect_launch();
  if (!launch.parallel()) return;
  const bool on_each_host = flags.no_ssh && launch.kind == Launch::Kind::slurm_step;
  if (on_each_host && launch.local_size == 1) return;
  fail(ExitCode::usage, "launch starts the ranks itself, and this process is one of ", launch.size, " that ",
       name(launch.kind), " has started: ",
       on_each_host   ? "start one on each host, by srun --ntasks-per-node=1"
       : flags.no_ssh ? "leave one of the two out; srun starts one on each host by --mpi=none --ntasks-per-node=1"
                      : "leave one of the two out");
}

/// The verb and its words. A script's name is what DeepSpeed's users have there.
Words checked_program(Words words) {
  constexpr std::string_view kVerbs[] = {"train", "bench"};
  if (words.empty() || words[0].starts_with('-')) words.insert(words.begin(), "train");
  if (words[0].ends_with(".py"))
    fail(ExitCode::usage, in_quotes(words[0]), " is a Python script: remove it, cifar-train itself trains");
  if (std::find(std::begin(kVerbs), std::end(kVerbs), words[0]) == std::end(kVerbs)) {
    const bool is_verb = std::ranges::any_of(verbs(), [&](const Verb& verb) { return words[0] == verb.name; });
    fail(ExitCode::usage, "launch ", in_quotes(words[0]), ": ",
         is_verb ? "this verb runs as one process; launch starts train and bench"
                 : "not a verb: give the launcher's options first, then train or bench and its options");
  }
  return words;
}

/// Adds the variables of this program that tell ranks their GPUs and cores.
void add_places(const LaunchFlags& flags, const Resources& resources, Exports& exports) {
  if (const std::string devices = devices_text(resources); !devices.empty()) exports[kDevicesVariable] = devices;
  if (flags.bind_cores || !flags.bind_core_list.empty()) {
    if (const char* affinity = std::getenv("KMP_AFFINITY"))
      fail(ExitCode::usage, "Environment variable KMP_AFFINITY=", in_quotes(affinity),
           " conflicts with binding cores: unset KMP_AFFINITY, or leave --bind_cores_to_rank out");
    exports[kCoresVariable] = "all";
  }
  if (const std::string& list = flags.bind_core_list; !list.empty()) {
    if (resources.here) require_cores_here(list);
    const std::vector<int> cores = parse_core_list(list);
    for (const HostSlots& host : resources.hosts) share_of(cores, 0, static_cast<int>(host.slots.size()));
    exports[kCoresVariable] = list;
  }
  if (!flags.rank_log.empty() && flags.rank_log != "None")
    exports[kLogVariable] = (Path(flags.rank_log) / local_time(std::time(nullptr), "%Y%m%d%H%M%S")).string();
}

/// Open MPI's mpirun refuses root, in many lines, unless both variables or its option are given.
void require_leave_of_root(const LaunchFlags& flags) {
  if (flags.launcher_args.find("--allow-run-as-root") != std::string::npos) return;
  if (geteuid() == 0 && !root_may_run_mpirun())
    fail(ExitCode::usage,
         "mpirun refuses to run as root: start as another user, or export OMPI_ALLOW_RUN_AS_ROOT=1 "
         "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1");
}

/// The exit code of a program without input and output; -1: it could not be started.
int run_quietly(const std::vector<std::string>& words) {
  const ExecWords program(words);
  const pid_t child = fork();
  if (child < 0) return -1;
  if (child == 0) {
    const int nothing = open("/dev/null", O_RDWR);
    dup2(nothing, STDIN_FILENO);
    dup2(nothing, STDOUT_FILENO);
    dup2(nothing, STDERR_FILENO);
    execvp(program.data()[0], program.data());
    _exit(127);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

/// mpirun would wait for a password, and say less. Nothing is asked where it does not use ssh.
void require_ssh(const LaunchFlags& flags, const Resources& resources) {
  const std::string& first = resources.elsewhere;
  if (first.empty() || flags.no_ssh_check || std::getenv("SLURM_JOB_ID") != nullptr ||
      std::getenv("OMPI_MCA_plm_rsh_agent") != nullptr)
    return;
  std::vector<std::string> words = {"ssh",           "-o", "PasswordAuthentication=no", "-o",
                                    "BatchMode=yes", "-o", "ConnectTimeout=10"};
  if (flags.ssh_port > 0) words.insert(words.end(), {"-p", std::to_string(flags.ssh_port)});
  words.insert(words.end(), {first, "hostname"});
  if (run_quietly(words) != 0)
    fail(
        ExitCode::usage, "Using hostfile at ", in_quotes(resources.hostfile.native()), " but host=", first,
        " was not reachable via ssh. If you are running with a single node please remove it or setup passwordless ssh; "
        "--no_ssh_check leaves this test out");
}

Path pid_file() { return str("/tmp/", getpid(), ".deepspeed"); }

/// As DeepSpeed does, for scripts that look there. A file that says so already is that of an earlier process of this
/// number, which has ended.
void save_pid() {
  FileSystem files;
  const std::string pid = std::to_string(getpid());
  const bool earlier = kind_of_entry(pid_file()) == PathKind::file && read_file(pid_file(), pid.size()) == pid;
  if (!earlier && is_there(pid_file()))
    fail(ExitCode::io, in_quotes(pid_file().native()), " is there already, for --save_pid: remove it");
  if (earlier) remove_file(files, pid_file());
  File file(files, pid_file(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0644);
  file.write(pid);
  file.close();
}

/// Becomes the program: its signals and its exit code are this process's.
[[noreturn]] void become(const Command& command) {
  for (const auto& [name, value] : command.environment) setenv(name.c_str(), value.c_str(), 1);
  const ExecWords program(command.words);
  std::fflush(stdout);
  execvp(program.data()[0], program.data());
  fail(ExitCode::usage, "cannot start ", in_quotes(command.words[0]), ": ", std::strerror(errno),
       ": install it, or put its folder on PATH");
}

/// This host's ranks of the world: all of them, unless this command is one of several.
LocalRanks local_ranks(const LaunchFlags& flags, const RanksToStart& all) {
  Hosts hosts = all.resources.hosts;
  if (all.resources.here && !flags.no_ssh) hosts = {{kLocalHost, first_slots(static_cast<int>(slots_of(hosts)))}};
  if (hosts.size() > 1 && (flags.node_rank < 0 || flags.master_addr.empty()))
    fail(ExitCode::usage, "--no_ssh on ", hosts.size(), " hosts needs ",
         flags.node_rank < 0 ? "--node_rank N, which of "
                               "them this is"
                             : "--master_addr ADDRESS, the first one's",
         ": run the same command on each with its own N");
  const auto node = static_cast<size_t>(std::max(flags.node_rank, 0));
  if (node >= hosts.size())
    fail(ExitCode::usage, "--node_rank ", flags.node_rank, ": there are only hosts 0 to ", hosts.size() - 1,
         "; give --num_nodes or a hostfile");
  LocalRanks ranks{.first = static_cast<int>(slots_of({hosts.begin(), hosts.begin() + static_cast<ptrdiff_t>(node)})),
                   .count = static_cast<int>(hosts[node].slots.size()),
                   .size = static_cast<int>(slots_of(hosts)),
                   .node = static_cast<int>(node),
                   .nodes = static_cast<int>(hosts.size()),
                   .address = flags.master_addr.empty() ? "127.0.0.1" : flags.master_addr,
                   .exports = all.exports,
                   .program = all.program};
  if (const Launch task = detect_launch(); task.parallel() && task.size != static_cast<int>(hosts.size()))
    fail(ExitCode::usage, "srun started one launch on each of ", task.size, " hosts, and this host's command has ",
         hosts.size(), ": give --num_nodes ", task.size, ", or a hostfile");
  const bool alone = hosts.size() == 1;
  ranks.port = flags.master_port.value_or(alone && !flags.dry_run ? free_port() : kMasterPort);
  if (alone && std::getenv(kJobVariable) == nullptr)
    ranks.exports[kJobVariable] = flags.dry_run ? "..." : random_word();
  return ranks;
}

void print_local(const LocalRanks& ranks) {
  for (int local = 0; local < ranks.count; ++local)
    std::printf("%s\n", text_of(Command{variables_of(ranks, local), ranks.program}).c_str());
}

}  // namespace

int run_launch(const LaunchFlags& flags, const Words& program) {
  require_no_launcher(flags);
  std::vector<std::string> notes;
  RanksToStart ranks{.program = checked_program(program)};
  ranks.resources = resources_of(
      flags, own_environment(),
      [] {
        const int gpus = cuda_device_count();
        return gpus > 0 ? gpus : available_cores();
      },
      notes);
  ranks.exports = exports_of_launch(environ);
  for (const std::string& text : notes) note(text);
  const Starter starter = starter_of(flags, ranks.resources);
  ranks.program.insert(ranks.program.begin(), own_program().string());
  add_places(flags, ranks.resources, ranks.exports);
  if (starter != Starter::by_itself && (!flags.master_addr.empty() || flags.master_port))
    note("--master_addr and --master_port are left out: mpirun and srun connect the ranks");
  if (starter != Starter::by_itself && flags.node_rank >= 0)
    note("--node_rank is left out: without --no_ssh this command starts the ranks of all hosts");

  Command command;
  switch (starter) {
    case Starter::by_itself: {
      const LocalRanks here = local_ranks(flags, ranks);
      if (flags.dry_run) return print_local(here), 0;
      if (flags.save_pid) save_pid();
      const int code = run_local_ranks(here);
      if (flags.save_pid) FileSystem().unlink(pid_file());
      return code;
    }
    case Starter::srun:
      require_files_for_ranks(program);
      command = srun_command(flags, ranks, own_environment());
      break;
    case Starter::mpirun:
      require_files_for_ranks(program);
      command = mpirun_command(mpirun_path(), flags, ranks);
      if (!flags.dry_run) {
        require_leave_of_root(flags);
        require_ssh(flags, ranks.resources);
      }
      break;
  }
  if (flags.dry_run) return std::printf("%s\n", text_of(command).c_str()), 0;
  if (flags.save_pid) save_pid();
  become(command);
}

}  // namespace ct
