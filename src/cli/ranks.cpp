#include "cli/ranks.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "base/cores.h"
#include "base/error.h"
#include "base/host.h"
#include "base/in_flight.h"
#include "base/terminal.h"
#include "base/utf8.h"
#include "cli/verbs.h"
#include "comm/host/threads.h"
#include "comm/join.h"
#include "comm/mpi/mpi.h"
#include "comm/rendezvous/tcp_bootstrap.h"
#include "comm/ucx/ucx.h"
#include "train/device.h"
#include "train/signals.h"

namespace ct {
namespace {

/// One line, whatever somebody's words in it hold.
void print_error(const std::string& message) {
  std::fprintf(stderr, "%s\n", in_rows(STDERR_FILENO, "error: " + printable(message)).c_str());
}

/// "rank 2 on host b: "
std::string speaker(const Launch& launch) { return str("rank ", launch.rank, " on host ", host_name(), ": "); }

/// Each host may have a terminal of its own, on which one rank speaks. Rank 0 does on the first host.
bool speaks_for_host(const Launch& launch) { return launch.rank == 0 || launch.local_rank == 0; }

/// Ranks could not connect, and the error has been printed.
struct NotJoined {
  ExitCode code;
};

/// Ends the process with ExitCode::peer unless MPI has started within `timeout_s`: MPI itself would wait for a frozen
/// process for ever. The host's other ranks wait a little longer, so that they speak only where the first cannot.
class StartLimit {
 public:
  StartLimit(const Launch& launch, double timeout_s)
      : waiting_([this, launch, timeout_s](const std::stop_token&) {
          std::unique_lock lock(mutex_);
          const std::chrono::duration<double> limit(timeout_s + launch.local_rank);
          if (over_.wait_for(lock, limit, [this] { return started_; })) return;
          print_error(str(speaker(launch), "MPI did not start within ", timeout_s,
                          " s: a process of the job is frozen, or its host cannot be reached: look for it, then start "
                          "the same command again"));
          std::_Exit(static_cast<int>(ExitCode::peer));
        }) {}
  ~StartLimit() {
    {
      const std::lock_guard lock(mutex_);
      started_ = true;
    }
    over_.notify_one();
  }

 private:
  std::mutex mutex_;
  std::condition_variable over_;
  bool started_ = false;
  std::jthread waiting_;  // declared last: it reads the others
};

std::unique_ptr<Communicator> join_by_mpi(const Launch& launch, Supervision supervision) {
  const StartLimit limit(launch, supervision.timeout_s);
  return join_mpi(launch);
}

/// Ranks that meet at MASTER_ADDR.
std::unique_ptr<Communicator> join_at_address(const Launch& launch, Supervision supervision) {
  std::unique_ptr<Bootstrap> ranks;
  try {
    ranks = std::make_unique<TcpBootstrap>(launch.rank, launch.size, endpoint_of(own_environment()),
                                           RendezvousOptions{.timeout_s = supervision.timeout_s,
                                                             .notice = [](const std::string& text) { warn(text); },
                                                             .give_up = [] { return StopSignals::requested() != 0; }});
    return join_ranks(*ranks, Transport::automatic, {.make_wire = [&] { return make_ucx_wire(*ranks); }});
  } catch (const RankZeroError& e) {
    if (speaks_for_host(launch)) print_error(speaker(launch) + e.what());
    throw NotJoined{e.code()};
  } catch (const Error& e) {
    // Those that have met fail alike, unless one was lost.
    const bool alike = ranks != nullptr && e.code() != ExitCode::peer;
    if (!alike || speaks_for_host(launch)) print_error(e.what());
    throw NotJoined{e.code()};
  }
}

/// Ranks that are processes: whoever fails first says why, all end with its code.
int run_processes(const Launch& launch, const std::function<int(Communicator&)>& body, Supervision supervision) {
  std::unique_ptr<Communicator> comm;
  try {
    comm =
        launch.meet == Launch::Meet::by_mpi ? join_by_mpi(launch, supervision) : join_at_address(launch, supervision);
  } catch (const NotJoined& failed) {
    return static_cast<int>(failed.code);
  }
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

/// As launched; none where the environment makes no sense: who needs ranks will say so.
Launch launch_or_none() {
  try {
    return detect_launch();
  } catch (const Error&) {
    return {};
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
    if (launch.meet == Launch::Meet::at_address) endpoint_of(own_environment());  // a mistake in it is one of the words
    return launch.size;
  }
  if (!is_auto) return number;
  if (launch.launched()) return 1;
  const int places = wants_cuda(config) ? std::max(gpu_count(config), 1) : available_cores();
  return static_cast<int>(auto_ranks(config.batch, places));
}

void require_connection(const Config& config, const Launch& launch) {
  const CommBackend backend = config.communication.backend;
  if (launch.parallel() && backend == CommBackend::threads)
    fail(ExitCode::usage, "communication.backend: threads cannot connect the ", launch.size, " processes of ",
         name(launch.kind), "; use auto or mpi");
  if (launch.parallel() && launch.meet == Launch::Meet::at_address && backend == CommBackend::mpi)
    fail(ExitCode::usage, "communication.backend: mpi needs mpirun, but these ranks were started by ",
         name(launch.kind), ", and meet at MASTER_ADDR: use auto");
  if (launch.kind == Launch::Kind::none && backend == CommBackend::mpi)
    fail(ExitCode::usage, "communication.backend: mpi needs a launcher: start with mpirun -np N cifar-train ...");
}

int run_job(int ranks, const std::function<int(Communicator&)>& body, Supervision supervision) {
  const Launch launch = detect_launch();
  if (launch.parallel()) return run_processes(launch, body, supervision);
  if (ranks > 1) return run_threads(ranks, body, supervision);
  const std::unique_ptr<Communicator> comm = make_solo();
  const Watchdog watchdog(*comm, supervision);
  return body(*comm);
}

int launch_rank() { return launch_or_none().rank; }

int report_failure(const Error& error) {
  std::fflush(stdout);  // before the error, where both go to one file
  const Launch launch = launch_or_none();
  if (launch.rank == 0) {
    print_error(error.what());
    return static_cast<int>(error.code());
  }
  const bool one_each_host = launch.kind == Launch::Kind::slurm_step && launch.local_size == 1;
  if ((launch.kind == Launch::Kind::address || one_each_host) && speaks_for_host(launch)) {
    print_error(speaker(launch) + error.what());
    return static_cast<int>(error.code());
  }
  // The launcher ends all ranks once rank 0 is gone; until then, silence.
  sigset_t term;
  sigemptyset(&term);
  sigaddset(&term, SIGTERM);
  sigprocmask(SIG_BLOCK, &term, nullptr);
  // mpirun lets so many seconds pass before it sends TERM.
  const char* const grace = std::getenv("OMPI_MCA_odls_base_sigkill_timeout");
  const timespec patience{5 + (grace != nullptr ? std::clamp(std::atoi(grace), 0, 60) : 0), 0};
  if (StopSignals::terminated() || sigtimedwait(&term, nullptr, &patience) == SIGTERM)
    return static_cast<int>(error.code());
  // mpirun and torchrun would have sent TERM if rank 0 had failed too: the mistake is this rank's alone, or ranks were
  // started one by one. srun may let ranks be, and then all would speak.
  if (launch.kind == Launch::Kind::open_mpi || launch.kind == Launch::Kind::address)
    print_error(speaker(launch) + error.what());
  return static_cast<int>(error.code());
}

}  // namespace ct
