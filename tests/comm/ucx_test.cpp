// Ranks that meet at MASTER_ADDR: this very program, as rank_program (exercise.cpp).
#include "comm/ucx/ucx.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>

#include "comm/run_command.h"

namespace ct {
namespace {

int free_port() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof at;
  EXPECT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&at), length), 0);
  EXPECT_EQ(getsockname(fd, reinterpret_cast<sockaddr*>(&at), &length), 0);
  close(fd);
  return ntohs(at.sin_port);
}

/// The ranks' largest exit code; or rank 0's, with whose end the others are ended.
enum class Until { all, rank_0 };
Ended met(int ranks, const std::string& program, const std::string& environment = "", Until until = Until::all) {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  std::string script = "export MASTER_ADDR=127.0.0.1 MASTER_PORT=" + std::to_string(free_port()) +
                       " WORLD_SIZE=" + std::to_string(ranks) + " " + environment + "\npids=\nworst=0\n";
  for (int rank = 0; rank < ranks; ++rank)
    script += "RANK=" + std::to_string(rank) + " timeout 100 " + self + " --rank-program met-" + program +
              " & pids=\"$pids $!\"\n";
  if (until == Until::rank_0) script += "set -- $pids\nwait $1\ncode=$?\nshift\nkill $*\nexit $code\n";
  return run(script + "for p in $pids; do wait $p; c=$?; [ $c -le $worst ] || worst=$c; done\nexit $worst");
}

TEST(Met, SharedMemoryOnOneHost) {
  for (const int ranks : {2, 5}) {
    const Ended ended = met(ranks, "exercise");
    EXPECT_EQ(ended.code, 0) << ended.output;
    EXPECT_EQ(ended.count("all done: " + std::to_string(ranks) + " processes on host "), 1) << ended.output;
  }
}

class Ucx : public testing::Test {
 protected:
  void SetUp() override {
    if (ucx_library().starts_with("none")) GTEST_SKIP() << ucx_library();
  }
};

TEST_F(Ucx, MessagesAsBetweenHosts) {
  for (const int ranks : {2, 3, 4, 5}) {
    const Ended ended = met(ranks, "messages", ranks % 2 == 0 ? "UCX_TLS=tcp" : "");
    EXPECT_EQ(ended.code, 0) << ended.output;
    EXPECT_EQ(ended.count("all done: " + std::to_string(ranks) + " processes (UCX messages)"), 1) << ended.output;
  }
}

TEST_F(Ucx, AMessageThatNeverComesIsNotAwaitedOnceTheWatchdogHasSpoken) {
  const Ended ended = met(2, "messages-stuck", "", Until::rank_0);
  EXPECT_EQ(ended.code, 7) << ended.output;
  EXPECT_EQ(ended.count("first: 1"), 1) << ended.output;
  EXPECT_EQ(ended.count("aborted: 1, again: 0, stopped waiting for other ranks"), 1) << ended.output;
  EXPECT_EQ(ended.count("error: "), 0) << ended.output;
}

TEST(Met, WithoutUcxSeveralHostsAreRefusedByName) {
  if (!ucx_library().starts_with("none")) GTEST_SKIP() << "there is " << ucx_library();
  const Ended ended = met(2, "messages");
  EXPECT_EQ(ended.code, 2) << ended.output;
  EXPECT_EQ(ended.count("UCX"), 2) << ended.output;
}

}  // namespace
}  // namespace ct
