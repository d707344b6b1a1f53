#include "comm/launch.h"

#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "base/error.h"

namespace ct {
namespace {

std::optional<int64_t> number(const Environment& environment, const char* variable) {
  const char* text = environment(variable);
  if (text == nullptr) return std::nullopt;
  int64_t value = -1;
  const char* end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, value);
  if (error != std::errc() || stop != end || value < 0) {
    fail(ExitCode::usage, "environment variable ", variable, "='", text,
         "' is no number: a launcher (mpirun, srun) sets it; unset it to run without one");
  }
  return value;
}

struct Variables {
  Launch::Kind kind;
  const char *rank, *size, *local_rank;
};

std::optional<Launch> read(const Environment& environment, const Variables& v) {
  const auto rank = number(environment, v.rank), size = number(environment, v.size);
  if (!rank || !size) return std::nullopt;
  if (*size < 1 || *size > INT32_MAX || *rank >= *size) {
    fail(ExitCode::usage, "environment variables ", v.rank, "=", *rank, " and ", v.size, "=", *size,
         " contradict each other: a launcher (mpirun, srun) sets both; unset them to run without one");
  }
  const auto local = number(environment, v.local_rank);
  return Launch{v.kind, static_cast<int>(*rank), static_cast<int>(*size),
                static_cast<int>(local && *local < *size ? *local : *rank)};
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

}  // namespace

std::string name(Launch::Kind kind) {
  switch (kind) {
    case Launch::Kind::open_mpi:
      return "mpirun (Open MPI)";
    case Launch::Kind::pmi:
      return "mpiexec (PMI)";
    case Launch::Kind::slurm_step:
      return "srun";
    case Launch::Kind::none:
      break;
  }
  return "no launcher";
}

Launch detect_launch(const Environment& environment) {
  using Kind = Launch::Kind;
  if (auto launch = read(environment, {Kind::open_mpi, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                                       "OMPI_COMM_WORLD_LOCAL_RANK"})) {
    return *launch;
  }
  if (auto launch = read(environment, {Kind::pmi, "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"})) return *launch;
  if (in_numbered_step(environment)) {
    if (auto launch = read(environment, {Kind::slurm_step, "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID"})) {
      return *launch;
    }
  }
  return {};
}

Launch detect_launch() {
  return detect_launch([](const char* variable) { return std::getenv(variable); });
}

}  // namespace ct
