// Ranks that find each other over TCP, as threads of this process.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "comm/all_ranks.h"
#include "comm/rendezvous/hello.h"
#include "comm/rendezvous/tcp_bootstrap.h"

namespace ct {
namespace {

using namespace std::chrono_literals;

/// A socket that listens on a port of the loopback, and so holds it.
class Holder {
 public:
  explicit Holder(int port = 0) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const int on = 1;
    setsockopt(fd_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    at.sin_port = htons(static_cast<uint16_t>(port));
    socklen_t length = sizeof at;
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&at), length), 0);
    EXPECT_EQ(listen(fd_, 8), 0);
    EXPECT_EQ(getsockname(fd_, reinterpret_cast<sockaddr*>(&at), &length), 0);
    port_ = ntohs(at.sin_port);
  }
  ~Holder() { close(fd_); }
  int port() const { return port_; }

 private:
  int fd_, port_ = 0;
};

Endpoint somewhere() { return {.addresses = {"127.0.0.1"}, .port = Holder().port(), .job = "a job"}; }

/// What ranks say, each in a thread of its own.
class Ranks {
 public:
  ~Ranks() { join(); }
  void start(int rank, int size, const Endpoint& place, double timeout_s = 20,
             std::function<void(Bootstrap&)> body = {}) {
    threads_.emplace_back([=, this] {
      std::string end = "met";
      try {
        TcpBootstrap meeting(rank, size, place,
                             {.timeout_s = timeout_s,
                              .notice =
                                  [&](const std::string& text) {
                                    const std::lock_guard lock(mutex_);
                                    notices_ += text + "\n";
                                  },
                              .give_up = [&] { return give_up.load(); }});
        if (body) body(meeting);
      } catch (const RankZeroError& error) {
        end = "told " + std::to_string(static_cast<int>(error.code())) + ": " + error.what();
      } catch (const Error& error) {
        end = std::to_string(static_cast<int>(error.code())) + ": " + error.what();
      }
      const std::lock_guard lock(mutex_);
      ends_[rank] += (ends_[rank].empty() ? "" : "; ") + end;
    });
  }
  void join() {
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }
  std::string end(int rank) {
    join();
    return ends_[rank];
  }
  std::string notices() {
    const std::lock_guard lock(mutex_);
    return notices_;
  }
  /// Waits until rank 0 has said so.
  void await_notice(const std::string& part) {
    for (int i = 0; i < 1000 && notices().find(part) == std::string::npos; ++i) std::this_thread::sleep_for(10ms);
    EXPECT_NE(notices().find(part), std::string::npos) << notices();
  }
  std::atomic<bool> give_up{false};

 private:
  std::mutex mutex_;
  std::map<int, std::string> ends_;
  std::string notices_;
  std::vector<std::thread> threads_;
};

/// Calls, says something and leaves, or stays until the end of the test.
class Stranger {
 public:
  Stranger(const Endpoint& place, const std::string& says) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    at.sin_port = htons(static_cast<uint16_t>(place.port));
    for (int i = 0; i < 500 && connect(fd_, reinterpret_cast<sockaddr*>(&at), sizeof at) != 0; ++i)
      std::this_thread::sleep_for(10ms);
    if (!says.empty()) {
      EXPECT_GT(send(fd_, says.data(), says.size(), MSG_NOSIGNAL), 0);
    }
  }
  void leave() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }
  ~Stranger() { leave(); }

 private:
  int fd_;
};

TEST(Rendezvous, RanksSayWhatTheyWant) {
  const Endpoint place = somewhere();
  Ranks ranks;
  for (const int rank : {3, 1, 0, 2})
    ranks.start(rank, 4, place, 20, [rank](Bootstrap& meeting) {
      for (int round = 0; round < 20; ++round) {
        const std::string mine(static_cast<size_t>(rank * 50000 * (round % 2)), static_cast<char>('a' + rank));
        const std::vector<std::string> all = meeting.gather(mine);
        ASSERT_EQ(all.size(), 4u);
        for (size_t r = 0; r < 4; ++r)
          EXPECT_EQ(all[r], std::string(r * 50000 * static_cast<size_t>(round % 2), static_cast<char>('a' + r)));
      }
      EXPECT_EQ(from_rank_0(meeting, rank == 0 ? "mine" : "not mine"), "mine");
    });
  for (int rank = 0; rank < 4; ++rank) EXPECT_EQ(ranks.end(rank), "met") << rank;
}

