#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "base/error.h"
#include "train/config/batch.h"

namespace ct {
namespace {

std::string message(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    return error.what();
  }
  return "no error";
}

// What DeepSpeed itself answers.

TEST(Elasticity, OfSingleRanksGolden) {
  const Elasticity keys{.max_train_batch_size = 2000, .micro_batch_sizes = {2, 4, 6}, .version = 0.1};
  const ElasticBatch batch = elastic_batch(keys);
  EXPECT_EQ(batch.train, 1680);
  EXPECT_EQ(batch.ranks,
            (std::vector<int64_t>{1,  2,  3,  4,  5,  6,  7,  8,  10,  12,  14,  15,  20,  21,  24,  28,
                                  30, 35, 40, 42, 56, 60, 70, 84, 105, 120, 140, 168, 210, 280, 420, 840}));
  const ElasticBatch few = elastic_batch(
      {.max_train_batch_size = 512, .micro_batch_sizes = {16, 32, 64}, .min_gpus = 1, .max_gpus = 16, .version = 0.1});
  EXPECT_EQ(few.train, 384);
  EXPECT_EQ(few.ranks, (std::vector<int64_t>{1, 2, 3, 4, 6, 8, 12}));
}

TEST(Elasticity, OfWholeNodesGolden) {
  const Elasticity keys{.max_train_batch_size = 2000, .micro_batch_sizes = {2, 4, 6}, .num_gpus_per_node = 4};
  const ElasticBatch batch = elastic_batch(keys);
  EXPECT_EQ(batch.train, 1920);
  EXPECT_EQ(batch.ranks, (std::vector<int64_t>{4,  8,  12, 16,  20,  24,  32,  40,  48,  60,
                                               64, 80, 96, 120, 160, 192, 240, 320, 480, 960}));
  const ElasticSizes sizes = elastic_sizes(keys, 8);
  EXPECT_EQ(sizes.train, 1920);
  EXPECT_EQ(sizes.micro, 6);
}

TEST(Elasticity, TheBatchIsTheSameForAllThatFit) {
  const BatchKeys keys{.elastic =
                           Elasticity{.max_train_batch_size = 2000, .micro_batch_sizes = {2, 4, 6}, .version = 0.1}};
  EXPECT_EQ(derive_batch(keys, 1), (BatchSizes{1680, 6, 280}));
  EXPECT_EQ(derive_batch(keys, 7), (BatchSizes{1680, 6, 40}));
  EXPECT_EQ(derive_batch(keys, 105), (BatchSizes{1680, 4, 4}));  // 16 images per rank, which 6 does not divide
  EXPECT_EQ(derive_batch(keys, 840), (BatchSizes{1680, 2, 1}));
  EXPECT_EQ(fitting_ranks(keys, 5), (std::vector<int64_t>{1, 2, 3, 4, 5}));
  EXPECT_EQ(auto_ranks(keys, 9), 8);
  EXPECT_EQ(auto_ranks(keys, 10000), 840);
  const std::string said = message([&] { batch_for(keys, 9); });
  EXPECT_EQ(
      said.find("World size (9) is not valid with the current list of valid GPU counts: [1, 2, 3, 4, 5, 6, 7, 8, "), 0u)
      << said;
}

TEST(Elasticity, RanksThatFillNoNodeGetABatchOfTheirOwn) {
  const BatchKeys keys{
      .elastic = Elasticity{.max_train_batch_size = 100, .micro_batch_sizes = {4, 6}, .num_gpus_per_node = 4}};
  EXPECT_EQ(derive_batch(keys, 5), (BatchSizes{100, 4, 5}));  // 4 * 5 five times; 6 * 5 makes 90
  BatchKeys smaller = keys;
  smaller.elastic->prefer_larger_batch = false;
  EXPECT_EQ(derive_batch(smaller, 5), (BatchSizes{90, 6, 3}));
  EXPECT_EQ(message([&] { derive_batch(keys, 50); }), "Train batch size: 0 has to be greater than 0");
}

TEST(Elasticity, KeysThatContradictEachOtherAreNamed) {
  EXPECT_EQ(message([] {
              elastic_batch({.max_train_batch_size = 8, .micro_batch_sizes = {2, 16}, .version = 0.1});
            }),
            "All micro batches must be less than or equal to max_acceptable_batch_size: 8");
  EXPECT_EQ(message([] {
              elastic_batch({.max_train_batch_size = 8, .micro_batch_sizes = {2}, .min_gpus = 5, .max_gpus = 4});
            }),
            "Elasticity min_gpus cannot be greater than max_gpus, given min_gpus: 5, max_gpus: 4");
}

TEST(Elasticity, NoBatchIsAboveTheMaximum) {
  for (const double version : {0.1, 0.2}) {
    Elasticity keys{.max_train_batch_size = 100, .micro_batch_sizes = {8, 10, 12}, .version = version};
    EXPECT_EQ(message([&] { elastic_batch(keys); }).find("elasticity.max_train_batch_size 100 is below the batch"), 0u);
    keys.may_exceed = true;
    EXPECT_EQ(elastic_batch(keys).train, 120);
    keys.max_train_batch_size = 120;
    keys.may_exceed = false;
    EXPECT_EQ(elastic_batch(keys).train, 120);
  }
  const Elasticity nodes{.max_train_batch_size = 110, .micro_batch_sizes = {4, 6, 10}, .num_gpus_per_node = 2};
  EXPECT_NE(message([&] { elastic_batch(nodes); }).find(", 120, "), std::string::npos);
}

TEST(Elasticity, LargeNumbersComeToAnEnd) {
  std::vector<int64_t> primes = {1048573, 1048571, 1048559, 1048549, 1048517, 1048507};
  const ElasticBatch batch =
      elastic_batch({.max_train_batch_size = kLargestBatch, .micro_batch_sizes = primes, .version = 0.1});
  EXPECT_EQ(batch.train, 1048573);
  EXPECT_EQ(batch.ranks, std::vector<int64_t>{1});
  primes.assign(kMostMicroBatchSizes, 1);
  EXPECT_EQ(elastic_batch({.max_train_batch_size = kLargestBatch, .micro_batch_sizes = primes, .version = 0.1}).train,
            720720);
}

}  // namespace
}  // namespace ct
