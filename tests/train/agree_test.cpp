#include "train/agree.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>

#include "base/error.h"
#include "base/host.h"
#include "comm/host/threads.h"

namespace ct {
namespace {

/// The one error of a job of `ranks`, "" when it ends well; its code must be `code`.
std::string error_of(int ranks, const std::function<void(Communicator&)>& body, ExitCode code = ExitCode::usage) {
  try {
    run_ranks(ranks, [&](Communicator& comm) {
      body(comm);
      comm.finish();
      return 0;
    });
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  return "";
}

TEST(Agree, TextAndVotes) {
  EXPECT_EQ(error_of(3,
                     [](Communicator& comm) {
                       EXPECT_EQ(from_rank_0(comm, comm.rank() == 0 ? "from the first" : ""), "from the first");
                       EXPECT_EQ(from_rank_0(comm, comm.rank() == 0 ? "" : "mine"), "");
                       EXPECT_EQ(broadcast_value(comm, comm.rank() + 7), 7);
                       EXPECT_TRUE(any_rank(comm, comm.rank() == 2));
                       EXPECT_FALSE(any_rank(comm, false));
                     }),
            "");
}

TEST(Agree, TheSameFactsPass) {
  for (const int ranks : {1, 2, 5}) {
    EXPECT_EQ(error_of(ranks,
                       [](Communicator& comm) {
                         require_same(comm, Facts{}, "never");
                         require_same(comm, Facts{{"a", ""}, {"b", "x y"}}, "never");
                         require_same_machine(comm, "avx2");
                       }),
              "");
  }
}

TEST(Agree, TheFirstDifferenceIsNamedOnceAndNoRankContinues) {
  std::atomic<int> went_on = 0;
  const std::string error = error_of(4, [&](Communicator& comm) {
    Facts facts = {{"a", "1"}, {"b", "2"}, {"c", "3"}};
    if (comm.rank() == 2) facts[1].second = "two", facts[2].second = "three";
    if (comm.rank() == 3) facts[0].second = "one";
    require_same(comm, facts, "make them alike");
    ++went_on;
  });
  const std::string host = host_name();
  EXPECT_EQ(error, "rank 2 on host " + host + ": b is two, but 2 for rank 0 on host " + host +
                       " (and 1 more differ); make them alike");
  EXPECT_EQ(went_on, 0);
}

TEST(Agree, ACopyOfTheWeightsThatDiffersIsNamed) {
  std::vector<Parameter> parameters(2);
  parameters[0].name = "conv1.weight", parameters[1].name = "fc1.bias";
  const auto error = [&](int ranks, int odd, size_t tensor) {
    return error_of(
        ranks,
        [&](Communicator& comm) {
          std::vector<uint32_t> mine = {17, 4};
          if (comm.rank() == odd) mine[tensor] ^= 1;
          require_same_replicas(comm, mine, parameters);
        },
        ExitCode::bug);
  };
  EXPECT_EQ(error(3, 3, 0), "");
  const std::string host = " on host " + host_name();
  for (const int odd : {0, 1, 3})
    EXPECT_EQ(error(4, odd, 1).find("rank " + std::to_string(odd) + host +
                                    ": its copy of fc1.bias differs from that of most ranks, "),
              0u)
        << error(4, odd, 1);
  for (const int odd : {0, 1})
    EXPECT_EQ(error(2, odd, 0).find("rank 0" + host +
                                    ": its copy of conv1.weight differs from that of another rank, and no majority "),
              0u)
        << error(2, odd, 0);
}

TEST(Agree, AFactThatOneRankLacksDiffers) {
  for (const int lacks : {0, 1}) {
    const std::string error = error_of(2, [&](Communicator& comm) {
      Facts facts = {{"a", "1"}, {"b", "2"}};
      if (comm.rank() == lacks) facts.pop_back();
      require_same(comm, facts, "remedy");
    });
    EXPECT_NE(error.find(lacks == 0 ? ": b is 2, but nothing for rank 0 " : ": b is nothing, but 2 for rank 0 "),
              std::string::npos)
        << error;
  }
}

TEST(Agree, AnotherMachineIsNamed) {
  const std::string error = error_of(
      2, [](Communicator& comm) { require_same_machine(comm, comm.rank() == 0 ? "cpu, avx512" : "cpu, avx2"); });
  EXPECT_NE(error.find("device or library is cpu, avx2, but cpu, avx512 for rank 0"), std::string::npos) << error;
  EXPECT_NE(error.find("; start every rank with the same program"), std::string::npos) << error;
}

TEST(Agree, ConfigurationsAreComparedByKey) {
  const auto with = [](const std::function<void(Config&)>& change) {
    return error_of(2, [&](Communicator& comm) {
      Config config;
      config.optimizer = optim::Adam();
      if (comm.rank() == 1) change(config);
      require_same_config(comm, config);
    });
  };
  EXPECT_EQ(with([](Config& c) { c.origins["seed"] = "--set seed=42"; }), "");  // where it was written does not matter
  const std::string seed = with([](Config& c) { c.seed = 43; });
  EXPECT_NE(seed.find("seed is 43, but 42 for rank 0"), std::string::npos) << seed;
  EXPECT_NE(seed.find("; start every rank with the same configuration"), std::string::npos) << seed;
  const std::string bucket = with([](Config& c) { c.zero_optimization.reduce_bucket_size = 1000; });
  EXPECT_NE(bucket.find("zero_optimization.reduce_bucket_size is 1000, but nothing for rank 0"), std::string::npos)
      << bucket;
  EXPECT_NE(bucket.find("; start every rank"), std::string::npos) << bucket;
}

}  // namespace
}  // namespace ct
