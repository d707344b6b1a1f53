#include "cli/ranks.h"

#include <signal.h>

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <new>

#include "base/cores.h"
#include "base/error.h"
#include "comm/launch.h"
#include "comm/mpi.h"
#include "comm/threads.h"

namespace ct {
namespace {

void print_error(const std::string& message) { std::fprintf(stderr, "error: %s\n", message.c_str()); }

/// Ranks of an MPI job: whoever fails first says why, all end with its code.
int run_mpi(const Launch& launch, const std::function<int(Communicator&)>& body) {
  const std::unique_ptr<Communicator> comm = join_mpi(launch);
  try {
    const int result = body(*comm);
    comm->finish();
    return result;
  } catch (...) {
    const Error e = error_in_flight();
    const int code = static_cast<int>(e.code());
    if (comm->abort(code)) print_error(e.what());
    return code;
  }
}

}  // namespace

int rank_count(const Config& config, const std::string& asked) {
  const Launch launch = detect_launch();
  int number = 0;
  const bool is_auto = asked.empty() || asked == "auto";
  if (!is_auto) {
    const auto [end, error] = std::from_chars(asked.data(), asked.data() + asked.size(), number);
    if (error != std::errc() || end != asked.data() + asked.size() || number < 1 || number > 1024)
      fail(ExitCode::usage, "--ranks ", asked, ": give a number from 1 to 1024, or auto");
  }
  if (launch.parallel()) {
    if (!is_auto && number > 1)
      fail(ExitCode::usage, "--ranks ", number, " under ", name(launch.kind),
           ": its processes are the ranks already; leave --ranks out");
    if (config.communication.backend == "threads")
      fail(ExitCode::usage, "communication.backend: threads cannot connect the ", launch.size, " processes of ",
           name(launch.kind), "; use auto or mpi");
    return launch.size;
  }
  const char *world = std::getenv("WORLD_SIZE"), *torch_rank = std::getenv("RANK");
  if (launch.kind == Launch::Kind::none && torch_rank != nullptr && world != nullptr && std::atoi(world) > 1)
    fail(ExitCode::usage, "RANK=", torch_rank, " and WORLD_SIZE=", world,
         " are set, as by torchrun or deepspeed, which cannot connect this program's ranks: start it with mpirun -np ",
         world, ", or unset them");
  if (config.communication.backend == "mpi" && launch.kind == Launch::Kind::none)
    fail(ExitCode::usage, "communication.backend: mpi needs a launcher: start with mpirun -np N cifar-train ...");
  return is_auto ? static_cast<int>(auto_ranks(config.batch, available_cores())) : number;
}

int run_job(int ranks, const std::function<int(Communicator&)>& body) {
  const Launch launch = detect_launch();
  if (launch.parallel()) return run_mpi(launch, body);
  if (ranks == 1) return body(*make_solo());
  return run_ranks(ranks, body);
}

Error error_in_flight() {
  try {
    throw;
  } catch (const Error& e) {
    return e;
  } catch (const std::bad_alloc&) {
    return {ExitCode::memory, "out of memory: use a smaller micro-batch or fewer ranks on this machine"};
  } catch (const std::exception& e) {
    return {ExitCode::bug, std::string("internal error: ") + e.what()};
  }
}

int launch_rank() {
  try {
    return detect_launch().rank;
  } catch (const Error&) {  // who needs ranks will say so
    return 0;
  }
}

int report_failure(const Error& error) {
  if (launch_rank() == 0) {
    print_error(error.what());
    return static_cast<int>(error.code());
  }
  // The launcher ends all ranks once rank 0 is gone; until then, silence.
  sigset_t term;
  sigemptyset(&term);
  sigaddset(&term, SIGTERM);
  sigprocmask(SIG_BLOCK, &term, nullptr);
  const timespec patience{5, 0};
  sigtimedwait(&term, nullptr, &patience);
  return static_cast<int>(error.code());
}

}  // namespace ct