TEST(Rendezvous, OthersAreRejectedAndNamed) {
  const Endpoint place = somewhere();
  Endpoint other = place;
  other.job = "another job";
  Ranks ranks, others;
  ranks.start(0, 2, place);
  std::deque<Stranger> crowd;
  for (int i = 0; i < 100; ++i) crowd.emplace_back(place, "");
  Stranger silent(place, ""), leaves(place, "GET / HTTP/1.1\r\n\r\n"), talks(place, std::string(1 << 16, 'x'));
  leaves.leave();
  ranks.await_notice("rejected a connection from 127.0.0.1:");
  others.start(1, 2, other);
  EXPECT_NE(others.end(1).find("2: rank 1 (host "), std::string::npos) << others.end(1);
  EXPECT_NE(others.end(1).find("is rank 0 of another job: give this one another MASTER_PORT"), std::string::npos)
      << others.end(1);
  ranks.await_notice("not a rank of this job, but rank 1 (pid ");
  ranks.start(1, 2, place);
  EXPECT_EQ(ranks.end(0), "met");
  EXPECT_EQ(ranks.end(1), "met");
}

TEST(Rendezvous, ATextWithoutAnEndEndsWithItsField) {
  const Endpoint place = somewhere();
  Ranks ranks;
  ranks.start(0, 2, place);
  Hello hello;  // of another job
  hello.host.fill('h');
  hello.caller.fill('c');
  const Stranger stranger(place, std::string(reinterpret_cast<const char*>(&hello), sizeof hello));
  ranks.await_notice("host " + std::string(hello.host.size(), 'h') + ") of another");
  ranks.start(1, 2, place);
  EXPECT_EQ(ranks.end(0), "met");
}

TEST(Rendezvous, ARankThatIsThereTwiceEndsIt) {
  const Endpoint place = somewhere();
  Ranks ranks;
  ranks.start(0, 3, place);
  ranks.start(1, 3, place);
  ranks.start(1, 3, place);
  const std::string first = ranks.end(0), both = ranks.end(1);
  EXPECT_EQ(first.find("2: two ranks have the same number: rank 1 (pid "), 0u) << first;
  EXPECT_NE(both.find("told 2: two ranks have the same number"), std::string::npos) << both;
  EXPECT_NE(both.find(first), std::string::npos) << both;  // the second of them
}

TEST(Rendezvous, AnotherWorldSizeEndsIt) {
  const Endpoint place = somewhere();
  Ranks ranks;
  ranks.start(0, 2, place);
  ranks.start(1, 3, place);
  EXPECT_NE(ranks.end(0).find("has WORLD_SIZE=3, and rank 0 2"), std::string::npos) << ranks.end(0);
  EXPECT_EQ(ranks.end(0), ranks.end(1));
}

TEST(Rendezvous, ANumberThatNoRankHasEndsIt) {
  for (const int rank : {2, 1 << 24, -1, -(1 << 24)}) {
    const Endpoint place = somewhere();
    Ranks ranks;
    ranks.start(0, 2, place, 2);
    ranks.start(rank, 2, place, 2);
    EXPECT_EQ(ranks.end(0).find(str("2: rank ", rank, " (pid ")), 0u) << ranks.end(0);
    EXPECT_NE(ranks.end(0).find("connected to rank 0 of 2 ranks"), std::string::npos) << ranks.end(0);
  }
}

TEST(Rendezvous, ARankThatDoesNotComeIsNamed) {
  const Endpoint place = somewhere();
  Ranks ranks;
  ranks.start(0, 4, place, 1);
  ranks.start(2, 4, place, 1);
  EXPECT_EQ(ranks.end(0).find("7: ranks 1, 3 did not connect to host "), 0u) << ranks.end(0);
  EXPECT_EQ(ranks.end(2), "told " + ranks.end(0));
}

