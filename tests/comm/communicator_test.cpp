#include "comm/communicator.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "base/error.h"
#include "base/temporary_folder.h"
#include "comm/exercise.h"
#include "comm/host/processes.h"
#include "comm/host/threads.h"

namespace ct {
namespace {

ExitCode code_of(const std::function<void()>& act, std::string* message = nullptr) {
  try {
    act();
  } catch (const Error& error) {
    if (message != nullptr) *message = error.what();
    return error.code();
  }
  return ExitCode::done;
}

TEST(Solo, DoesAllOfIt) {
  const auto comm = make_solo();
  EXPECT_EQ(comm->description(), "solo");
  exercise(*comm);
  comm->finish();
}

class Ranks : public testing::TestWithParam<int> {};

TEST_P(Ranks, OfThreads) {
  EXPECT_EQ(run_ranks(GetParam(),
                      [](Communicator& comm) {
                        exercise(comm);
                        comm.finish();
                        return 0;
                      }),
            0);
}

/// Runs body in `size` forked processes; their exit statuses as waitpid gives them. An Error becomes 100 + its code if
/// this rank was the first to fail, else its code.
std::vector<int> run_processes(int size, const std::function<void(Communicator&)>& body) {
  SharedFile file = SharedFile::create("/dev/shm", SharedBoard::bytes(size)).value();
  std::vector<pid_t> pids;
  for (int rank = 0; rank < size; ++rank) {
    const pid_t pid = fork();
    if (pid == 0) {
      std::unique_ptr<Communicator> comm;
      try {
        auto mine = SharedFile::open(file.path(), SharedBoard::bytes(size));
        comm = std::make_unique<ProcessCommunicator>(*std::move(mine), rank, size);
        body(*comm);
        comm->finish();
        comm.reset();
        _exit(0);
      } catch (const Error& error) {
        const int code = static_cast<int>(error.code());
        _exit(code + (comm && comm->abort(code) ? 100 : 0));
      } catch (...) {
        _exit(99);
      }
    }
    pids.push_back(pid);
  }
  std::vector<int> statuses;
  for (const pid_t pid : pids) {
    int status = -1;
    waitpid(pid, &status, 0);
    statuses.push_back(status);
  }
  return statuses;
}

TEST_P(Ranks, OfProcesses) {
  for (const int status : run_processes(GetParam(), exercise)) EXPECT_EQ(status, 0);
}

INSTANTIATE_TEST_SUITE_P(Counts, Ranks, testing::Values(1, 2, 3, 4, 5, 8));

TEST(Threads, TheFirstErrorIsTheOneReported) {
  for (const int culprit : {0, 1, 3}) {
    std::string message;
    const ExitCode code = code_of(
        [&] {
          run_ranks(4, [&](Communicator& comm) {
            comm.barrier();
            if (comm.rank() == culprit) fail(ExitCode::data, "bad file");
            comm.barrier();
            return 0;
          });
        },
        &message);
    EXPECT_EQ(code, ExitCode::data);
    EXPECT_EQ(message, "bad file");
  }
}

TEST(Threads, PeersOfAFailedRankLeaveWithItsCode) {
  std::atomic<int> left{0};
  EXPECT_THROW(run_ranks(3,
                         [&](Communicator& comm) {
                           if (comm.rank() == 1) throw std::runtime_error("a bug");
                           std::string message;
                           EXPECT_EQ(code_of([&] { comm.barrier(); }, &message), ExitCode::bug);
                           EXPECT_EQ(message, "rank 1 failed");
                           EXPECT_TRUE(comm.aborted());
                           EXPECT_FALSE(comm.abort(7));
                           ++left;
                           return 0;
                         }),
               std::runtime_error);
  EXPECT_EQ(left, 2);
}

TEST(Threads, ARankThatReturnsEarlyIsMissed) {
  std::string message;
  EXPECT_EQ(code_of(
                [] {
                  run_ranks(3, [](Communicator& comm) {
                    if (comm.rank() != 2) comm.barrier();
                    return 0;
                  });
                },
                &message),
            ExitCode::peer);
  EXPECT_EQ(message, "rank 2 left while others waited for it");
}

TEST(Threads, ExitCodes) {
  EXPECT_EQ(run_ranks(3, [](Communicator& comm) { return comm.rank() == 1 ? 75 : 0; }), 75);
  EXPECT_EQ(run_ranks(1, [](Communicator&) { return 4; }), 4);
  EXPECT_ANY_THROW(run_ranks(0, [](Communicator&) { return 0; }));
}

TEST(Threads, ALongWaitEnds) {
  run_ranks(2, [](Communicator& comm) {
    if (comm.rank() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(250));  // spin, yield, sleep, probe
    comm.barrier();
    return 0;
  });
}

TEST(Threads, MisuseIsNamed) {
  EXPECT_EQ(code_of([] {
              run_ranks(2, [](Communicator& comm) {
                std::vector<float> elsewhere(8);
                comm.all_reduce(elsewhere);
                return 0;
              });
            }),
            ExitCode::bug);
  EXPECT_EQ(code_of([] {
              run_ranks(2, [](Communicator& comm) {
                auto* data = reinterpret_cast<float*>(comm.allocate(64));
                comm.all_reduce({data, static_cast<size_t>(8 + comm.rank())});
                return 0;
              });
            }),
            ExitCode::bug);
  const auto solo = make_solo();
  auto* data = reinterpret_cast<float*>(solo->allocate(64));
  const std::span<float> floats(data, 8);
  const std::span<std::byte> bytes = std::as_writable_bytes(floats);
  for (const Ownership& bad : {
           Ownership{},                                                            // nobody
           Ownership{{}, {}},                                                      // one rank too many
           Ownership{{{.whole = 4, .shard = 4, .elements = 8}}},                   // beyond the end
           Ownership{{{.whole = -4, .shard = -4, .elements = 1}}},                 // before the beginning
           Ownership{{{.elements = -1}}},                                          // less than nothing
           Ownership{{{.elements = 2}, {.whole = 4, .shard = 4, .elements = 1}}},  // twice
           Ownership{{{.whole = 4, .shard = 8, .elements = 1}}},                   // elsewhere, and in place
       }) {
    EXPECT_ANY_THROW(solo->all_gather(bytes, bytes, bad));
    EXPECT_ANY_THROW(solo->reduce_scatter(floats, data, bad, 1));
  }
  std::vector<float> shard(1);
  EXPECT_ANY_THROW(solo->all_gather(bytes, std::as_writable_bytes(std::span(shard)), {{{.elements = 2}}}));
  EXPECT_ANY_THROW(solo->reduce_scatter(floats, shard.data(), {{{.elements = 2, .element_bytes = 2}}}, 1));
  const auto reduction = solo->reduce_scatter(floats, data, {{{.elements = 8}}}, 2);
  reduction->push();
  reduction->push();
  EXPECT_ANY_THROW(reduction->finish());  // a third leaf of two
}

TEST(Processes, AFailedRankEndsAllWithItsCodeAndOneVoice) {
  const auto statuses = run_processes(3, [](Communicator& comm) {
    comm.barrier();
    if (comm.rank() == 1) fail(ExitCode::data, "bad file");
    comm.barrier();
  });
  EXPECT_EQ(WEXITSTATUS(statuses[0]), 3);
  EXPECT_EQ(WEXITSTATUS(statuses[1]), 103);
  EXPECT_EQ(WEXITSTATUS(statuses[2]), 3);
}

TEST(Processes, AKilledRankIsFoundBeforeItIsReaped) {
  const auto statuses = run_processes(3, [](Communicator& comm) {
    if (comm.rank() == 2) raise(SIGKILL);
    std::string message;
    const ExitCode code = code_of([&] { comm.barrier(); }, &message);
    // The first to find out names it; the other may learn from that one.
    if (code != ExitCode::peer || !message.starts_with("rank ")) _exit(98);
    if (message.find("was lost") != std::string::npos && !message.starts_with("rank 2 (pid ")) _exit(97);
    throw Error(code, message);
  });
  EXPECT_TRUE(WIFSIGNALED(statuses[2]));
  const int a = WEXITSTATUS(statuses[0]), b = WEXITSTATUS(statuses[1]);
  EXPECT_EQ(std::min(a, b), 7) << a << " " << b;
  EXPECT_EQ(std::max(a, b), 107) << a << " " << b;
}

TEST(SharedFile, NoRoomIsNoFile) {
  EXPECT_FALSE(SharedFile::create("/nonexistent", 4096));
  EXPECT_FALSE(SharedFile::create("/dev/shm", size_t{1} << 60));
  EXPECT_FALSE(SharedFile::open("/nonexistent/file", 4096));
  std::string message;
  EXPECT_EQ(code_of([] { fail_no_shared_memory(size_t{1} << 60); }, &message), ExitCode::memory);
  EXPECT_NE(message.find("/dev/shm has "), std::string::npos) << message;
  EXPECT_NE(message.find("TMPDIR"), std::string::npos) << message;
}

TEST(SharedFile, LeavesNoName) {
  std::string path;
  {
    auto file = SharedFile::create("/tmp", 8192);
    ASSERT_TRUE(file);
    path = file->path();
    EXPECT_TRUE(file->reserve(0, 8192));
    auto other = SharedFile::open(path, 8192);
    ASSERT_TRUE(other);
    EXPECT_FALSE(SharedFile::open(path, 4096));  // another size than agreed
    file->data()[5000] = std::byte{42};
    EXPECT_EQ(other->data()[5000], std::byte{42});
    EXPECT_EQ(access(path.c_str(), F_OK), 0);
    file->remove_name();
    EXPECT_NE(access(path.c_str(), F_OK), 0);
    EXPECT_EQ(other->data()[5000], std::byte{42});
  }
  auto file = SharedFile::create("/tmp", 64);
  ASSERT_TRUE(file);
  path = file->path();
  file.reset();
  EXPECT_NE(access(path.c_str(), F_OK), 0);
}

TEST(SharedFile, ThoseOfKilledProcessesAreRemoved) {
  const TemporaryFolder folder;
  const auto kept = SharedFile::create(folder.path(), 64);
  const pid_t child = fork();
  if (child == 0) {
    const auto left = SharedFile::create(folder.path(), 64);
    raise(SIGKILL);
  }
  waitpid(child, nullptr, 0);
  const std::set<std::filesystem::path> others = {folder.path() / "cifar-train-folder",
                                                  folder.path() / "another-aaaaaa"};
  std::filesystem::create_directory(folder.path() / "cifar-train-folder");
  std::ofstream(folder.path() / "another-aaaaaa") << "x";
  const auto next = SharedFile::create(folder.path(), 64);
  std::set<std::filesystem::path> names, expected = others;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) names.insert(entry.path());
  expected.insert({kept->path(), next->path()});
  EXPECT_EQ(names, expected);
}

}  // namespace
}  // namespace ct
