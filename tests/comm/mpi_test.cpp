// Ranks started by mpirun: this very program, as rank_program (exercise.cpp).
#include "comm/mpi/mpi.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>

#include "base/error.h"
#include "comm/run_command.h"

namespace ct {
namespace {

class Mpi : public testing::Test {
 protected:
  void SetUp() override {
    if (mpi_library().starts_with("none")) GTEST_SKIP() << "built without MPI";
    if (system("command -v mpirun >/dev/null 2>&1") != 0) GTEST_SKIP() << "no mpirun on this machine";
  }
  static std::string self() { return std::filesystem::read_symlink("/proc/self/exe").string(); }
  static Ended mpirun(int ranks, const std::string& program, const std::string& environment = "") {
    return run("OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 " +
               environment + " timeout 100 mpirun -np " + std::to_string(ranks) + " " + self() + " --rank-program " +
               program);
  }
};

TEST_F(Mpi, SharedMemoryOnOneHost) {
  for (const int ranks : {2, 4, 5}) {
    const Ended ended = mpirun(ranks, "exercise");
    EXPECT_EQ(ended.code, 0) << ended.output;
    EXPECT_EQ(ended.count("all done: " + std::to_string(ranks) + " processes on host "), 1) << ended.output;
  }
}

TEST_F(Mpi, MessagesAsBetweenHosts) {
  for (const int ranks : {2, 3, 4, 5}) {
    const Ended ended = mpirun(ranks, "messages");
    EXPECT_EQ(ended.code, 0) << ended.output;
    EXPECT_EQ(ended.count("(MPI messages)"), 1) << ended.output;
  }
}

TEST_F(Mpi, AMessageThatNeverComesIsNotAwaitedOnceTheWatchdogHasSpoken) {
  const Ended ended = mpirun(2, "messages-stuck");
  EXPECT_EQ(ended.code, 7) << ended.output;
  EXPECT_EQ(ended.count("first: 1"), 1) << ended.output;
  EXPECT_EQ(ended.count("aborted: 1, again: 0, stopped waiting for other ranks"), 1) << ended.output;
  EXPECT_EQ(ended.count("error: "), 0) << ended.output;
}

TEST_F(Mpi, AnOrderlyStopKeepsItsCode) { EXPECT_EQ(mpirun(2, "stop").code, 75); }

TEST_F(Mpi, AFailedRankEndsTheJobWithOneLineAndItsCode) {
  const Ended ended = mpirun(4, "fail");
  EXPECT_EQ(ended.code, 3) << ended.output;
  EXPECT_EQ(ended.count("error: "), 1) << ended.output;
  EXPECT_EQ(ended.count("error: rank 1 found bad data"), 1) << ended.output;
}

TEST_F(Mpi, AKilledRankEndsTheJob) {
  const Ended ended = mpirun(4, "die");
  EXPECT_EQ(ended.code, 137) << ended.output;
  EXPECT_LE(ended.count("error: "), 1) << ended.output;  // mpirun may end the others before they find out
}

TEST_F(Mpi, ARankThatExitsWithoutAWordIsNamedByOne) {
  const Ended ended = mpirun(3, "leave");
  EXPECT_NE(ended.code, 0) << ended.output;
  EXPECT_EQ(ended.count("all done"), 0) << ended.output;
  EXPECT_LE(ended.count("error: "), 1) << ended.output;
}

TEST_F(Mpi, WorldsOfOneAreRefused) {
  // What another MPI's launcher leaves behind: a rank and a size that this MPI does not know of.
  const Ended ended =
      run("OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PMI_RANK=0 PMI_SIZE=4 timeout 100 " + self() +
          " --rank-program exercise");
  EXPECT_EQ(ended.code, 2) << ended.output;
  EXPECT_EQ(ended.count("error: mpiexec (PMI) started 4 processes, but "), 1) << ended.output;
}

TEST(JoinMpi, OneProcessNeedsNone) { EXPECT_THROW(join_mpi(Launch{}), Error); }

}  // namespace
}  // namespace ct