TEST(Rendezvous, RankZeroThatDoesNotComeIsNamed) {
  const Endpoint place = somewhere();
  Ranks ranks;
  ranks.start(1, 2, place, 1);
  EXPECT_EQ(ranks.end(1).find("7: rank 1 (host "), 0u) << ranks.end(1);
  EXPECT_NE(ranks.end(1).find("did not reach rank 0 at 127.0.0.1:"), std::string::npos) << ranks.end(1);
  EXPECT_NE(ranks.end(1).find("Connection refused"), std::string::npos) << ranks.end(1);
}

TEST(Rendezvous, AnotherProgramOnThePort) {
  const Holder holder;  // takes calls and never answers
  const Endpoint place{.addresses = {"127.0.0.1"}, .port = holder.port(), .job = "a job"};
  Ranks ranks;
  ranks.start(0, 2, place, 1);
  EXPECT_EQ(ranks.end(0).find("2: TCP port 127.0.0.1:"), 0u) << ranks.end(0);
  EXPECT_NE(ranks.end(0).find("is in use on host "), std::string::npos) << ranks.end(0);
  ranks.start(1, 2, place, 1);
  EXPECT_NE(ranks.end(1).find("is another program's, or rank 0 is frozen"), std::string::npos) << ranks.end(1);
}

TEST(Rendezvous, TheFirstFreeOfSeveralPorts) {
  const Holder agent;
  if (agent.port() > 65000) GTEST_SKIP() << "too few ports above";
  Endpoint place{.addresses = {"127.0.0.1"}, .port = agent.port(), .ports = 16, .job = "a job"}, other = place;
  other.job = "another job";
  Ranks others, ranks;
  others.start(0, 2, other, 30);  // takes the first free one
  std::this_thread::sleep_for(200ms);
  ranks.start(1, 2, place, 30);
  ranks.start(0, 2, place, 30);
  EXPECT_EQ(ranks.end(0), "met");
  EXPECT_EQ(ranks.end(1), "met");
  others.start(1, 2, other, 30);
  EXPECT_EQ(others.end(0), "met");
}

TEST(Rendezvous, AddressesThatCannotBe) {
  Ranks ranks;
  Endpoint place = somewhere();
  place.addresses = {"192.0.2.1"};  // of documentation: nobody's
  ranks.start(0, 2, place, 1);
  EXPECT_EQ(ranks.end(0).find("2: MASTER_ADDR='192.0.2.1' is not an address of host "), 0u) << ranks.end(0);
  place.addresses = {"no such host"};
  ranks.start(1, 2, place, 1);
  EXPECT_EQ(ranks.end(1).find("2: MASTER_ADDR='no such host' cannot be resolved on this host"), 0u) << ranks.end(1);
}

TEST(Rendezvous, ARankThatLeftMayComeAgain) {
  const Endpoint place = somewhere();
  Ranks ranks, first;
  ranks.start(0, 3, place);
  first.give_up = false;
  first.start(1, 3, place);
  std::this_thread::sleep_for(300ms);
  first.give_up = true;  // it has met, waits for rank 2, and is stopped
  EXPECT_EQ(first.end(1).find("75: stopped on request"), 0u) << first.end(1);
  ranks.await_notice("disconnected before all ranks had connected");
  ranks.start(1, 3, place);
  ranks.start(2, 3, place);
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(ranks.end(rank), "met");
}

TEST(Rendezvous, ARequestToStopEndsTheWait) {
  const Endpoint place = somewhere();
  Ranks ranks;
  ranks.start(0, 3, place);
  ranks.start(1, 3, place);
  std::this_thread::sleep_for(300ms);
  ranks.give_up = true;
  EXPECT_EQ(ranks.end(0).find("75: stopped on request"), 0u) << ranks.end(0);
  EXPECT_NE(ranks.end(1).find("75: stopped on request"), std::string::npos) << ranks.end(1);
}

