#include "comm/watchdog/watchdog.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <functional>

#include "base/error.h"
#include "comm/host/processes.h"
#include "comm/host/threads.h"

namespace ct {
namespace {

using namespace std::chrono_literals;
using What = Finding::What;
using Clock = std::chrono::steady_clock;

// ---- the rules, with a clock of our own

class Rules : public testing::Test {
 protected:
  static constexpr int kRanks = 3;
  static constexpr double kHeartbeat = 5, kTimeout = 60;

  /// Time passes in steps of 0.1 s; before each look `live` says what the ranks did.
  std::optional<Finding> pass(double seconds, const std::function<void(std::vector<Signs>&)>& live) {
    for (const double end = now_ + seconds; now_ < end;) {
      now_ += 0.1;
      live(ranks_);
      if (const auto found = rules_.look(now_, ranks_)) return found;
    }
    return std::nullopt;
  }
  static void beat(std::vector<Signs>& ranks) {
    for (Signs& s : ranks) ++s.beats;
  }
  static void work(std::vector<Signs>& ranks) {
    beat(ranks);
    for (Signs& s : ranks) ++s.progress;
  }

  std::vector<Signs> ranks_ = std::vector<Signs>(kRanks);
  double now_ = 1e6;
  WatchdogRules rules_{kRanks, {kHeartbeat, kTimeout}, now_};
};

TEST_F(Rules, AllIsWell) { EXPECT_FALSE(pass(1000, work)); }

TEST_F(Rules, ADeadRankIsLostAtOnce) {
  EXPECT_FALSE(pass(10, work));
  ranks_[2].gone = 1;
  const auto found = pass(0.1, work);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->rank, 2);
  EXPECT_EQ(found->what, What::lost);
}

TEST_F(Rules, WhoHasEndedMayBeGoneAndSilent) {
  ranks_[1].ended = 1;
  ranks_[1].gone = 1;
  EXPECT_FALSE(pass(4 * kTimeout, [](auto& ranks) {
    for (int r : {0, 2}) ++ranks[static_cast<size_t>(r)].beats, ++ranks[static_cast<size_t>(r)].progress;
  }));
}

TEST_F(Rules, NothingIsExpectedOnceAllHaveEnded) {
  for (Signs& s : ranks_) s.ended = 1;
  EXPECT_FALSE(pass(4 * kTimeout, [](auto&) {}));
}

TEST_F(Rules, AFrozenRankIsSilent) {
  const auto others = [](std::vector<Signs>& ranks) {
    for (size_t r : {0, 2}) ++ranks[r].beats, ++ranks[r].progress;
  };
  EXPECT_FALSE(pass(kHeartbeat - 0.2, others));
  const auto found = pass(0.5, others);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->rank, 1);
  EXPECT_EQ(found->what, What::silent);
  EXPECT_NEAR(found->seconds, kHeartbeat, 0.2);
}

TEST_F(Rules, ASlowRankIsNotSilent) {
  int n = 0;
  EXPECT_FALSE(pass(1000, [&](std::vector<Signs>& ranks) {
    for (size_t r : {0, 2}) ++ranks[r].beats;
    if (++n % 45 == 0) ++ranks[1].beats, ++ranks[1].progress;  // 4.5 s
  }));
}

TEST_F(Rules, ThoseWhoWaitAreNotTheCulprit) {
  ranks_[0].waiting = ranks_[2].waiting = 1;
  ranks_[1].collectives = 7;  // more than the others: still it is the one that does not wait
  EXPECT_FALSE(pass(kTimeout - 0.2, beat));
  const auto found = pass(0.5, beat);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->rank, 1);
  EXPECT_EQ(found->what, What::stuck);
  EXPECT_NEAR(found->seconds, kTimeout, 0.2);
}

TEST_F(Rules, WhereAllWaitTheOneBehindIsTheCulprit) {
  for (size_t r = 0; r < kRanks; ++r) ranks_[r].waiting = 1, ranks_[r].collectives = r == 2 ? 11 : 12;
  const auto found = pass(2 * kTimeout, beat);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->rank, 2);
  EXPECT_EQ(found->what, What::stuck);
}

