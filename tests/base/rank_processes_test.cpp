#include "base/rank_processes.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace ct {
namespace {

using Cpus = std::bitset<kMaxCpus>;

TEST(RankProcesses, MoreRanksThanCoresThatTheyAreBoundTo) {
  const RankProcess on_first{11, Cpus(0b0001)}, also{12, Cpus(0b0001)}, on_second{13, Cpus(0b0010)},
      on_both{14, Cpus(0b0011), 2}, free{15, Cpus(0b1111), 9};
  const Cpus all_cpus(0b1111);
  const auto said = [&](const RankProcess& one, const std::vector<RankProcess>& all) {
    return crowded_cores(one, all, all_cpus);
  };
  EXPECT_EQ(said(on_first, {on_first, on_second, free}), "");
  EXPECT_NE(said(on_first, {on_first, on_second, also}).find("(pid 11, 12) are bound to 1 core (0)"),
            std::string::npos);
  EXPECT_EQ(said(on_both, {on_both, free}), "");
  EXPECT_EQ(said(on_both, {on_second, on_both}).find("3 ranks of host "), 0u);
  EXPECT_NE(said(on_both, {on_second, on_both}).find("are bound to 2 cores (0-1)"), std::string::npos);
  EXPECT_EQ(said(free, {free}), "");
  const RankProcess threads{16, Cpus(0b0001), 2}, of_mpirun{17, Cpus(0b0001), 1, /*by_mpirun=*/true};
  EXPECT_NE(said(threads, {threads}).find(": take fewer ranks, or give them more cores"), std::string::npos);
  EXPECT_NE(said(threads, {threads, of_mpirun}).find(": start mpirun with --bind-to none"), std::string::npos);
}

TEST(RankProcesses, ThisOneComesFirst) {
  const auto found = rank_processes(3);
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found[0].pid, getpid());
  EXPECT_EQ(found[0].ranks, 3);
  EXPECT_EQ(found[0].cpus, allowed_cpus());
  EXPECT_TRUE((found[0].cpus & ~unbound_cpus()).none());
}

}  // namespace
}  // namespace ct
