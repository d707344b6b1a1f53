// The number of cores that this process may use.
#pragma once

#include <sys/types.h>

#include <bitset>
#include <filesystem>
#include <optional>

namespace ct {

inline constexpr int kMaxCpus = 4096;

/// The logical CPUs on which a thread may run (taskset, mpirun's binding, cpusets); empty if the thread has ended.
std::bitset<kMaxCpus> cpus_of_thread(pid_t thread);
/// The same for the calling thread.
std::bitset<kMaxCpus> allowed_cpus();

/// The CPU quota of this process's control groups (v1 or v2), in cores; nullopt: no limit. `root` is "/", or a folder
/// that imitates it in tests.
std::optional<double> cpu_quota(const std::filesystem::path& root = "/");

/// The number of usable cores: the allowed `cpus`, limited by the quota, at least 1.
int available_cores(const std::bitset<kMaxCpus>& cpus, std::optional<double> quota);
/// The number of cores that this process may use: its allowed_cpus(), limited by its cpu_quota().
int available_cores();

}  // namespace ct
