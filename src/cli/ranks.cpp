#include "cli/ranks.h"

#include <signal.h>

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <optional>

#include "base/cores.h"
#include "base/error.h"
#include "base/host.h"
#include "base/in_flight.h"
#include "base/utf8.h"
#include "comm/host/threads.h"
#include "comm/launch.h"
#include "comm/mpi/mpi.h"
#include "train/device.h"
#include "train/signals.h"

namespace ct {
namespace {

/// One line, whatever somebody's words in it hold.
void print_error(const std::string& message) { std::fprintf(stderr, "error: %s\n", printable(message).c_str()); }

/// Ranks of an MPI job: whoever fails first says why, all end with its code.
int run_mpi(const Launch& launch, const std::function<int(Communicator&)>& body, Supervision supervision) {
  const std::unique_ptr<Communicator> comm = join_mpi(launch);
  StopSignals::install_again();
  std::optional<Watchdog> watchdog;
  try {
    watchdog.emplace(*comm, supervision);
    const int result = body(*comm);
    // The launcher sends TERM to all when the first has exited; by then all must be deaf to it.
    StopSignals::ignore_terminations();
    comm->barrier();
    watchdog->stop();
    comm->finish();
    return result;
  } catch (...) {
    const Error e = error_in_flight();
    const int code = static_cast<int>(e.code());
    StopSignals::ignore_terminations();
    if (watchdog ? watchdog->claim(code) : comm->abort(code) && comm->rank() == 0) print_error(e.what());
    return watchdog ? watchdog->failure().value_or(code) : code;
  }
}

/// Ranks as threads: rank 0's watchdog is that of the process.
int run_threads(int ranks, const std::function<int(Communicator&)>& body, Supervision supervision) {
  std::optional<Watchdog> watchdog;
  const int result = run_ranks(ranks, [&](Communicator& comm) {
    struct Ended {
      Heartbeat& heartbeat;
      ~Ended() { heartbeat.ended.store(1, std::memory_order_relaxed); }
    } const ended{comm.heartbeat()};
    if (comm.rank() == 0) watchdog.emplace(comm, supervision);
    return body(comm);
  });
  return watchdog ? watchdog->failure().value_or(result) : result;
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
    if (config.communication.backend == CommBackend::threads)
      fail(ExitCode::usage, "communication.backend: threads cannot connect the ", launch.size, " processes of ",
           name(launch.kind), "; use auto or mpi");
    return launch.size;
  }
  const char *world = std::getenv("WORLD_SIZE"), *torch_rank = std::getenv("RANK");
  if (launch.kind == Launch::Kind::none && torch_rank != nullptr && world != nullptr && std::atoi(world) > 1)
    fail(ExitCode::usage, "RANK=", torch_rank, " and WORLD_SIZE=", world,
         " are set, as by torchrun or deepspeed, which cannot connect this program's ranks: start it with mpirun -np ",
         world, ", or unset them");
  if (config.communication.backend == CommBackend::mpi && launch.kind == Launch::Kind::none)
    fail(ExitCode::usage, "communication.backend: mpi needs a launcher: start with mpirun -np N cifar-train ...");
  if (!is_auto) return number;
  const int places = wants_cuda(config) ? std::max(gpu_count(config), 1) : available_cores();
  return static_cast<int>(auto_ranks(config.batch, places));
}

int run_job(int ranks, const std::function<int(Communicator&)>& body, Supervision supervision) {
  const Launch launch = detect_launch();
  if (launch.parallel()) return run_mpi(launch, body, supervision);
  if (ranks > 1) return run_threads(ranks, body, supervision);
  const std::unique_ptr<Communicator> comm = make_solo();
  const Watchdog watchdog(*comm, supervision);
  return body(*comm);
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
  if (StopSignals::terminated() || sigtimedwait(&term, nullptr, &patience) == SIGTERM)
    return static_cast<int>(error.code());
  // mpirun would have sent TERM if rank 0 had failed too: the mistake is this rank's alone. Other launchers may let
  // ranks be, and then all would speak.
  if (detect_launch().kind == Launch::Kind::open_mpi)
    print_error(str("rank ", launch_rank(), " on host ", host_name(), ": ", error.what()));
  return static_cast<int>(error.code());
}

}  // namespace ct
