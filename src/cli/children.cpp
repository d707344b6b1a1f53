#include "cli/children.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <sstream>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/paths.h"
#include "cli/programs.h"

namespace ct {
namespace {

/// In the child: nothing but system calls, then the program.
[[noreturn]] void become(char* const* words, int input, int log, pid_t parent) {
  belong_to(parent);
  signal(SIGPIPE, SIG_DFL);
  dup2(input, STDIN_FILENO);
  dup2(log, STDOUT_FILENO);
  dup2(log, STDERR_FILENO);
  execv("/proc/self/exe", words);
  _exit(127);
}

}  // namespace

void Children::start(size_t number, const std::vector<std::string>& words, const Path& log) {
  FileSystem files;
  const File nothing(files, "/dev/null", O_RDONLY), output(files, log, O_WRONLY | O_CREAT | O_APPEND);
  std::vector<std::string> all = {"cifar-train"};
  all.insert(all.end(), words.begin(), words.end());
  progress_.erase(number);
  if (const SharedText& progress = progress_[number]; progress.fd() >= 0)
    all.insert(all.end(), {"--progress-fd", std::to_string(progress.fd())});
  const ExecWords program(std::move(all));
  const pid_t parent = getpid(), child = fork();
  if (child < 0)
    fail(ExitCode::memory, "cannot start a process: ", std::strerror(errno),
         ": raise the limit of processes (ulimit -u), or lower --parallel");
  if (child == 0) become(program.data(), nothing.fd(), output.fd(), parent);
  numbers_[child] = number;
}

std::string Children::progress(size_t number) const {
  const auto found = progress_.find(number);
  return found == progress_.end() ? "" : found->second.read();
}

void Children::stop() const {
  for (const auto& [child, number] : numbers_) kill(child, SIGUSR1);
}

std::optional<Children::Ended> Children::poll() {
  for (const auto& [child, number] : numbers_) {
    int status = 0;
    if (waitpid(child, &status, WNOHANG) != child) continue;
    const bool killed = WIFSIGNALED(status);
    const Ended ended{number, killed ? 128 + WTERMSIG(status) : WEXITSTATUS(status), killed ? WTERMSIG(status) : 0};
    progress_.erase(number);
    numbers_.erase(child);
    return ended;
  }
  return {};
}

std::string last_error_in(const Path& log) {
  constexpr std::string_view kError = "error: ";
  std::string last;
  if (!is_there(log)) return last;
  std::istringstream lines(read_file(log));
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with(kError)) last = line.substr(kError.size());
  return last;
}

}  // namespace ct
