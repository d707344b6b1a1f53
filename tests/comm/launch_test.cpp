#include "comm/launch.h"

#include <gtest/gtest.h>

#include <map>

#include "base/error.h"

namespace ct {
namespace {

using Variables = std::map<std::string, std::string>;
using Kind = Launch::Kind;

Launch detect(const Variables& variables) {
  return detect_launch([&](const char* name) {
    const auto it = variables.find(name);
    return it == variables.end() ? nullptr : it->second.c_str();
  });
}

TEST(Launch, NoneInAnEmptyEnvironment) {
  const Launch launch = detect({});
  EXPECT_EQ(launch.kind, Kind::none);
  EXPECT_FALSE(launch.parallel());
}

TEST(Launch, OpenMpi) {
  const Launch launch = detect({{"OMPI_COMM_WORLD_RANK", "5"},
                                {"OMPI_COMM_WORLD_SIZE", "8"},
                                {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                {"PMIX_RANK", "5"}});
  EXPECT_EQ(launch.kind, Kind::open_mpi);
  EXPECT_EQ(launch.rank, 5);
  EXPECT_EQ(launch.size, 8);
  EXPECT_EQ(launch.local_rank, 1);
  EXPECT_TRUE(launch.parallel());
}

TEST(Launch, MpirunInsideASlurmStepIsMpirun) {
  EXPECT_EQ(detect({{"OMPI_COMM_WORLD_RANK", "1"},
                    {"OMPI_COMM_WORLD_SIZE", "2"},
                    {"SLURM_STEP_ID", "0"},
                    {"SLURM_PROCID", "0"},
                    {"SLURM_STEP_NUM_TASKS", "1"}})
                .size,
            2);
}

TEST(Launch, Pmi) {
  const Launch launch = detect({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}});
  EXPECT_EQ(launch.kind, Kind::pmi);
  EXPECT_EQ(launch.local_rank, 1);
}

TEST(Launch, AnAllocationIsNoLauncher) {
  EXPECT_FALSE(detect({{"SLURM_NTASKS", "4"}, {"SLURM_JOB_ID", "1"}}).parallel());
  for (const char* step : {"batch", "extern", "interactive", "4294967291", "4294967294", ""}) {
    EXPECT_EQ(
        detect({{"SLURM_NTASKS", "4"}, {"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_PROCID", "0"}, {"SLURM_STEP_ID", step}})
            .kind,
        Kind::none)
        << step;
  }
}

TEST(Launch, Srun) {
  const Launch launch = detect({{"SLURM_NTASKS", "8"},
                                {"SLURM_STEP_NUM_TASKS", "4"},
                                {"SLURM_PROCID", "3"},
                                {"SLURM_LOCALID", "1"},
                                {"SLURM_STEP_ID", "12"},
                                {"PMIX_RANK", "3"}});
  EXPECT_EQ(launch.kind, Kind::slurm_step);
  EXPECT_EQ(launch.rank, 3);
  EXPECT_EQ(launch.size, 4);
  EXPECT_EQ(launch.local_rank, 1);
}

TEST(Launch, NonsenseIsNamed) {
  for (const char* bad : {"", "x", "-1", "1x", "99999999999999999999", " 1", "0x1"}) {
    try {
      detect({{"OMPI_COMM_WORLD_RANK", bad}, {"OMPI_COMM_WORLD_SIZE", "8"}});
      FAIL() << bad;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::usage);
      EXPECT_NE(std::string(error.what()).find("OMPI_COMM_WORLD_RANK"), std::string::npos);
    }
  }
  for (const char* size : {"0", "3", "4294967296000"}) {
    EXPECT_THROW(detect({{"PMI_RANK", size == std::string("4294967296000") ? "0" : "3"}, {"PMI_SIZE", size}}), Error);
  }
}

}  // namespace
}  // namespace ct
