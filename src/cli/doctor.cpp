// `doctor`: what this machine offers and what would go wrong.
#include <fmt/format.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <limits>

#include "base/cores.h"
#include "base/error.h"
#include "base/host.h"
#include "base/paths.h"
#include "base/terminal.h"
#include "base/text.h"
#include "base/utf8.h"
#include "base/version.h"
#include "base/wrong_download.h"
#include "cli/config_lookup.h"
#include "cli/programs.h"
#include "cli/subverbs.h"
#include "comm/detect_launch.h"
#include "comm/host/shared_file.h"
#include "comm/mpi/mpi.h"
#include "comm/ucx/ucx.h"
#include "data/locate.h"
#include "device/cuda.h"
#include "metrics/metrics_log.h"

namespace ct {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMegabyte = 1000 * 1000, kGigabyte = 1000 * kMegabyte;

struct Fact {
  std::string what;     // "memory"
  std::string value;    // "7.6 GB free of 16 GB"
  std::string warning;  // what would go wrong, and the remedy; empty: nothing
};

std::string environment(const char* variable) {
  const char* value = std::getenv(variable);
  return value == nullptr ? "" : value;
}

Fact program() {
  std::string configs, warning;
  try {
    configs = absolute_of(locate_config("default.yaml").parent_path()).string();
  } catch (const Error&) {
    warning = "default.yaml was not found: install with cmake --install, or give --config";
  }
  return {"program", str(version(), " (", commit(), ") on ", host_name(), ", configurations in ", configs), warning};
}

Fact cores() {
  const auto allowed = allowed_cpus().count();
  const auto quota = cpu_quota();
  const int usable = available_cores();
  return {"cores",
          str(usable, " usable: ", sysconf(_SC_NPROCESSORS_ONLN), " online, ", allowed, " allowed by affinity, ",
              quota ? str("the control group allows ", *quota) : "no quota"),
          quota && *quota < 1 ? "less than one core: training is throttled; raise the container's or job's limit" : ""};
}

Fact memory() {
  const HostMemory memory = host_memory();
  const auto bytes = [](int64_t n) { return human_bytes(static_cast<uint64_t>(n)); };
  return {"memory",
          str(bytes(memory.available), " available of ", bytes(memory.total),
              memory.group_limit ? str(", ", bytes(*memory.group_limit), " allowed by the control group") : ""),
          memory.available < static_cast<int64_t>(500 * kMegabyte)
              ? "little memory: use few ranks and a small micro-batch, or end other programs"
              : ""};
}

Fact device() { return {"device", make_cpu_backend()->description(), ""}; }

std::vector<Fact> gpus(const std::string& library_path) {
  std::vector<Fact> facts;
  for (DeviceFact& fact : cuda_facts({.library_path = library_path}))
    facts.push_back({std::move(fact.what), std::move(fact.value), std::move(fact.warning)});
  return facts;
}

Fact mpi() {
  return {"MPI library", mpi_library(),
          built_with_mpi() ? ""
                           : "ranks are threads of one process (--ranks N); for mpirun install libopenmpi-dev and "
                             "build again"};
}

Fact ucx() { return {"UCX library", ucx_library(), ""}; }

Fact launcher() {
  try {
    const Launch launch = detect_launch();
    if (!launch.launched()) return {"launcher", "none: train starts its ranks as threads", ""};
    return {"launcher", str(name(launch.kind), ", rank ", launch.rank, " of ", launch.size), ""};
  } catch (const Error& error) {
    return {"launcher", "unclear", error.what()};
  }
}

/// What cannot be looked at is none of what doctor looks for.
bool is_folder_here(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

/// What Open MPI's mpirun requires of root.
std::vector<Fact> mpirun() {
  const auto beside = in_bundle("mpirun"), path = beside ? beside : on_path("mpirun");
  std::vector<Fact> facts = {
      {"mpirun", path ? path->string() : "not on PATH",
       !path && built_with_mpi() ? "ranks as processes need it: install openmpi-bin, or use --ranks N (threads)" : ""}};
  if (!path) return facts;
  const bool root = geteuid() == 0, allowed = root_may_run_mpirun();
  facts.push_back({"mpirun as root",
                   !root     ? "not root"
                   : allowed ? "root, allowed"
                             : "root, refused by mpirun",
                   root && !allowed ? "export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1" : ""});
  const std::string oversubscribe = environment("OMPI_MCA_rmaps_base_oversubscribe");
  const bool more = oversubscribe == "1" || oversubscribe == "true" || oversubscribe == "yes";
  facts.push_back({"mpirun -np",
                   more ? "more ranks than cores are allowed"
                        : "as many ranks as cores; for more: export OMPI_MCA_rmaps_base_oversubscribe=1",
                   ""});
  return facts;
}

struct Space {
  uint64_t total = 0, free = 0;
};
std::optional<Space> space(const fs::path& folder) {
  struct statvfs fs {};
  if (statvfs(folder.c_str(), &fs) != 0) return std::nullopt;
  return Space{uint64_t{fs.f_blocks} * fs.f_frsize, uint64_t{fs.f_bavail} * fs.f_frsize};
}

bool writable(const fs::path& folder) { return is_folder_here(folder) && access(folder.c_str(), W_OK | X_OK) == 0; }

/// Where the processes of one host meet: /dev/shm, else TMPDIR.
std::vector<Fact> shared_memory() {
  const auto folders = shared_file_folders();
  std::vector<Fact> facts;
  for (const std::string& folder : folders) {
    const bool first = folder == folders.front();
    const auto found = space(folder);
    const bool usable = found && writable(folder);
    std::string warning;
    if (first && (!usable || found->free < 256 * kMegabyte))
      warning = str("large models on several mpirun ranks then share a file in ", folders.back(),
                    ", slower on a disk; enlarge it (docker: --shm-size=1g)");
    if (!first && !usable) warning = "no folder to write to: set TMPDIR to one";
    if (!first && usable && found->free < 256 * kMegabyte)
      warning =
          "little space for shared memory that does not fit /dev/shm (ranks exit with 6): set TMPDIR to another folder";
    facts.push_back(
        {first ? folder : "TMPDIR",
         str(first ? "" : folder + ", ",
             usable ? str(human_bytes(found->free), " free of ", human_bytes(found->total)) : "cannot be used"),
         warning});
  }
  return facts;
}

/// The quick look: names and sizes. `data verify` reads every byte.
Fact data_set(const std::string& path) {
  try {
    std::optional<DataSource> found = find_data("auto", path);
    for (const DataKind& kind : data_kinds())  // those that a run must name
      if (!found) found = find_data(kind.key, path);
    if (!found) {
      require_named_folder(path);
      const PathKind kind = kind_of(path, ExitCode::data);
      // Throws where the synthetic set would not be written.
      if (kind == PathKind::folder) locate_data("auto", path, {.if_absent = IfAbsent::write_later});
      const bool in_the_way = kind != PathKind::nothing && kind != PathKind::folder;
      return {"data", str("none in ", path, ": the synthetic set is written there when it is needed"),
              in_the_way ? path + " is not a folder: move it away or set data.path" : ""};
    }
    const std::string problem = problem_of(*found->kind, found->folder);
    return {"data", str(found->kind->name, " in ", found->folder.string()),
            problem.empty() ? "" : with_remedy(problem, found->kind->remedy)};
  } catch (const std::exception& error) {
    return {"data", path, error.what()};
  }
}

Fact disk() {
  const auto here = space(".");
  const bool room = here && here->free >= kGigabyte;
  return {"disk here", here ? str(human_bytes(here->free), " free of ", human_bytes(here->total)) : "unknown",
          !writable(".") ? "this folder cannot be written: runs need output: and data.path: elsewhere"
          : !room        ? "little room for checkpoints and data: free some, or point output: to another disk"
                         : ""};
}

Fact clock() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[40];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &parts);
  std::error_code error;
  const auto built = fs::last_write_time("/proc/self/exe", error);
  const bool early = !error && built > fs::file_time_type::clock::now() + std::chrono::hours(24);
  return {
      "clock", text,
      early ? "it is before the build date of this program: set the clock, or the dates of runs will be wrong" : ""};
}

}  // namespace

