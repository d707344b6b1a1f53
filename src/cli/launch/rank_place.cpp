#include "cli/launch/rank_place.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <string_view>

#include "base/core_binding.h"
#include "base/error.h"
#include "base/files.h"

namespace ct {
namespace {

constexpr std::string_view kAllCores = "all";

/// A file of its own: what is there is another job's, which began in the same second.
void log_into(const std::string& beginning, int rank) {
  FileSystem files;
  make_folders(files, Path(beginning).parent_path());
  const std::string end = str("_rank", rank, ".log");
  std::string path = beginning + end;
  int fd = -1;
  for (int number = 2; fd < 0; ++number) {
    fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
    if (fd < 0 && errno != EEXIST) fail_io("create", path, errno);
    if (fd < 0) path = str(beginning, "-", number, end);
  }
  std::fflush(stdout);
  std::fflush(stderr);
  dup2(fd, STDOUT_FILENO);
  dup2(fd, STDERR_FILENO);
  close(fd);
}

}  // namespace

std::string devices_of_rank(const std::string& devices, int rank) {
  int before = 0;
  for (size_t begin = 0; begin <= devices.size();) {
    const size_t end = std::min(devices.find(';', begin), devices.size());
    const std::string host = devices.substr(begin, end - begin);
    before += 1 + static_cast<int>(std::ranges::count(host, ','));
    if (!host.empty() && rank < before) return host;
    begin = end + 1;
  }
  fail(ExitCode::usage, kDevicesVariable, "=", in_quotes(devices), " has no GPU for rank ", rank,
       ": unset it, or start with cifar-train launch, which sets it");
}

void take_place(const Environment& environment) {
  const auto said = [&](const char* variable) {
    const char* value = environment(variable);
    return std::string(value != nullptr ? value : "");
  };
  const std::string log = said(kLogVariable), devices = said(kDevicesVariable), cores = said(kCoresVariable);
  if (log.empty() && devices.empty() && cores.empty()) return;
  const Launch launch = detect_launch(environment);
  if (!log.empty()) log_into(log, launch.rank);
  if (!devices.empty()) setenv("CUDA_VISIBLE_DEVICES", devices_of_rank(devices, launch.rank).c_str(), 1);
  if (cores.empty()) return;
  if (launch.size > 1 && launch.local_size < 1)
    fail(ExitCode::usage, kCoresVariable, "=", in_quotes(cores), ": ", name(launch.kind),
         " does not give the number of ranks of this host, which share its cores: leave --bind_cores_to_rank out");
  const int parts = std::max(launch.local_size, 1);
  bind_to_share(cores == kAllCores ? "" : cores, launch.local_rank % parts, parts);
}

}  // namespace ct
