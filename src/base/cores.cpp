#include "base/cores.h"

#include <sched.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <sstream>
#include <string>

#include "base/control_groups.h"

namespace ct {
namespace {

namespace fs = std::filesystem;

/// quota / period; "max", -1 or anything unreadable: no limit.
std::optional<double> ratio(const std::string& quota, const std::string& period) {
  try {
    const double q = std::stod(quota), p = std::stod(period);
    if (q > 0 && p > 0 && std::isfinite(q / p)) return q / p;
  } catch (const std::exception&) {
  }
  return std::nullopt;
}

std::string first_line(const fs::path& path) {
  std::string line;
  std::ifstream file(path);
  std::getline(file, line);
  return line;
}

std::optional<double> limit_v2(const fs::path& folder) {
  std::string quota, period;
  std::istringstream(first_line(folder / "cpu.max")) >> quota >> period;
  return ratio(quota, period);
}

std::optional<double> limit_v1(const fs::path& folder) {
  return ratio(first_line(folder / "cpu.cfs_quota_us"), first_line(folder / "cpu.cfs_period_us"));
}

}  // namespace

std::bitset<kMaxCpus> cpus_of_thread(pid_t thread) {
  std::array<cpu_set_t, kMaxCpus / CPU_SETSIZE> sets{};
  std::bitset<kMaxCpus> cpus;
  if (sched_getaffinity(thread, sizeof sets, sets.data()) != 0) return cpus;
  for (size_t i = 0; i < kMaxCpus; ++i) cpus[i] = CPU_ISSET_S(i, sizeof sets, sets.data());
  return cpus;
}

std::bitset<kMaxCpus> allowed_cpus() {
  const std::bitset<kMaxCpus> cpus = cpus_of_thread(0);
  return cpus.any() ? cpus : std::bitset<kMaxCpus>().set(0);
}

std::optional<double> cpu_quota(const fs::path& root) {
  std::optional<double> least;
  for (const fs::path& group : control_groups(root, "cpu"))
    for (const std::optional<double> limit : {limit_v2(group), limit_v1(group)})
      if (limit && (!least || *limit < *least)) least = limit;
  return least;
}

int available_cores(const std::bitset<kMaxCpus>& cpus, std::optional<double> quota) {
  int cores = std::max(1, static_cast<int>(cpus.count()));
  if (quota && *quota < cores) cores = std::max(1, static_cast<int>(*quota));
  return cores;
}

int available_cores() { return available_cores(allowed_cpus(), cpu_quota()); }

}  // namespace ct
