#include "base/host.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/temporary_folder.h"

namespace ct {
namespace {

void write_text(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

class Memory : public ::testing::Test {
 protected:
  Memory() { write_text(root_.path() / "proc/meminfo", "MemTotal: 1000 kB\nMemFree: 1 kB\nMemAvailable: 600 kB\n"); }
  void group(const std::string& limit, const std::string& used) {
    write_text(root_.path() / "sys/fs/cgroup/memory.max", limit);
    write_text(root_.path() / "sys/fs/cgroup/memory.current", used);
  }
  TemporaryFolder root_;
};

TEST_F(Memory, IsTheMachinesWithoutAControlGroup) {
  const HostMemory memory = host_memory(root_.path());
  EXPECT_EQ(memory.total, 1024000);
  EXPECT_EQ(memory.available, 614400);
  EXPECT_FALSE(memory.group_limit);
}

TEST_F(Memory, IsWhatTheControlGroupLeaves) {
  group("500000\n", "200000\n");
  EXPECT_EQ(host_memory(root_.path()).available, 300000);
  EXPECT_EQ(host_memory(root_.path()).group_limit, 500000);
  group("900000", "200000");  // more than the machine has
  EXPECT_EQ(host_memory(root_.path()).available, 614400);
  group("500000", "600000");  // over its limit
  EXPECT_EQ(host_memory(root_.path()).available, 0);
}

/// As Slurm's jobs and systemd's scopes are: the limit is of a group below the mount's root, or of its ancestor.
TEST_F(Memory, OfNestedControlGroupsTheLeastBinds) {
  const auto write_group = [&](const std::string& folder, const char* limit, const char* used) {
    std::filesystem::create_directories(root_.path() / "sys/fs/cgroup" / folder);
    write_text(root_.path() / "sys/fs/cgroup" / folder / "memory.limit_in_bytes", limit);
    write_text(root_.path() / "sys/fs/cgroup" / folder / "memory.usage_in_bytes", used);
  };
  write_text(root_.path() / "proc/self/cgroup", "9:memory:/slurm/job_7/step_0\n3:cpu,cpuacct:/slurm\n");
  write_group("memory/slurm/job_7", "400000", "100000");
  write_group("memory/slurm/job_7/step_0", "500000", "50000");
  EXPECT_EQ(host_memory(root_.path()).available, 300000);
  EXPECT_EQ(host_memory(root_.path()).group_limit, 400000);
}

TEST_F(Memory, GarbageCountsForNothing) {
  for (const char* limit : {"max", "", "9999999999999999999999", "2000000"}) {
    group(limit, "1");
    EXPECT_EQ(host_memory(root_.path()).available, 614400) << limit;
  }
  EXPECT_EQ(host_memory(root_.path() / "nowhere").available, 0);
}

TEST_F(Memory, OfThisMachineIsKnown) {
  EXPECT_GT(host_memory().total, int64_t{1} << 20);
  EXPECT_LE(host_memory().available, host_memory().total);
}

}  // namespace
}  // namespace ct
