#include "checkpoint/run_lock.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <optional>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/faulty_file_system.h"
#include "base/host.h"
#include "base/temporary_folder.h"
#include "checkpoint/samples.h"

namespace ct {
namespace {

TEST(RunLock, ASecondRunGetsPidAndHost) {
  TemporaryFolder folder;
  FileSystem files;
  const Path out = folder / "runs" / "cnn";
  {
    RunLock lock(files, out, {.say = [](const std::string& line) { ADD_FAILURE() << line; }});
    const std::string message = error_of(ExitCode::usage, [&] { RunLock second(files, out); });
    EXPECT_NE(message.find("pid " + std::to_string(getpid())), std::string::npos) << message;
    char host[256] = {};
    gethostname(host, sizeof host - 1);
    EXPECT_NE(message.find(host), std::string::npos) << message;
  }
  RunLock again(files, out);
}

TEST(RunLock, ReleasedByDeath) {
  TemporaryFolder folder;
  FileSystem files;
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    RunLock lock(files, folder.path());
    if (write(ready[1], "x", 1) != 1) _exit(1);
    for (;;) pause();
  }
  char byte;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  const std::string message = error_of(ExitCode::usage, [&] { RunLock second(files, folder.path()); });
  EXPECT_NE(message.find("pid " + std::to_string(child)), std::string::npos) << message;
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_NO_THROW(RunLock(files, folder.path()));
  close(ready[0]);
  close(ready[1]);
}

/// File systems whose locks do not work, each in its own way.
class WithoutLocks : public testing::TestWithParam<Fault> {
 protected:
  static constexpr HolderFile::Seconds kHeartbeat{0.1};

  RunLock take() {
    return {files_, out_, {.heartbeat = kHeartbeat, .say = [this](const std::string& line) { said_.push_back(line); }}};
  }
  std::string refusal() {
    return error_of(ExitCode::usage, [&] { take(); });
  }
  void leave(const std::string& text) { spill(holder_, text); }

  TemporaryFolder folder_, backups_;
  FaultyFileSystem files_{GetParam(), 0, backups_.path()};
  const Path out_ = folder_ / "runs" / "cnn", holder_ = out_ / kHolderName;
  std::vector<std::string> said_;
};

TEST_P(WithoutLocks, AFileKeepsOthersOut) {
  {
    RunLock lock = take();
    lock.keep();
    ASSERT_EQ(said_.size(), 1u);
    EXPECT_NE(said_[0].find(".lock-holder keeps other runs out"), std::string::npos) << said_[0];
    EXPECT_TRUE(lock.in_place());
    const std::string message = refusal();
    EXPECT_NE(message.find(lock_holder()), std::string::npos) << message;
    EXPECT_NE(message.find("remove '" + holder_.native()), std::string::npos) << message;
    const std::string first = read_file(holder_);
    std::this_thread::sleep_for(kHeartbeat);
    EXPECT_NE(read_file(holder_), first) << "no heartbeat";
    std::filesystem::remove(holder_);
    EXPECT_FALSE(lock.in_place());
  }
  EXPECT_EQ(list_folder(out_), std::vector<std::string>{".lock"});
}

TEST_P(WithoutLocks, ARefusedRunLeavesNoFolder) {
  take();
  EXPECT_EQ(list_folder(folder_.path()), std::vector<std::string>{});
}

TEST_P(WithoutLocks, AFileThatNoRunWroteStays) {
  make_folders(files_, out_);
  leave("important\n");
  EXPECT_NE(refusal().find(".lock-holder' is no run's: remove it"), std::string::npos);
  EXPECT_EQ(read_file(holder_), "important\n");
}

TEST_P(WithoutLocks, ThatOfADeadProcessIsTakenOverAtOnce) {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  siginfo_t info;
  waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT);
  for (const bool reaped : {false, true}) {
    if (reaped) waitpid(child, nullptr, 0);
    make_folders(files_, out_);
    leave(str("pid ", child, " on host ", host_name(), ", pids of ", pid_space(), ", heartbeat 7\n"));
    said_.clear();
    const auto begin = std::chrono::steady_clock::now();
    take();
    EXPECT_LT(std::chrono::steady_clock::now() - begin, kHeartbeat);
    EXPECT_EQ(said_.size(), 1u);
  }
}