TEST(Rendezvous, ARankLostWhileTheyTalk) {
  const Endpoint place = somewhere();
  Ranks ranks;
  for (int rank = 0; rank < 3; ++rank)
    ranks.start(rank, 3, place, 20, [rank](Bootstrap& meeting) {
      if (rank == 1) return;
      meeting.gather("a");
      meeting.gather("b");
    });
  EXPECT_EQ(ranks.end(0).find("7: rank 1 (pid "), 0u) << ranks.end(0);
  EXPECT_EQ(ranks.end(2).find("7: rank 0 at 127.0.0.1:"), 0u) << ranks.end(2);
}

TEST(Rendezvous, AnotherProgramAtTheAddressIsNotRankZero) {
  const Listener other(2);
  Endpoint forged = other.endpoint();
  forged.job = random_word();
  std::thread host([&] { EXPECT_THROW(other.accept_ranks({.timeout_s = 0.5}), Error); });
  EXPECT_THROW(connect_to_rank_0(forged, 1, 2, {.timeout_s = 0.3}), Error);
  host.join();
}

TEST(Connection, UnreadMessagesAreDroppedAsAWhole) {
  std::array<int, 2> ends{};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()), 0);
  Connection a(ends[0]), b(ends[1]);
  std::vector<std::byte> message(10007), heard(message.size());
  for (int i = 0; i < 1000; ++i) {
    std::fill(message.begin(), message.end(), static_cast<std::byte>(i));
    a.send_latest(message);
  }
  int whole = 0;
  for (bool more = true; more;) {
    a.flush();
    b.receive();
    more = false;
    while (b.next(heard)) {
      for (const std::byte byte : heard) ASSERT_EQ(byte, heard[0]) << "half a message";
      ++whole;
      more = true;
    }
    more = more || a.sending();
  }
  EXPECT_GT(whole, 1);
  EXPECT_LT(whole, 1000);
  a.close();
  b.receive();
  EXPECT_FALSE(b.open());
  b.send(message);  // no SIGPIPE
}

// ---- where they meet

Endpoint place_of(const std::map<std::string, std::string>& variables) {
  return endpoint_of([&](const char* name) {
    const auto it = variables.find(name);
    return it == variables.end() ? nullptr : it->second.c_str();
  });
}

TEST(Endpoints, FromTheEnvironment) {
  const Endpoint own = place_of({{"MASTER_ADDR", "a"}, {"MASTER_PORT", "29500"}, {"CIFAR_TRAIN_JOB", "x"}});
  EXPECT_EQ(text_of(own), "a:29500");
  EXPECT_EQ(own.job, "x");
  const Endpoint torchrun = place_of({{"MASTER_ADDR", "a"},
                                      {"MASTER_PORT", "29500"},
                                      {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                                      {"TORCHELASTIC_RUN_ID", "run"},
                                      {"CIFAR_TRAIN_JOB", "x"}});
  EXPECT_EQ(text_of(torchrun), "a:29501-29516");
  EXPECT_EQ(torchrun.job, "run");
  EXPECT_EQ(text_of(place_of({{"MASTER_ADDR", "a"}, {"MASTER_PORT", "1"}, {"TORCHELASTIC_USE_AGENT_STORE", "False"}})),
            "a:1");
}

TEST(Endpoints, WhatIsMissingOrWrongIsNamed) {
  const auto said = [](const std::map<std::string, std::string>& variables) -> std::string {
    try {
      place_of(variables);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::usage);
      return error.what();
    }
    return "nothing";
  };
  EXPECT_EQ(said({{"MASTER_PORT", "1"}}).find("MASTER_ADDR is not set"), 0u);
  EXPECT_EQ(said({{"MASTER_ADDR", "a"}}).find("MASTER_PORT is not set"), 0u);
  for (const char* port : {"x", "0", "65536", "-1", "1 ", "99999999999"})
    EXPECT_EQ(said({{"MASTER_ADDR", "a"}, {"MASTER_PORT", port}}).find("MASTER_PORT='"), 0u) << port;
  EXPECT_NE(said({{"MASTER_ADDR", "a"}, {"MASTER_PORT", "65530"}, {"TORCHELASTIC_USE_AGENT_STORE", "True"}})
                .find("torchrun uses it"),
            std::string::npos);
}

}  // namespace
}  // namespace ct
