// How many cores this process may really use.
#pragma once

#include <sys/types.h>

#include <bitset>
#include <filesystem>
#include <optional>

namespace ct {

inline constexpr int kMaxCpus = 4096;

/// The logical CPUs that a thread may run on (taskset, mpirun's binding, cpusets); none where it has gone.
std::bitset<kMaxCpus> cpus_of_thread(pid_t thread);
/// Those of the calling thread.
std::bitset<kMaxCpus> allowed_cpus();

/// CPU time a second that the control groups (v1 or v2) of this process allow, in cores; none: no limit. `root` is
/// "/", or a folder that imitates it.
std::optional<double> cpu_quota(const std::filesystem::path& root = "/");

/// Cores that may be used: of the allowed `cpus` those that the quota pays for, at least 1.
int available_cores(const std::bitset<kMaxCpus>& cpus, std::optional<double> quota);
/// Cores that this process may use: its allowed_cpus() under its cpu_quota().
int available_cores();

}  // namespace ct