TEST_P(WithoutLocks, ThatOfAnotherHostIsTakenOverWithoutASignOfLife) {
  make_folders(files_, out_);
  const std::string other_container = str("pid 1 on host ", host_name(), ", pids of another/pid:[1], heartbeat 7\n");
  // Empty: a crash in its first moment.
  for (const std::string& text :
       {std::string("pid 1 on host elsewhere, heartbeat 7\n"), other_container, std::string()}) {
    leave(text);
    const auto begin = std::chrono::steady_clock::now();
    RunLock lock = take();
    lock.keep();
    EXPECT_GE(std::chrono::steady_clock::now() - begin, 2 * kHeartbeat);
    EXPECT_NE(said_.back().find("waiting up to 0.2 s"), std::string::npos) << said_.back();
  }
}

TEST_P(WithoutLocks, TheHeartbeatOfTheOwnerCounts) {
  make_folders(files_, out_);
  {
    RunLock lock = take();
    EXPECT_NE(read_file(holder_).find(" every 0.1 s\n"), std::string::npos) << read_file(holder_);
  }
  make_folders(files_, out_);
  leave("pid 1 on host elsewhere, heartbeat 7 every 0.3 s\n");
  const auto begin = std::chrono::steady_clock::now();
  RunLock lock = take();
  EXPECT_GE(std::chrono::steady_clock::now() - begin, HolderFile::Seconds(0.6));
  EXPECT_NE(said_.back().find("waiting up to 0.6 s"), std::string::npos) << said_.back();
}

TEST_P(WithoutLocks, ThatOfALivingProcessOfAnotherHostIsRefused) {
  make_folders(files_, out_);
  leave("pid 1 on host elsewhere, heartbeat 7\n");
  std::thread other([&] {
    std::this_thread::sleep_for(kHeartbeat);
    leave("pid 1 on host elsewhere, heartbeat 8\n");
  });
  const std::string message = refusal();
  other.join();
  EXPECT_NE(message.find("'pid 1 on host elsewhere'"), std::string::npos) << message;
  EXPECT_EQ(read_file(holder_), "pid 1 on host elsewhere, heartbeat 8\n");
}

TEST_P(WithoutLocks, AnEntryThatIsNoSmallFileStays) {
  make_folders(files_, holder_);
  EXPECT_NE(refusal().find(".lock-holder' is no run's: remove it"), std::string::npos);
  std::filesystem::remove(holder_);
  ASSERT_EQ(mkfifo(holder_.c_str(), 0666), 0);
  EXPECT_NE(refusal().find(".lock-holder' is no run's: remove it"), std::string::npos);
  std::filesystem::remove(holder_);
  leave(std::string(5000, 'x'));
  EXPECT_NE(refusal().find(".lock-holder' is no run's: remove it"), std::string::npos);
}

TEST_P(WithoutLocks, AStopEndsTheWait) {
  make_folders(files_, out_);
  leave("pid 1 on host elsewhere, heartbeat 7\n");
  const HolderFile::Seconds never{3600};
  const std::string message =
      error_of(ExitCode::stopped, [&] { RunLock(files_, out_, {.heartbeat = never, .give_up = [] { return true; }}); });
  EXPECT_NE(message.find("'pid 1 on host elsewhere'"), std::string::npos) << message;
  EXPECT_EQ(read_file(holder_), "pid 1 on host elsewhere, heartbeat 7\n");
}

TEST_P(WithoutLocks, OneThatGetsALockRespectsTheHolderOfOneThatGotNone) {
  FileSystem whole;
  {
    RunLock lock = take();
    const std::string message = error_of(ExitCode::usage, [&] { RunLock(whole, out_); });
    EXPECT_NE(message.find(lock_holder()), std::string::npos) << message;
  }
  make_folders(files_, out_);
  leave("pid 1 on host elsewhere, heartbeat 7\n");  // which gives no sign of life
  RunLock lock(whole, out_, {.heartbeat = kHeartbeat});
  EXPECT_NE(read_file(holder_).find(lock_holder()), std::string::npos);
}

TEST_P(WithoutLocks, OneThatGetsNoLockRespectsTheLockOfALivingProcess) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    FileSystem whole;
    RunLock lock(whole, out_);
    if (write(ready[1], "x", 1) != 1) _exit(1);
    for (;;) pause();
  }
  char byte;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  const std::string message = refusal();
  EXPECT_NE(message.find(str("'pid ", child, " on host")), std::string::npos) << message;
  EXPECT_NE(message.find("remove '" + (out_ / kLockName).native()), std::string::npos) << message;
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  take();
  close(ready[0]);
  close(ready[1]);
}

