#include "cli/launch/local_ranks.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <optional>

#include "base/error.h"
#include "base/files.h"
#include "cli/programs.h"

namespace ct {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr std::array kPassedOn = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGXCPU};
constexpr std::chrono::milliseconds kGrace = 1500ms,
                                    kAfterTerm = 30s;  // for the others, once one has failed: watchdogs speak meanwhile

/// What srun told the task that this process is, which its ranks are not.
bool tells_of_task(std::string_view variable) {
  constexpr std::array kNames = {"SLURM_PROCID", "SLURM_LOCALID", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_TASKS_PER_NODE"};
  return std::ranges::find(kNames, variable) != kNames.end() || variable.starts_with("PMIX_") ||
         variable.starts_with("PMI_");
}

/// The environment of this process with some variables replaced.
std::vector<std::string> variables_with(const Exports& replaced) {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string text = *variable, name = text.substr(0, text.find('='));
    if (!replaced.contains(name) && !tells_of_task(name)) variables.push_back(text);
  }
  for (const auto& [name, value] : replaced) variables.push_back(name + "=" + value);
  return variables;
}

/// In the child: nothing but system calls, then the program.
[[noreturn]] void become(char* const* words, char* const* variables, int input, pid_t parent, const sigset_t& signals) {
  belong_to(parent);
  dup2(input, STDIN_FILENO);
  sigprocmask(SIG_SETMASK, &signals, nullptr);
  execve(words[0], words, variables);
  _exit(127);
}

class Supervisor {
 public:
  explicit Supervisor(const LocalRanks& ranks) : ranks_(ranks) {
    sigemptyset(&watched_);
    for (const int signal : kPassedOn) sigaddset(&watched_, signal);
    sigaddset(&watched_, SIGCHLD);
    sigprocmask(SIG_BLOCK, &watched_, &before_);
  }
  ~Supervisor() { sigprocmask(SIG_SETMASK, &before_, nullptr); }
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  int run() {
    for (int local = 0; local < ranks_.count; ++local) start(local);
    std::optional<Clock::time_point> term_at, kill_at;
    while (!running_.empty()) {
      const timespec pause{0, 200'000'000};
      const int signal = sigtimedwait(&watched_, nullptr, &pause);
      if (signal > 0 && signal != SIGCHLD) signal_all(signal);
      reap();
      const auto now = Clock::now();
      if (code_ != 0 && !term_at && !kill_at) term_at = now + kGrace;
      if (term_at && now >= *term_at) {
        signal_all(SIGTERM);
        term_at.reset();
        kill_at = now + kAfterTerm;
      }
      if (kill_at && now >= *kill_at) signal_all(SIGKILL);
    }
    return code_;
  }

 private:
  void start(int local) {
    const ExecWords variables(variables_with(variables_of(ranks_, local))), words(ranks_.program);
    FileSystem files;
    const File nothing(files, "/dev/null", O_RDONLY);
    std::fflush(stdout);
    const pid_t parent = getpid(), child = fork();
    if (child < 0) {
      const int problem = errno;
      signal_all(SIGKILL);
      fail(ExitCode::memory, "cannot start rank ", ranks_.first + local, ": ", std::strerror(problem),
           ": raise the limit of processes (ulimit -u), or start fewer");
    }
    if (child == 0) become(words.data(), variables.data(), nothing.fd(), parent, before_);
    running_[child] = ranks_.first + local;
  }

  void signal_all(int signal) const {
    for (const auto& [child, rank] : running_) kill(child, signal);
  }

  void reap() {
    int status = 0;
    for (pid_t child; (child = waitpid(-1, &status, WNOHANG)) > 0;) {
      if (running_.erase(child) == 0 || code_ != 0) continue;
      code_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    }
  }

  const LocalRanks& ranks_;
  sigset_t watched_{}, before_{};
  std::map<pid_t, int> running_;  // their ranks
  int code_ = 0;
};

}  // namespace

Exports variables_of(const LocalRanks& ranks, int local_rank) {
  Exports all = ranks.exports;
  const auto set = [&](const char* name, const auto& value) { all[name] = str(value); };
  set("RANK", ranks.first + local_rank);
  set("WORLD_SIZE", ranks.size);
  set("LOCAL_RANK", local_rank);
  set("LOCAL_WORLD_SIZE", ranks.count);
  set("LOCAL_SIZE", ranks.count);
  set("CROSS_RANK", ranks.node);
  set("CROSS_SIZE", ranks.nodes);
  set("MASTER_ADDR", ranks.address);
  set("MASTER_PORT", ranks.port);
  return all;
}

int run_local_ranks(const LocalRanks& ranks) { return Supervisor(ranks).run(); }

int free_port() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof at;
  auto* address = reinterpret_cast<sockaddr*>(&at);
  const bool found = fd >= 0 && bind(fd, address, length) == 0 && getsockname(fd, address, &length) == 0;
  if (fd >= 0) close(fd);
  if (!found) fail(ExitCode::usage, "there is no free TCP port on this host: give one with --master_port");
  return ntohs(at.sin_port);
}

}  // namespace ct