int verb_doctor(const Words& words) {
  CLI::App app("Lists what this machine offers and what would fail on it. The exit code is 0, also with warnings.",
               "cifar-train doctor");
  bool json = false;
  std::string path = "data", library_path;
  app.add_flag("--json", json, "one JSON object");
  app.add_option("--data", path, "folder of the data sets")->type_name("FOLDER")->capture_default_str();
  app.add_option("--cuda-path", library_path, "the folder that is searched first for cuDNN, cuBLAS and NCCL")
      ->type_name("FOLDER");
  if (!parse(app, words)) return 0;

  std::vector<Fact> facts = {program(), cores(), memory(), device()};
  for (const auto& more : {gpus(library_path),
                           {mpi(), ucx(), launcher()},
                           mpirun(),
                           shared_memory(),
                           std::vector{data_set(path), disk(), clock()}})
    facts.insert(facts.end(), more.begin(), more.end());

  Json object = Json::object();
  size_t warnings = 0;
  for (const Fact& f : facts) {
    warnings += !f.warning.empty();
    object[f.what] = {{"value", f.value}, {"ok", f.warning.empty()}, {"warning", f.warning}};
    if (json) continue;
    const auto print = [](const char* verdict, const std::string& what, const std::string& text) {
      const std::string line = fmt::format("{:4}  {:14}  {}", verdict, what, printable(text));
      std::printf("%s\n", in_rows(STDOUT_FILENO, line, std::string(22, ' ')).c_str());
    };
    print(f.warning.empty() ? "ok" : "warn", f.what, f.value);
    if (!f.warning.empty()) print("", "", "-> " + f.warning);
  }
  if (json)
    std::printf("%s\n", object.dump(1, ' ', false, Json::error_handler_t::replace).c_str());
  else
    std::printf("%zu %s\n", warnings, warnings == 1 ? "warning" : "warnings");
  return 0;
}

}  // namespace ct
