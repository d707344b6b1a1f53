#include "base/rank_processes.h"

#include <unistd.h>

#include <charconv>
#include <filesystem>
#include <fstream>
#include <set>

#include "base/error.h"
#include "base/host.h"
#include "base/text.h"

namespace ct {
namespace {

namespace fs = std::filesystem;

/// The numbers that are names in a folder of /proc; none where it has gone.
std::vector<pid_t> numbers_in(const fs::path& folder) {
  std::vector<pid_t> numbers;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    pid_t number = 0;
    const auto [stop, wrong] = std::from_chars(name.data(), name.data() + name.size(), number);
    if (wrong == std::errc() && stop == name.data() + name.size()) numbers.push_back(number);
  }
  return numbers;
}

std::string name_of(const std::string& process) {
  std::string name;
  std::ifstream file("/proc/" + process + "/comm");
  std::getline(file, name);
  return name;
}

pid_t parent_of(pid_t pid) {
  std::ifstream file(str("/proc/", pid, "/stat"));
  std::string text;
  std::getline(file, text);
  const size_t end = text.rfind(')');  // of the name, which may hold anything
  pid_t parent = 0;
  if (end != text.npos && end + 4 < text.size())
    std::from_chars(text.data() + end + 4, text.data() + text.size(), parent);
  return parent;
}

/// A thread that binds itself does not speak for its process.
std::bitset<kMaxCpus> cpus_of(pid_t pid) {
  std::bitset<kMaxCpus> cpus;
  for (const pid_t thread : numbers_in(str("/proc/", pid, "/task"))) cpus |= cpus_of_thread(thread);
  return cpus;
}

/// Does Open MPI's mpirun have it among its ranks? Its variables stand in what the process was started with.
bool is_of_mpirun(pid_t pid) {
  std::ifstream environment(str("/proc/", pid, "/environ"));
  for (std::string entry; std::getline(environment, entry, '\0');)
    if (entry.starts_with("OMPI_COMM_WORLD_RANK=")) return true;
  return false;
}

/// "0-2,5"
std::string list_of(const std::bitset<kMaxCpus>& cpus) {
  std::string text;
  for (size_t i = 0; i < cpus.size(); ++i) {
    if (!cpus[i]) continue;
    const size_t first = i;
    while (i + 1 < cpus.size() && cpus[i + 1]) ++i;
    text += str(text.empty() ? "" : ",", first);
    if (i > first) text += str("-", i);
  }
  return text;
}

}  // namespace

std::vector<RankProcess> rank_processes(int own_ranks) {
  std::vector<RankProcess> found;
  if (own_ranks > 0) found.push_back({getpid(), cpus_of(getpid()), own_ranks, is_of_mpirun(getpid())});
  const std::string own_name = name_of("self");
  std::set<pid_t> parents;
  for (const pid_t pid : numbers_in("/proc")) {
    if (name_of(std::to_string(pid)) != own_name) continue;
    parents.insert(parent_of(pid));
    if (pid != getpid()) found.push_back({pid, cpus_of(pid), 1, is_of_mpirun(pid)});
  }
  std::erase_if(found, [&](const RankProcess& one) {
    return one.pid != getpid() && (parents.contains(one.pid) || one.cpus.none());
  });
  return found;
}

std::bitset<kMaxCpus> unbound_cpus() { return cpus_of_thread(1); }

std::string crowded_cores(const RankProcess& one, const std::vector<RankProcess>& all,
                          const std::bitset<kMaxCpus>& unbound) {
  if ((unbound & ~one.cpus).none()) return "";
  int ranks = 0;
  bool by_mpirun = false;
  std::set<pid_t> bound;
  for (const RankProcess& other : all) {
    if ((other.cpus & ~one.cpus).any()) continue;
    ranks += other.ranks;
    by_mpirun = by_mpirun || other.by_mpirun;
    bound.insert(other.pid);
  }
  const auto cores = static_cast<int>(one.cpus.count());
  if (ranks <= cores) return "";
  std::string pids;
  for (const pid_t pid : bound) pids += str(pids.empty() ? "" : ", ", pid);
  return str(counted(ranks, "rank"), " of host ", host_name(), " (pid ", pids, ") are bound to ",
             counted(cores, "core"), " (", list_of(one.cpus), ") and share ", cores == 1 ? "it: " : "them: ",
             by_mpirun ? "start mpirun with --bind-to none, or give each job cores of its own (--cpu-set)"
                       : "take fewer ranks, or give them more cores (by taskset, or the cpuset)");
}

}  // namespace ct