TEST_F(Rules, AnEndedRankIsNotTheCulprit) {
  ranks_[0].ended = 1;
  ranks_[1].waiting = 1;
  const auto found = pass(2 * kTimeout, beat);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->rank, 2);
}

TEST_F(Rules, OneRanksProgressIsEnough) {
  // A long save or evaluation of rank 0, while the others wait for it.
  ranks_[1].waiting = ranks_[2].waiting = 1;
  int n = 0;
  EXPECT_FALSE(pass(1000, [&](std::vector<Signs>& ranks) {
    beat(ranks);
    ranks[0].phase = Phase::save;
    if (++n % 550 == 0) ++ranks[0].progress;  // 55 s
  }));
  EXPECT_FALSE(pass(1000, [&](std::vector<Signs>& ranks) {  // collectives are progress too
    beat(ranks);
    if (++n % 550 == 0) ++ranks[2].collectives;
  }));
}

TEST_F(Rules, AClockThatJumpedRestartsAllDeadlines) {
  const auto only_me = [](std::vector<Signs>& ranks) { ++ranks[0].beats; };
  EXPECT_FALSE(pass(kHeartbeat - 0.2, only_me));
  now_ += 3600;  // suspended and continued
  EXPECT_FALSE(pass(kHeartbeat - 0.2, only_me));
  now_ += 2;
  EXPECT_FALSE(pass(kHeartbeat - 0.2, only_me));
  const auto found = pass(0.5, only_me);
  ASSERT_TRUE(found) << "a deadline that begins anew still ends";
  EXPECT_EQ(found->what, What::silent);

  WatchdogRules again(kRanks, {kHeartbeat, kTimeout}, now_);
  rules_ = again;
  EXPECT_FALSE(pass(kTimeout - 0.2, beat));
  now_ += 2 * kTimeout;
  EXPECT_FALSE(pass(kTimeout - 0.2, beat));
  EXPECT_TRUE(pass(0.5, beat));
}

TEST_F(Rules, TheDeadAreDeadAfterAJumpToo) {
  now_ += 3600;
  ranks_[1].gone = 1;
  EXPECT_TRUE(pass(0.1, beat));
}

TEST_F(Rules, OneLineSaysAll) {
  const Signs signs{.collectives = 57, .phase = Phase::evaluation};
  const RankPlace place{.pid = 4711, .host = "node7"};
  for (const auto& [finding, words] : {std::pair(Finding{2, What::lost, 0}, "was lost"),
                                       std::pair(Finding{2, What::silent, 30.2}, "is silent for 30 s"),
                                       std::pair(Finding{2, What::stuck, 600.1}, "makes no progress for 600 s")}) {
    const std::string text = text_of(finding, signs, place);
    for (const char* part : {"rank 2", "pid 4711", "host node7", "phase evaluation", "collective 57", words, "again"}) {
      EXPECT_NE(text.find(part), std::string::npos) << part << " in " << text;
    }
    EXPECT_EQ(text.find('\n'), std::string::npos);
  }
}

// ---- the star

/// Every rank, a thread, with its wire; the first error is thrown.
void with_star(int ranks, const std::function<void(Communicator&, WatchdogWire&)>& body) {
  run_ranks(ranks, [&](Communicator& comm) {
    const auto wire = make_star_wire(comm, -1);
    body(comm, *wire);
    return 0;
  });
}

bool exchange_until(WatchdogWire& wire, const std::function<bool()>& holds) {
  for (const auto end = Clock::now() + 60s; !holds() && Clock::now() < end;) wire.exchange(20ms);
  return holds();
}

TEST(Star, EveryHeartbeatReachesRankZeroAndItsOwnAllOthers) {
  with_star(4, [](Communicator& comm, WatchdogWire& wire) {
    comm.heartbeat().collectives = 100 + static_cast<uint64_t>(comm.rank());
    comm.heartbeat().phase = Phase::evaluation;
    const auto heard = [&](int r) {
      return wire.signs()[static_cast<size_t>(r)].collectives >= 100 + static_cast<uint64_t>(r) &&
             wire.signs()[static_cast<size_t>(r)].phase == Phase::evaluation;
    };
    check(exchange_until(wire, [&] { return heard(0) && heard(1) && heard(2) && heard(3); }), "not heard");
    check(wire.place(3).pid == getpid() && !wire.place(3).host.empty(), "place");
    const uint64_t beats = wire.signs()[0].beats;
    check(exchange_until(wire, [&] { return wire.signs()[0].beats > beats + 2; }), "no beats");
    for (const Signs& s : wire.signs()) check(s.gone == 0, "all are there");
    if (comm.rank() != 0) check(wire.signs()[2].ended == 1, "only rank 0 judges others");
    check(!wire.failure(), "all is well");
    wire.close();
    for (const Signs& s : wire.signs()) check(s.gone == 0 || s.ended == 1, "an orderly end is not a loss");
  });
}

