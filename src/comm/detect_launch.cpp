#include "comm/detect_launch.h"

#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "base/files.h"

namespace ct {
namespace {

using Kind = Launch::Kind;

std::optional<int64_t> number(const Environment& environment, const char* variable) {
  const char* text = environment(variable);
  if (text == nullptr) return std::nullopt;
  int64_t value = -1;
  const char* end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, value);
  if (error != std::errc() || stop != end || value < 0) {
    fail(ExitCode::usage, "environment variable ", variable, "=", in_quotes(text),
         " is not a number: a launcher (mpirun, srun, torchrun) sets it; unset it to run without one");
  }
  return value;
}

struct Variables {
  Kind kind;
  const char *rank, *size, *local_rank, *local_size;
};
constexpr Variables kOpenMpi = {Kind::open_mpi, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                                "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"};
constexpr Variables kPmi = {Kind::pmi, "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"};
constexpr Variables kSlurm = {Kind::slurm_step, "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", nullptr};
constexpr Variables kAddress = {Kind::address, "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"};

std::optional<Launch> read(const Environment& environment, const Variables& v) {
  const auto rank = number(environment, v.rank), size = number(environment, v.size);
  if (!rank || !size) return std::nullopt;
  if (*size < 1 || *size > INT32_MAX || *rank >= *size) {
    fail(ExitCode::usage, "environment variables ", v.rank, "=", *rank, " and ", v.size, "=", *size,
         " contradict each other: a launcher (mpirun, srun, torchrun) sets both; unset them to run without one");
  }
  const auto local = number(environment, v.local_rank);
  const auto local_size = v.local_size != nullptr ? number(environment, v.local_size) : std::nullopt;
  return Launch{.kind = v.kind,
                .rank = static_cast<int>(*rank),
                .size = static_cast<int>(*size),
                .local_rank = static_cast<int>(local && *local < *size ? *local : *rank),
                .local_size = static_cast<int>(local_size && *local_size <= *size ? *local_size : 0)};
}

/// srun numbers its steps from 0; the batch script, an interactive shell and the like have names, or these huge
/// numbers.
bool in_numbered_step(const Environment& environment) {
  constexpr int64_t kFirstSpecialStep = 0xfffffff0;
  const char* step = environment("SLURM_STEP_ID");
  if (step == nullptr) return false;
  int64_t id = -1;
  const char* end = step + std::strlen(step);
  const auto [stop, error] = std::from_chars(step, end, id);
  return error == std::errc() && stop == end && id >= 0 && id < kFirstSpecialStep;
}

/// "2(x3),1" -> the tasks of this node, whose number SLURM_NODEID is; 0 where it cannot be told.
int slurm_tasks_here(const Environment& environment) {
  const char *list = environment("SLURM_STEP_TASKS_PER_NODE"), *node = environment("SLURM_NODEID");
  if (list == nullptr || node == nullptr) return 0;
  int64_t index = 0;
  if (std::from_chars(node, node + std::strlen(node), index).ec != std::errc() || index < 0) return 0;
  for (std::string_view text = list; !text.empty();) {
    int tasks = 0;
    int64_t nodes = 1;
    const char* end = text.data() + text.size();
    const char* at = std::from_chars(text.data(), end, tasks).ptr;
    if (at == text.data() || tasks < 1) return 0;
    if (std::string_view(at, end).starts_with("(x")) {
      at = std::from_chars(at + 2, end, nodes).ptr;
      if (at == end || *at++ != ')') return 0;
    }
    if (index < nodes) return tasks;
    index -= nodes;
    if (at != end && *at++ != ',') return 0;
    text = {at, end};
  }
  return 0;
}

bool has(const Environment& environment, const char* variable) {
  const char* text = environment(variable);
  return text != nullptr && *text != '\0';
}

bool has_meeting_place(const Environment& environment) {
  return has(environment, "MASTER_ADDR") && has(environment, "MASTER_PORT");
}

[[noreturn]] void contradict(const Launch& a, const Variables& names_a, const Launch& b, const Variables& names_b) {
  fail(ExitCode::usage, names_a.rank, "=", a.rank, " and ", names_a.size, "=", a.size, " of ", name(a.kind),
       " contradict ", names_b.rank, "=", b.rank, " and ", names_b.size, "=", b.size, ": unset those of the launcher ",
       "that did not start this process");
}

/// Both tell of one world, or one of them is a leftover.
void require_same(const Launch& a, const Variables& names_a, const std::optional<Launch>& b, const Variables& names_b) {
  if (b && (a.rank != b->rank || a.size != b->size)) contradict(a, names_a, *b, names_b);
}

void require_pmix(const Environment& environment, const Launch& launch) {
  const auto rank = number(environment, "PMIX_RANK");
  if (rank && *rank != launch.rank)
    fail(ExitCode::usage, "PMIX_RANK=", *rank, " contradicts rank ", launch.rank, " of ", name(launch.kind),
         ": unset the variables of the launcher that did not start this process");
}

/// Ranks that know not how many they are, or which, would each train by itself. A WORLD_SIZE alone is a script's own,
/// as is a RANK=0.
void require_whole_world(const Environment& environment) {
  const auto rank = number(environment, kAddress.rank);
  const bool has_address = has_meeting_place(environment);
  if (!rank && (has_address || has(environment, kAddress.local_rank)) &&
      number(environment, kAddress.size).value_or(1) > 1)
    fail(ExitCode::usage, "environment variables ", kAddress.size, " and ",
         has_address ? "MASTER_ADDR" : kAddress.local_rank, " are set, but not ", kAddress.rank,
         ": torchrun and launch set all of them; set it too, or unset them to run without a launcher");
  const bool one_of_more = rank && (*rank > 0 || has(environment, "MASTER_ADDR"));
  if (!one_of_more || has(environment, kAddress.size)) return;
  fail(ExitCode::usage, "environment variable ", kAddress.rank, "=", *rank, " is set, but not ", kAddress.size,
       ": torchrun and launch set both; set it too, or unset ", kAddress.rank, " to run without a launcher");
}

}  // namespace

