#include "cli/report/run_records.h"

#include <gtest/gtest.h>

#include <cmath>

namespace ct::report {
namespace {

TEST(ReadRecords, TakesAllKinds) {
  const RunRecords r = read_records(
      "{\"event\":\"start\",\"step\":0,\"model\":\"cnn\"}\n"
      "{\"event\":\"step\",\"step\":10,\"epoch\":1,\"loss\":2.5,\"lr\":0.1,\"grad_norm\":3}\n"
      "{\"event\": \"step\", \"step\": 20, \"loss\": null, \"time_ms\": {\"step\": 1}}\n"
      "{\"event\":\"epoch\",\"step\":20,\"epoch\":1,\"loss\":2.25}\n"
      "{\"event\":\"eval\",\"step\":20,\"split\":\"val\",\"loss\":1,\"accuracy\":0.5,\"per_class\":[0.25,null]}\n"
      "{\"event\":\"end\",\"step\":20,\"reason\":\"finished\"}\n");
  EXPECT_EQ(r.damaged, 0);
  ASSERT_EQ(r.steps.size(), 2U);
  EXPECT_EQ(r.steps[0].loss, 2.5);
  EXPECT_EQ(r.steps[0].grad_norm, 3);
  EXPECT_TRUE(std::isnan(r.steps[1].loss));
  EXPECT_EQ(r.epochs.at(0).loss, 2.25);
  EXPECT_EQ(r.evals.at(0).split, EvaluatedSplit::val);
  ASSERT_EQ(r.per_class.size(), 2U);
  EXPECT_TRUE(std::isnan(r.per_class[1]));
  EXPECT_EQ(text_in(r.start, "model"), "cnn");
  EXPECT_TRUE(r.ended);
}

TEST(ReadRecords, KeepsTheLastOfEachStepInOrder) {
  const RunRecords r = read_records(
      "{\"event\":\"step\",\"step\":3,\"loss\":3}\n{\"event\":\"step\",\"step\":1,\"loss\":1}\n"
      "{\"event\":\"step\",\"step\":3,\"loss\":4}\n");
  ASSERT_EQ(r.steps.size(), 2U);
  EXPECT_EQ(r.steps[0].step, 1);
  EXPECT_EQ(r.steps[1].loss, 4);
}

TEST(ReadRecords, CountsWhatIsNone) {
  const RunRecords r = read_records(
      "garbage\n[]\n{\"event\":\"step\"}\n{\"event\":\"step\",\"step\":-1}\n{\"event\":\"step\",\"step\":1.5}\n"
      "{\"event\":\"step\",\"step\":\"1\"}\n{\"event\":\"eval\",\"step\":1,\"split\":\"<b>\"}\n"
      "{\"event\":\"step\",\"step\":1e300}\n{\"event\":\"new kind\"}\n\n{\"event\":\"step\",\"st");
  EXPECT_EQ(r.damaged, 8);
  EXPECT_TRUE(r.cut);
  EXPECT_TRUE(r.steps.empty());
  EXPECT_FALSE(read_records("{\"event\":\"start\"}\n").ended);
}

TEST(ReadRecords, RefusesDeepLines) {
  const std::string deep(100000, '[');
  EXPECT_EQ(read_records("{\"event\":\"start\",\"host\":" + deep + "\n").damaged, 1);
  EXPECT_TRUE(shallow_json(deep).is_null());
  EXPECT_TRUE(shallow_json("\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\"").is_string());
}

TEST(Drawable, LeavesOutWhatNoAxisCanShow) {
  EXPECT_TRUE(std::isnan(drawable(1e300)));
  EXPECT_EQ(drawable(1e-300), 0);
  EXPECT_EQ(drawable(-2.5), -2.5);
}

}  // namespace
}  // namespace ct::report
