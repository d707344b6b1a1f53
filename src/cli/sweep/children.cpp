#include "cli/sweep/children.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/error.h"

namespace ct {
namespace {

/// In the child: nothing but system calls, then the program.
[[noreturn]] void become(const std::vector<char*>& words, int input, int log, pid_t parent) {
  setpgid(0, 0);  // ^C is for the parent, which asks its children itself, once
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);  // it has died meanwhile
  signal(SIGPIPE, SIG_DFL);
  dup2(input, STDIN_FILENO);
  dup2(log, STDOUT_FILENO);
  dup2(log, STDERR_FILENO);
  execv("/proc/self/exe", words.data());
  _exit(127);
}

}  // namespace

void Children::start(size_t number, const std::vector<std::string>& words, const Path& log) {
  FileSystem files;
  const File nothing(files, "/dev/null", O_RDONLY), output(files, log, O_WRONLY | O_CREAT | O_APPEND);
  std::string name = "cifar-train";
  std::vector<std::string> copies = words;
  std::vector<char*> pointers = {name.data()};
  for (std::string& word : copies) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  const pid_t parent = getpid(), child = fork();
  if (child < 0)
    fail(ExitCode::memory, "cannot start a process: ", std::strerror(errno),
         ": raise the limit of processes (ulimit -u), or lower --parallel");
  if (child == 0) become(pointers, nothing.fd(), output.fd(), parent);
  numbers_[child] = number;
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
    numbers_.erase(child);
    return ended;
  }
  return {};
}

}  // namespace ct
