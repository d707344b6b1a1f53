#include "train/config/batch.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace ct {
namespace {

using Given = std::optional<int64_t>;
constexpr std::nullopt_t kAbsent = std::nullopt;

std::string message(const BatchKeys& keys, int64_t ranks) {
  try {
    derive_batch(keys, ranks);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    return error.what();
  }
  return "";
}

// What DeepSpeed itself answers.
TEST(Batch, DerivesWhatDeepSpeedDerives) {
  struct Case {
    Given train, micro, accumulation;
    int64_t ranks;
    BatchSizes sizes;
  };
  const Case cases[] = {
      {4, kAbsent, kAbsent, 1, {4, 4, 1}},   {4, kAbsent, kAbsent, 2, {4, 2, 1}},  {4, kAbsent, kAbsent, 4, {4, 1, 1}},
      {16, kAbsent, kAbsent, 2, {16, 8, 1}}, {kAbsent, 256, 2, 3, {1536, 256, 2}}, {10080, 280, 1, 36, {10080, 280, 1}},
      {32, 4, kAbsent, 2, {32, 4, 4}},       {32, kAbsent, 4, 2, {32, 4, 4}},      {kAbsent, 8, kAbsent, 4, {32, 8, 1}},
  };
  for (const Case& c : cases) EXPECT_EQ(derive_batch({c.train, c.micro, c.accumulation}, c.ranks), c.sizes) << *c.train;
}

TEST(Batch, SaysDeepSpeedsFiveMessages) {
  const std::string unequal =
      "Check batch related parameters. train_batch_size is not equal to micro_batch_per_gpu * gradient_acc_step * "
      "world_size ";
  const std::string absent = "Either train_batch_size or train_micro_batch_size_per_gpu needs to be provided";
  EXPECT_EQ(message({4, kAbsent, kAbsent}, 3), unequal + "4 != 1 * 1 * 3");
  EXPECT_EQ(message({10080, 280, 1}, 2), unequal + "10080 != 280 * 1 * 2");
  EXPECT_EQ(message({33, 4, kAbsent}, 2), unequal + "33 != 4 * 4 * 2");
  EXPECT_EQ(message({12, 5, kAbsent}, 1), unequal + "12 != 5 * 2 * 1");
  EXPECT_EQ(message({4, kAbsent, kAbsent}, 8), "Micro batch size per gpu: 0 has to be greater than 0");
  EXPECT_EQ(message({0, kAbsent, kAbsent}, 1), "Train batch size: 0 has to be greater than 0");
  EXPECT_EQ(message({4, 8, kAbsent}, 1), "Gradient accumulation steps: 0 has to be greater than 0");
  EXPECT_EQ(message({kAbsent, kAbsent, 4}, 2), absent);
  EXPECT_EQ(message({kAbsent, kAbsent, kAbsent}, 2), absent);
}

TEST(Batch, NonsenseNeverDividesByZero) {
  EXPECT_EQ(message({16, 0, kAbsent}, 1), "Micro batch size per gpu: 0 has to be greater than 0");
  EXPECT_EQ(message({16, kAbsent, 0}, 1), "Gradient accumulation steps: 0 has to be greater than 0");
  EXPECT_EQ(message({16, -4, -4}, 1), "Micro batch size per gpu: -4 has to be greater than 0");
}

TEST(Batch, NamesTheRanksThatFit) {
  const auto text = [](const BatchKeys& keys, int64_t ranks) {
    try {
      batch_for(keys, ranks);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_NE(text({4, 4, kAbsent}, 2)
                .find("Gradient accumulation steps: 0 has to be greater than 0 on 2 ranks with batches of 4 and "
                      "micro-batches of 4; it fits 1 rank"),
            std::string::npos);
  EXPECT_NE(text({16, 4, kAbsent}, 3).find("it fits 1, 2 or 4 ranks, or set train_batch_size to 24"),
            std::string::npos);
  EXPECT_NE(text({16, 4, kAbsent}, 8).find("ranks, or set train_micro_batch_size_per_gpu to 2"), std::string::npos);
  EXPECT_NE(text({4, 1, kAbsent}, 8).find("ranks, or set train_batch_size to 8"), std::string::npos);
  EXPECT_NE(text({10080, 280, 1}, 2).find("it fits 36 ranks, or set gradient_accumulation_steps to 18"),
            std::string::npos);
  EXPECT_EQ(text({10080, 280, 1}, 5).find("or set"), std::string::npos);  // no steps fit five
  EXPECT_NE(text({33, 4, kAbsent}, 2).find("no number of ranks fits"), std::string::npos);
  EXPECT_EQ(text({kAbsent, kAbsent, kAbsent}, 2).find("fits"), std::string::npos);
  EXPECT_EQ(batch_for({16, 4, kAbsent}, 2), (BatchSizes{16, 4, 2}));
}

TEST(Batch, AutoRanksFollowTheContract) {
  EXPECT_EQ(auto_ranks({16, 4, kAbsent}, 8), 4);   // a power of two that divides 4
  EXPECT_EQ(auto_ranks({16, 4, kAbsent}, 3), 2);   // no more than the cores
  EXPECT_EQ(auto_ranks({24, 4, kAbsent}, 64), 2);  // 6 = 2 * 3
  EXPECT_EQ(auto_ranks({4, 4, kAbsent}, 8), 1);
  EXPECT_EQ(auto_ranks({10080, 280, 1}, 2), 36);  // all three are given: exactly the quotient
  EXPECT_EQ(auto_ranks({16, kAbsent, kAbsent}, 8), 1);
  EXPECT_EQ(auto_ranks({kAbsent, 256, 2}, 8), 1);
  EXPECT_EQ(auto_ranks({33, 4, kAbsent}, 8), 1);
}

TEST(Batch, TableHasALineForEachRankCount) {
  const std::string table = batch_table({16, 4, kAbsent}, {1, 2, 4, 8});
  EXPECT_NE(table.find("    2                16            4             2\n"), std::string::npos) << table;
  EXPECT_NE(table.find("    8  Gradient accumulation steps: 0"), std::string::npos) << table;
}

}  // namespace
}  // namespace ct