TEST_P(WithoutLocks, WhoTookItOverIsNamed) {
  RunLock lock = take();
  EXPECT_EQ(lock.taken_by(), "");
  leave("pid 1 on host elsewhere, heartbeat 7\n");
  EXPECT_FALSE(lock.in_place());
  EXPECT_EQ(lock.taken_by(), "pid 1 on host elsewhere");
  std::this_thread::sleep_for(kHeartbeat);
  EXPECT_EQ(read_file(holder_), "pid 1 on host elsewhere, heartbeat 7\n") << "it is the other's";
}

INSTANTIATE_TEST_SUITE_P(All, WithoutLocks,
                         testing::Values(Fault::no_lock, Fault::no_lock_service, Fault::no_lock_call));

/// Before it renames a file for the first time, a quicker process has put its own in its place.
class QuickerProcess : public QuickFileSystem {
 public:
  QuickerProcess(const Path& path, std::string text, bool links) : path_(path), text_(std::move(text)), links_(links) {}
  int rename(const Path& from, const Path& to) override {
    if (from == path_ && !std::exchange(was_quicker_, true)) spill(path_, text_);
    return QuickFileSystem::rename(from, to);
  }
  int link(const Path& from, const Path& to) override {
    return links_ ? QuickFileSystem::link(from, to) : (errno = EPERM, -1);
  }
  bool was_quicker() const { return was_quicker_; }

 private:
  const Path path_;
  const std::string text_;
  const bool links_;
  bool was_quicker_ = false;
};

TEST(HolderFileTest, OfARunThatWasQuickerStays) {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  waitpid(child, nullptr, 0);
  const auto text = [](pid_t pid) {
    return str("pid ", pid, " on host ", host_name(), ", pids of ", pid_space(), ", heartbeat 7\n");
  };
  for (const bool links : {true, false}) {
    TemporaryFolder folder;
    const Path path = folder / "holder";
    spill(path, text(child));
    QuickerProcess files(path, text(getppid()), links);
    const std::string message = error_of(ExitCode::usage, [&] { HolderFile(files, path, {}); });
    EXPECT_NE(message.find(str("pid ", getppid())), std::string::npos) << message;
    EXPECT_TRUE(files.was_quicker());
    EXPECT_EQ(read_file(path), text(getppid()));
    EXPECT_EQ(list_folder(folder.path()), std::vector<std::string>{"holder"});
  }
}

TEST(RunLock, ALockThatFailsIsNamed) {
  TemporaryFolder folder, backups;
  for (int at = 0; at < 40; ++at) {
    FaultyFileSystem failing(Fault::estale, at, backups.path());
    try {
      RunLock lock(failing, folder / "run");
      lock.keep();
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::io) << e.what();
      EXPECT_NE(std::string(e.what()).find(folder.path().native()), std::string::npos) << e.what();
    }
  }
}

TEST(RunLock, AFullDiskIsLockedWithoutAName) {
  for (const Fault fault : {Fault::enospc, Fault::edquot, Fault::full}) {
    TemporaryFolder folder, backups;
    spill(folder / kLockName, "");
    int named = 0;
    for (int at = 0; at < 4; ++at) {
      FaultyFileSystem failing(fault, at, backups.path());
      std::optional<RunLock> lock;
      try {
        lock.emplace(failing, folder.path());
      } catch (const Error& e) {  // not even opened
        EXPECT_EQ(e.code(), ExitCode::io) << e.what();
        continue;
      }
      const std::string text = read_file(folder / kLockName);
      EXPECT_TRUE(text.empty() || text.ends_with("\n")) << text;
      named += text.empty() ? 0 : 1;
      FileSystem files;
      EXPECT_NE(error_of(ExitCode::usage, [&] { RunLock second(files, folder.path()); }).find("in use"),
                std::string::npos);
    }
    EXPECT_LT(named, 4) << "no write failed";
    EXPECT_GT(named, 0);
  }
}

TEST(RunLock, AFolderWithoutALockIsRemovedAgain) {
  TemporaryFolder folder, backups;
  const auto left = [&](int at) {
    FaultyFileSystem failing(Fault::estale, at, backups.path());
    error_of(ExitCode::io, [&] { RunLock lock(failing, folder / "runs" / "cnn"); });
    return list_folder(folder.path());
  };
  for (int at = 0; at < 3; ++at) EXPECT_EQ(left(at), std::vector<std::string>{}) << "two folders, then .lock: " << at;
}

}  // namespace
}  // namespace ct
