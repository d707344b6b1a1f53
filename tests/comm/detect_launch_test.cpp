#include "comm/detect_launch.h"

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

TEST(Launch, AStepOfOneTaskUnlessItIsAShell) {
  Variables step = {{"SLURM_STEP_NUM_TASKS", "1"}, {"SLURM_PROCID", "0"}, {"SLURM_STEP_ID", "0"}};
  EXPECT_TRUE(detect(step).launched());
  step["SLURM_PTY_PORT"] = "4711";
  EXPECT_FALSE(detect(step).launched());
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

TEST(Launch, TorchrunUnderAnyLauncher) {
  const Variables torchrun = {{"RANK", "5"},
                              {"WORLD_SIZE", "8"},
                              {"LOCAL_RANK", "1"},
                              {"LOCAL_WORLD_SIZE", "4"},
                              {"MASTER_ADDR", "a"},
                              {"MASTER_PORT", "29500"},
                              {"TORCHELASTIC_RUN_ID", "none"}};
  Variables in_a_step = torchrun;  // one torchrun on each node
  in_a_step.insert({{"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "1"}, {"SLURM_STEP_NUM_TASKS", "2"}, {"PMIX_RANK", "1"}});
  for (const Variables& variables : {torchrun, in_a_step}) {
    const Launch launch = detect(variables);
    EXPECT_EQ(launch.kind, Kind::address);
    EXPECT_EQ(launch.meet, Launch::Meet::at_address);
    EXPECT_EQ(launch.rank, 5);
    EXPECT_EQ(launch.size, 8);
    EXPECT_EQ(launch.local_rank, 1);
    EXPECT_EQ(launch.local_size, 4);
  }
}

TEST(Launch, RankAndWorldSizeAlone) {
  EXPECT_EQ(detect({{"WORLD_SIZE", "8"}, {"MASTER_ADDR", "a"}}).kind, Kind::none);  // a script's own
  EXPECT_EQ(detect({{"RANK", "0"}}).kind, Kind::none);
  EXPECT_EQ(detect({{"WORLD_SIZE", "1"}}).kind, Kind::none);
  EXPECT_EQ(detect({{"RANK", "3"}, {"WORLD_SIZE", "8"}}).meet, Launch::Meet::at_address);
  EXPECT_FALSE(detect({{"RANK", "0"}, {"WORLD_SIZE", "1"}}).parallel());
}

TEST(Launch, MpirunWinsWhereBothSayTheSame) {
  const Launch launch =
      detect({{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}});
  EXPECT_EQ(launch.kind, Kind::open_mpi);
  EXPECT_EQ(launch.meet, Launch::Meet::by_mpi);
}

TEST(Launch, SrunMeetsAtAnAddressWithoutPmix) {
  Variables step = {{"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "3"},   {"SLURM_STEP_NUM_TASKS", "5"},
                    {"SLURM_LOCALID", "0"}, {"SLURM_NODEID", "2"},   {"SLURM_STEP_TASKS_PER_NODE", "2(x2),1"},
                    {"MASTER_ADDR", "a"},   {"MASTER_PORT", "29500"}};
  EXPECT_EQ(detect(step).meet, Launch::Meet::at_address);
  EXPECT_EQ(detect(step).local_size, 1);
  step["SLURM_NODEID"] = "1";
  EXPECT_EQ(detect(step).local_size, 2);
  for (const char* strange : {"", "x", "2(x", "2(x2", "2(x2)1", "0", "2(x2),,1"}) {
    step["SLURM_STEP_TASKS_PER_NODE"] = strange;
    step["SLURM_NODEID"] = "2";
    EXPECT_EQ(detect(step).local_size, 0) << strange;
  }
  step["PMIX_RANK"] = "3";
  EXPECT_EQ(detect(step).meet, Launch::Meet::by_mpi);
}

TEST(Launch, ContradictionsAreNamed) {
  const auto said = [](const Variables& variables) -> std::string {
    try {
      detect(variables);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::usage);
      return error.what();
    }
    return "nothing";
  };
  const Variables ranks = {{"RANK", "1"}, {"WORLD_SIZE", "4"}};
  Variables mpi = ranks, step = ranks, pmix = {{"PMIX_RANK", "1"}};
  mpi.insert({{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}});
  EXPECT_EQ(said(mpi).find("OMPI_COMM_WORLD_RANK=1 and OMPI_COMM_WORLD_SIZE=2 of mpirun (Open MPI) contradict RANK=1 "
                           "and WORLD_SIZE=4"),
            0u)
      << said(mpi);
  step.insert({{"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "2"}, {"SLURM_STEP_NUM_TASKS", "4"}});
  EXPECT_EQ(said(step).find("SLURM_PROCID=2"), 0u) << said(step);
  EXPECT_EQ(said(pmix).find("PMIX_RANK='1' is set, but the number of ranks is not"), 0u) << said(pmix);
  EXPECT_EQ(said({{"RANK", "3"}}).find("environment variable RANK=3 is set, but not WORLD_SIZE"), 0u);
  EXPECT_EQ(said({{"RANK", "0"}, {"MASTER_ADDR", "h"}}).find("environment variable RANK=0 is set, but not"), 0u);
  EXPECT_EQ(said({{"WORLD_SIZE", "2"}, {"LOCAL_RANK", "0"}}).find("environment variables WORLD_SIZE and LOCAL_RANK"),
            0u);
  EXPECT_EQ(said({{"WORLD_SIZE", "2"}, {"MASTER_ADDR", "h"}, {"MASTER_PORT", "1"}})
                .find("environment variables WORLD_SIZE and MASTER_ADDR are set, but not RANK"),
            0u);
  EXPECT_EQ(detect({{"WORLD_SIZE", "2"}, {"MASTER_ADDR", "h"}}).kind, Kind::none);
  pmix.insert({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "2"}});
  EXPECT_EQ(said(pmix).find("PMIX_RANK=1 contradicts rank 0"), 0u) << said(pmix);
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
