#include "base/cores.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <stdlib.h>

#include <fstream>
#include <thread>

namespace ct {
namespace {

namespace fs = std::filesystem;

class FakeRoot : public ::testing::Test {
 protected:
  FakeRoot() {
    std::string name = (fs::temp_directory_path() / "ct-cores-XXXXXX").string();
    root_ = mkdtemp(name.data());
  }
  ~FakeRoot() override { fs::remove_all(root_); }
  void put(const std::string& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  fs::path root_;
};

TEST_F(FakeRoot, NothingThereIsNoLimit) { EXPECT_FALSE(cpu_quota(root_)); }

TEST_F(FakeRoot, UnlimitedIsNoLimit) {
  put("proc/self/cgroup", "0::/a\n");
  put("sys/fs/cgroup/a/cpu.max", "max 100000\n");
  EXPECT_FALSE(cpu_quota(root_));
}

TEST_F(FakeRoot, Version2TakesTheTightestAncestor) {
  put("proc/self/cgroup", "0::/a/b\n");
  put("sys/fs/cgroup/a/b/cpu.max", "400000 100000\n");
  put("sys/fs/cgroup/a/cpu.max", "150000 100000\n");
  EXPECT_EQ(cpu_quota(root_), 1.5);
}

TEST_F(FakeRoot, Version1) {
  put("proc/self/cgroup", "5:memory:/x\n3:cpu,cpuacct:/job\n0::/\n");
  put("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "300000\n");
  put("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cpu_quota(root_), 3.0);
  put("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "-1\n");
  EXPECT_FALSE(cpu_quota(root_));
}

TEST_F(FakeRoot, ContainerSeesItsOwnGroupAtTheMount) {
  put("proc/self/cgroup", "1:cpu:/docker/0123\n");
  put("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "200000\n");
  put("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cpu_quota(root_), 2.0);
}

TEST_F(FakeRoot, GarbageIsNoLimit) {
  for (const char* text : {"", "::::\n", "0", "0::\n", "\xff:cpu:/\n"}) {
    put("proc/self/cgroup", text);
    put("sys/fs/cgroup/cpu.max", "what ever\n");
    EXPECT_FALSE(cpu_quota(root_)) << text;
  }
  put("proc/self/cgroup", "0::/\n");
  for (const char* text : {"0 0\n", "-5 100000\n", "1e999 1\n", "nan nan\n", "100000\n"}) {
    put("sys/fs/cgroup/cpu.max", text);
    EXPECT_FALSE(cpu_quota(root_)) << text;
  }
}

TEST(Cores, QuotaAndAffinityBothBind) {
  std::bitset<kMaxCpus> cpus;
  EXPECT_EQ(available_cores(cpus, std::nullopt), 1);
  for (size_t i = 0; i < 8; ++i) cpus.set(3 * i);
  EXPECT_EQ(available_cores(cpus, std::nullopt), 8);
  EXPECT_EQ(available_cores(cpus, 2.9), 2);
  EXPECT_EQ(available_cores(cpus, 0.2), 1);
  EXPECT_EQ(available_cores(cpus, 1e9), 8);
}

TEST(Cores, AffinityOfTheCallingThread) {
  std::thread([] {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    EXPECT_EQ(available_cores(), 1);
  }).join();
}

}  // namespace
}  // namespace ct