std::string name(Kind kind) {
  switch (kind) {
    case Kind::open_mpi:
      return "mpirun (Open MPI)";
    case Kind::pmi:
      return "mpiexec (PMI)";
    case Kind::slurm_step:
      return "srun";
    case Kind::address:
      return "torchrun or launch (RANK, WORLD_SIZE)";
    case Kind::none:
      break;
  }
  return "no launcher";
}

Launch detect_launch(const Environment& environment) {
  std::optional<Launch> address = read(environment, kAddress);
  if (address) address->meet = Launch::Meet::at_address;
  if (address && has(environment, "TORCHELASTIC_RUN_ID")) return *address;  // whatever started torchrun
  for (const Variables* variables : {&kOpenMpi, &kPmi}) {
    auto launch = read(environment, *variables);
    if (!launch) continue;
    if (variables == &kOpenMpi) require_pmix(environment, *launch);
    require_same(*launch, *variables, address, kAddress);
    return *launch;
  }
  std::optional<Launch> slurm;
  if (in_numbered_step(environment)) slurm = read(environment, kSlurm);
  if (slurm && slurm->size == 1 && has(environment, "SLURM_PTY_PORT")) slurm.reset();  // somebody's shell
  if (slurm) {
    slurm->local_size = slurm_tasks_here(environment);
    require_same(*slurm, kSlurm, address, kAddress);
    require_pmix(environment, *slurm);
  }
  if (address) return *address;
  if (slurm) {
    if (has_meeting_place(environment) && !has(environment, "PMIX_RANK")) slurm->meet = Launch::Meet::at_address;
    return *slurm;
  }
  // Slurm's interactive shells and batch scripts may have one, and are no ranks.
  if (has(environment, "PMIX_RANK") && !has(environment, "SLURM_JOB_ID"))
    fail(ExitCode::usage, "PMIX_RANK=", in_quotes(environment("PMIX_RANK")),
         " is set, but the number of ranks is not: start them with mpirun or srun --mpi=pmix, or unset it to run ",
         "without them");
  require_whole_world(environment);
  return {};
}

Environment own_environment() {
  return [](const char* variable) { return static_cast<const char*>(std::getenv(variable)); };
}

Launch detect_launch() { return detect_launch(own_environment()); }

}  // namespace ct