TEST(Star, OneOfAllClaimsIsGranted) {
  for (int i = 0; i < 5; ++i) {
    std::atomic<int> granted{0}, code{0};
    with_star(4, [&](Communicator& comm, WatchdogWire& wire) {
      const int mine = 20 + comm.rank();
      if (wire.claim(mine)) ++granted, code = mine;
      check(exchange_until(wire, [&] { return wire.failure().has_value(); }), "no verdict");
      wire.close();
      comm.barrier();
      check(wire.failure() == code.load(), "another verdict");
    });
    EXPECT_EQ(granted, 1);
  }
}

TEST(Star, AFailureOfOneReachesAll) {
  with_star(3, [](Communicator& comm, WatchdogWire& wire) {
    if (comm.rank() == 2) check(wire.claim(3), "the first");
    check(exchange_until(wire, [&] { return wire.failure().has_value(); }), "not heard");
    check(wire.failure() == 3, "code");
    check(comm.rank() == 2 || !wire.claim(7), "a second one");
    wire.close();
  });
}

TEST(Star, AnEndedConnectionIsALostRank) {
  std::atomic<bool> done{false};
  run_ranks(3, [&](Communicator& comm) {
    auto wire = make_star_wire(comm, -1);
    if (comm.rank() == 0) {
      check(exchange_until(*wire, [&] { return wire->signs()[1].gone != 0; }), "not noticed");
      check(wire->signs()[2].gone == 0, "it is there");
      done = true;
    } else if (comm.rank() == 2) {
      while (!done) wire->exchange(20ms);
    }
    return 0;
  });
}

TEST(Star, WhenRankZeroIsLostTheLowestOfTheOthersSpeaks) {
  std::atomic<int> granted{0}, who{0};
  run_ranks(4, [&](Communicator& comm) {
    auto wire = make_star_wire(comm, -1);
    if (comm.rank() == 0) {
      wire.reset();
    } else {
      check(exchange_until(*wire, [&] { return wire->signs()[0].gone != 0; }), "not noticed");
      if (wire->claim(7)) ++granted, who = comm.rank();
      check(wire->failure() == 7, "it knows");
    }
    comm.barrier();
    return 0;
  });
  EXPECT_EQ(granted, 1);
  EXPECT_EQ(who, 1);
}

// ---- processes

struct Outcome {
  std::vector<int> statuses;  // as waitpid gives them
  std::string errors;         // what all wrote to stderr
};

