#include "comm/host/core_placement.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>
#include <thread>
#include <vector>

namespace ct {
namespace {

std::bitset<kMaxCpus> cpus(const std::vector<size_t>& list) {
  std::bitset<kMaxCpus> set;
  for (const size_t cpu : list) set.set(cpu);
  return set;
}

/// Two hardware threads a core: 0 and 1, 2 and 3, ...
int pair_of(int cpu) { return cpu / 2 * 2; }
int itself(int cpu) { return cpu; }

void expect_move(const Move& move, int rank, const std::vector<size_t>& to) {
  EXPECT_EQ(move.rank, rank);
  EXPECT_EQ(move.cpus, cpus(to));
}

TEST(CorePlacement, RanksThatAreApartStay) {
  EXPECT_EQ(next_move(std::vector{0, 1}, cpus({0, 1}), itself).rank, -1);
  EXPECT_EQ(next_move(std::vector{3}, cpus({0, 1, 2, 3}), itself).rank, -1);
}
TEST(CorePlacement, TheSecondOfTwoOnACoreMoves) {
  expect_move(next_move(std::vector{1, 1}, cpus({0, 1}), itself), 1, {0});
  expect_move(next_move(std::vector{2, 0, 2, 0}, cpus({0, 1, 2, 3}), itself), 2, {1, 3});
}
TEST(CorePlacement, NoRankMovesIfNoCoreIsFree) {
  EXPECT_EQ(next_move(std::vector{0, 1, 1}, cpus({0, 1}), itself).rank, -1);
  EXPECT_EQ(next_move(std::vector{0, 0}, cpus({0}), itself).rank, -1);  // bound
}
TEST(CorePlacement, MoreRanksThanCoresUseAllCores) {
  expect_move(next_move(std::vector{0, 0, 0}, cpus({0, 1}), itself), 1, {1});
}
TEST(CorePlacement, HardwareThreadsOfOneCoreAreShared) {
  expect_move(next_move(std::vector{0, 1}, cpus({0, 1, 2, 3}), pair_of), 1, {2, 3});
  // All cores have a rank: then hardware threads are kept apart.
  EXPECT_EQ(next_move(std::vector{0, 2, 1}, cpus({0, 1, 2, 3}), pair_of).rank, -1);
  expect_move(next_move(std::vector{0, 2, 2}, cpus({0, 1, 2, 3}), pair_of), 2, {1, 3});
}

TEST(CorePlacement, MovesTheThreadAndLeavesItFree) {
  const std::bitset<kMaxCpus> allowed = allowed_cpus();
  CorePlacement placement(/*rank=*/1, /*fit=*/true);
  std::atomic<bool> moving{false};
  bool moved = false;
  for (int i = 0; i < 1000 && !moved; ++i) {  // the kernel may move it back at once
    const int here = sched_getcpu();
    if (next_move(std::vector{here, here}, allowed, core_of).rank < 0) GTEST_SKIP() << "one core";
    placement.look(std::vector{here, here}, moving);
    moved = sched_getcpu() != here;
    ASSERT_EQ(allowed_cpus(), allowed);
  }
  EXPECT_TRUE(moved);
}
TEST(CorePlacement, LooksAgainAfterAWhile) {
  CorePlacement placement(/*rank=*/1, /*fit=*/true);
  EXPECT_TRUE(placement.due());
  std::this_thread::sleep_for(std::chrono::milliseconds(3));
  EXPECT_TRUE(placement.due());
}

using namespace std::chrono_literals;

TEST(CorePlacement, WaitsLongerAfterLongerWork) {
  EXPECT_EQ(CorePlacement::patience(100us), 500us);
  EXPECT_EQ(CorePlacement::patience(80ms), 10ms);
}
TEST(CorePlacement, OneLongWaitIsNothingToActOn) {
  CorePlacement placement(/*rank=*/0, /*fit=*/true);
  EXPECT_FALSE(placement.held_up(1ms));
  EXPECT_TRUE(placement.held_up(1ms));
  std::this_thread::sleep_for(40ms);
  EXPECT_FALSE(placement.held_up(1ms));
  std::this_thread::sleep_for(40ms);
  EXPECT_TRUE(placement.held_up(1s));  // a step takes longer than that
}

/// A thread that computes until it is told to end, as a rank that others wait for.
struct Worker {
  std::atomic<pid_t> id{0};
  std::atomic<bool> ends{false}, moving{false};
  std::thread thread{[this] {
    id = gettid();
    while (!ends) {
    }
  }};
  CorePlacement::Peer as_rank(int rank) { return {rank, id, moving}; }
  Worker() {
    while (id == 0) std::this_thread::yield();
  }
  ~Worker() {
    ends = true;
    thread.join();
  }
};

TEST(CorePlacement, ChangesPlacesAndLeavesTheOtherFree) {
  const std::bitset<kMaxCpus> allowed = allowed_cpus();
  std::vector<int> all;
  for (int cpu = 0; cpu < kMaxCpus; ++cpu)
    if (allowed[static_cast<size_t>(cpu)]) all.push_back(cpu);
  if (all.size() < 2) GTEST_SKIP() << "one CPU";
  Worker worker;
  const auto here = static_cast<size_t>(std::ranges::find(all, sched_getcpu()) - all.begin());
  const size_t there = here == 0 ? 1 : 0;
  const CorePlacement placement(static_cast<int>(here), /*fit=*/true);
  std::atomic<bool> moving{false};
  {
    std::optional<KeptOn> kept;
    if (!placement.change_places(all, worker.as_rank(static_cast<int>(there)), moving, kept))
      GTEST_SKIP() << "two sockets";
    EXPECT_TRUE(moving) << "another rank may move it now";
    EXPECT_FALSE(worker.moving);
    EXPECT_EQ(sched_getcpu(), all[there]);
    EXPECT_EQ(allowed_cpus(), cpus({static_cast<size_t>(all[there])}));
    EXPECT_EQ(cpus_of_thread(worker.id), allowed);
  }
  EXPECT_EQ(allowed_cpus(), allowed);
  EXPECT_FALSE(moving);
}
TEST(CorePlacement, WhoIsBeingMovedIsLeftAlone) {
  const std::bitset<kMaxCpus> allowed = allowed_cpus();
  if (allowed.count() < 2) GTEST_SKIP() << "one CPU";
  std::atomic<bool> moving{true};
  EXPECT_TRUE(KeptOn(moving, cpus({static_cast<size_t>(sched_getcpu())})).refused());
  EXPECT_EQ(allowed_cpus(), allowed);
  EXPECT_TRUE(moving) << "it is the other's";
  Worker worker;
  worker.moving = true;
  std::vector<int> all;
  for (int cpu = 0; cpu < kMaxCpus; ++cpu)
    if (allowed[static_cast<size_t>(cpu)]) all.push_back(cpu);
  const bool first = sched_getcpu() == all[0];
  std::optional<KeptOn> kept;
  std::atomic<bool> mine{false};
  EXPECT_FALSE(
      CorePlacement(first ? 0 : 1, /*fit=*/true).change_places(all, worker.as_rank(first ? 1 : 0), mine, kept));
  EXPECT_EQ(cpus_of_thread(worker.id), allowed);
}
TEST(CorePlacement, NoRankChangesPlacesIfACpuIsFreeOrRanksAreBound) {
  const int cpu = sched_getcpu();
  std::optional<KeptOn> kept;
  Worker worker;
  const CorePlacement placement(/*rank=*/0, /*fit=*/true);
  std::atomic<bool> moving{false}, bound_by_me{false};
  EXPECT_FALSE(placement.change_places(std::vector{cpu, cpu}, worker.as_rank(1), moving, kept));
  const KeptOn bound(bound_by_me, cpus({static_cast<size_t>(cpu)}));
  EXPECT_FALSE(placement.change_places(std::vector{cpu, cpu == 0 ? 1 : 0}, worker.as_rank(1), moving, kept));
  EXPECT_FALSE(kept);
}
TEST(CorePlacement, RanksBeyondTheCoresNeverChangePlaces) {
  std::optional<KeptOn> kept;
  Worker worker;
  std::atomic<bool> moving{false};
  const CorePlacement placement(/*rank=*/0, /*fit=*/false);
  EXPECT_FALSE(placement.change_places(std::vector{0, 1}, worker.as_rank(1), moving, kept));
}

}  // namespace
}  // namespace ct
