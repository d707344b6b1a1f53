#include "comm/host/core_placement.h"

#include <gtest/gtest.h>
#include <sched.h>

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
TEST(CorePlacement, NobodyMovesWhereNoCoreIsFree) {
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
  bool moved = false;
  for (int i = 0; i < 1000 && !moved; ++i) {  // the kernel may move it back at once
    const int here = sched_getcpu();
    if (next_move(std::vector{here, here}, allowed, core_of).rank < 0) GTEST_SKIP() << "one core";
    placement.look(std::vector{here, here});
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

}  // namespace
}  // namespace ct