/// Forks ranks that run body under a watchdog; act gets their pids once all have called ready(). Like the program: the
/// first to fail prints, all end with its code.
Outcome supervised(int size, Supervision supervision, Watchdog::Wire wire,
                   const std::function<void(Communicator&, const std::function<void()>& ready)>& body,
                   const std::function<void(const std::vector<pid_t>&)>& act) {
  std::array<int, 2> errors{}, ready{};
  EXPECT_EQ(pipe(errors.data()) + pipe(ready.data()), 0);
  SharedFile file = SharedFile::create("/dev/shm", SharedBoard::bytes(size)).value();
  std::vector<pid_t> pids;
  for (int rank = 0; rank < size; ++rank) {
    const pid_t pid = fork();
    if (pid == 0) {
      alarm(120);  // whatever goes wrong, nothing is left behind
      dup2(errors[1], STDERR_FILENO);
      close(errors[0]);
      int status = 99;
      {
        auto mine = SharedFile::open(file.path(), SharedBoard::bytes(size));
        ProcessCommunicator comm(*std::move(mine), rank, size);
        std::optional<Watchdog> watchdog;
        try {
          watchdog.emplace(comm, supervision, wire);
          body(comm, [&] {
            if (write(ready[1], "r", 1) != 1) _exit(98);
          });
          comm.barrier();
          watchdog.reset();
          comm.finish();
          status = 0;
        } catch (const Error& e) {
          if (watchdog->claim(static_cast<int>(e.code()))) dprintf(STDERR_FILENO, "error: %s\n", e.what());
          status = watchdog->failure().value_or(static_cast<int>(e.code()));
        } catch (...) {
        }
      }
      _exit(status);
    }
    pids.push_back(pid);
  }
  close(errors[1]);
  close(ready[1]);
  char byte = 0;
  for (int i = 0; i < size; ++i) EXPECT_EQ(read(ready[0], &byte, 1), 1);
  act(pids);
  Outcome outcome;
  for (const pid_t pid : pids) {
    int status = -1;
    waitpid(pid, &status, 0);
    outcome.statuses.push_back(status);
  }
  for (std::array<char, 4096> block;;) {
    const ssize_t got = read(errors[0], block.data(), block.size());
    if (got <= 0) break;
    outcome.errors.append(block.data(), static_cast<size_t>(got));
  }
  close(errors[0]);
  close(ready[0]);
  return outcome;
}

int lines(const std::string& text) { return static_cast<int>(std::count(text.begin(), text.end(), '\n')); }

void expect_one_line(const Outcome& outcome, std::initializer_list<std::string> parts) {
  EXPECT_EQ(lines(outcome.errors), 1) << outcome.errors;
  EXPECT_EQ(outcome.errors.rfind("error: ", 0), 0u) << outcome.errors;
  for (const std::string& part : parts)
    EXPECT_NE(outcome.errors.find(part), std::string::npos) << part << " in " << outcome.errors;
}

void expect_all_end_with_7_but(int victim, const Outcome& outcome) {
  for (int r = 0; r < static_cast<int>(outcome.statuses.size()); ++r) {
    if (r == victim) continue;
    const int status = outcome.statuses[static_cast<size_t>(r)];
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 7) << "rank " << r << " " << status;
  }
}

constexpr Supervision kPatient{.heartbeat_s = 100, .timeout_s = 100}, kQuick{.heartbeat_s = 1, .timeout_s = 100};

/// What ranks do until they are told to end.
void train_for_ever(Communicator& comm, const std::function<void()>& ready) {
  comm.heartbeat().advance(Phase::step);
  comm.barrier();
  ready();
  for (;;) {
    comm.heartbeat().advance(Phase::step);
    comm.barrier();
    std::this_thread::sleep_for(1ms);
  }
}

/// Ranks that hear of nothing by themselves: only the watchdog can end them.
void compute_for_ever(Communicator& comm, const std::function<void()>& ready) {
  comm.heartbeat().advance(Phase::evaluation);
  comm.barrier();
  ready();
  for (;;) pause();
}

class Processes : public testing::TestWithParam<Watchdog::Wire> {};

TEST_P(Processes, AllIsWell) {
  const auto done = supervised(
      3, kQuick, GetParam(),
      [](Communicator& comm, const auto& ready) {
        ready();
        for (int i = 0; i < 300; ++i) {
          comm.heartbeat().advance(Phase::step);
          comm.barrier();
          std::this_thread::sleep_for(1ms * comm.rank());
        }
      },
      [](const auto&) {});
  EXPECT_EQ(done.errors, "");
  for (const int status : done.statuses) EXPECT_EQ(status, 0);
}

TEST_P(Processes, AKilledRankEndsTheJobWithOneLine) {
  for (const int victim : {0, 1, 2}) {
    for (const auto& body : {train_for_ever, compute_for_ever}) {
      pid_t pid = 0;
      const auto done = supervised(3, kPatient, GetParam(), body, [&](const auto& pids) {
        pid = pids[static_cast<size_t>(victim)];
        kill(pid, SIGKILL);
      });
      expect_one_line(done, {str("rank ", victim, " (pid ", pid), "was lost", "phase"});
      expect_all_end_with_7_but(victim, done);
    }
  }
}

