#include "cli/programs.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <sstream>
#include <string_view>

namespace ct {
namespace fs = std::filesystem;
namespace {

bool can_run(const fs::path& path) {
  std::error_code error;  // what cannot be looked at is not what is looked for
  return access(path.c_str(), X_OK) == 0 && !fs::is_directory(path, error);
}

fs::path executable() {
  std::error_code error;
  return fs::read_symlink("/proc/self/exe", error);
}

}  // namespace

std::optional<fs::path> in_bundle(const std::string& program) {
  const fs::path self = executable(), path = self.parent_path().parent_path() / "bin" / program;
  return !self.empty() && can_run(path) ? std::optional(path) : std::nullopt;
}

std::optional<fs::path> on_path(const std::string& program) {
  const char* path_variable = std::getenv("PATH");
  std::istringstream folders(path_variable != nullptr ? path_variable : "");
  for (std::string folder; std::getline(folders, folder, ':');) {
    const fs::path path = fs::path(folder.empty() ? "." : folder) / program;
    if (can_run(path)) return path;
  }
  return std::nullopt;
}

bool root_may_run_mpirun() {
  const auto is_set = [](const char* name) {
    const char* const value = std::getenv(name);
    return value != nullptr && std::string_view(value) == "1";
  };
  return is_set("OMPI_ALLOW_RUN_AS_ROOT") && is_set("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM");
}

fs::path own_program() { return in_bundle("cifar-train").value_or(executable()); }

void belong_to(pid_t parent) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);  // it has died meanwhile
}

}  // namespace ct