TEST_P(Processes, AStoppedRankIsSilent) {
  for (const int victim : {0, 2}) {
    pid_t pid = 0;
    const auto done = supervised(3, kQuick, GetParam(), compute_for_ever, [&](const auto& pids) {
      pid = pids[static_cast<size_t>(victim)];
      std::this_thread::sleep_for(500ms);  // the phase is on its way to its peers with the next beats
      kill(pid, SIGSTOP);
      for (const pid_t other : pids) {
        siginfo_t info{};
        if (other != pid) waitid(P_PID, static_cast<id_t>(other), &info, WEXITED | WNOWAIT);
      }
      kill(pid, SIGCONT);  // it comes back to a job that is over: it must say nothing, and end
    });
    expect_one_line(done, {str("rank ", victim, " (pid ", pid), "is silent for 1 s", "phase evaluation"});
    expect_all_end_with_7_but(-1, done);
  }
}

TEST_P(Processes, ASuspendedJobGoesOn) {
  const auto done = supervised(
      3, kQuick, GetParam(),
      [](Communicator& comm, const auto& ready) {
        ready();
        for (int i = 0; i < 400; ++i) {
          comm.heartbeat().advance(Phase::step);
          comm.barrier();
          std::this_thread::sleep_for(10ms);
        }
      },
      [](const auto& pids) {
        std::this_thread::sleep_for(200ms);
        for (const pid_t pid : pids) kill(pid, SIGSTOP);
        std::this_thread::sleep_for(3s);
        for (const pid_t pid : pids) kill(pid, SIGCONT);
      });
  EXPECT_EQ(done.errors, "");
  for (const int status : done.statuses) EXPECT_EQ(status, 0);
}

TEST_P(Processes, ARankThatIsStuckIsNamed) {
  pid_t pid = 0;
  const auto done = supervised(
      3, {.heartbeat_s = 100, .timeout_s = 1}, GetParam(),
      [](Communicator& comm, const auto& ready) {
        comm.heartbeat().advance(Phase::save);
        comm.barrier();
        ready();
        while (comm.rank() == 1) pause();
        comm.barrier();
      },
      [&](const auto& pids) { pid = pids[1]; });
  expect_one_line(done, {str("rank 1 (pid ", pid), "makes no progress for 1 s", "phase save"});
  expect_all_end_with_7_but(-1, done);
}

TEST_P(Processes, AnErrorOfOneRankEndsAllWithItsCode) {
  const auto done = supervised(
      3, kPatient, GetParam(),
      [](Communicator& comm, const auto& ready) {
        ready();
        if (comm.rank() == 1) fail(ExitCode::data, "a bad file");
        compute_for_ever(comm, [] {});
      },
      [](const auto&) {});
  expect_one_line(done, {"a bad file"});
  for (const int status : done.statuses) EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 3) << status;
}

TEST_P(Processes, AnErrorOfAllIsPrintedOnce) {
  const auto done = supervised(
      4, kPatient, GetParam(),
      [](Communicator& comm, const auto& ready) {
        ready();
        comm.barrier();  // a rank that has not begun yet would learn of a failure elsewhere
        fail(ExitCode::usage, "they differ");
      },
      [](const auto&) {});
  expect_one_line(done, {"they differ"});
  for (const int status : done.statuses) EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 2) << status;
}

INSTANTIATE_TEST_SUITE_P(Watchdog, Processes, testing::Values(Watchdog::Wire::automatic, Watchdog::Wire::sockets),
                         [](const auto& info) {
                           return std::string(info.param == Watchdog::Wire::sockets ? "Sockets" : "SharedMemory");
                         });

TEST(WatchdogDeathTest, AStuckThreadEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto job = [] {
    std::optional<Watchdog> watchdog;
    run_ranks(3, [&](Communicator& comm) {
      if (comm.rank() == 0) watchdog.emplace(comm, Supervision{.heartbeat_s = 100, .timeout_s = 1});
      comm.heartbeat().advance(Phase::data);
      while (comm.rank() == 2) pause();
      comm.barrier();
      return 0;
    });
  };
  EXPECT_EXIT(job(), testing::ExitedWithCode(7), "error: rank 2 .*makes no progress for 1 s in phase data");
}

}  // namespace
}  // namespace ct
