#include "train/run/run_state.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace ct {
namespace {

const Path kFile = "run/state.json";

RunState some_state() {
  RunState s{.step = 7, .epoch = 1, .batch = 3, .samples = 112};
  s.scalars.applied = 5, s.scalars.skipped = 2, s.scalars.bad_streak = 1;
  s.running_loss = 1.0 / 3, s.running_images = 12;
  s.epoch_loss = 1.0 / 7, s.epoch_images = 24;
  s.best_step = 6, s.best_value = 0.1, s.patience_value = -0.25, s.patience_used = 2;
  s.replaced = 9;
  s.ema_loss = 1.0 / 11;
  return s;
}

TEST(RunState, SurvivesItsTextToTheLastBit) {
  const RunState s = some_state(), t = run_state_from(Json::parse(to_json(s).dump()), kFile);
  EXPECT_EQ(t.step, s.step);
  EXPECT_EQ(t.epoch, s.epoch);
  EXPECT_EQ(t.batch, s.batch);
  EXPECT_EQ(t.samples, s.samples);
  EXPECT_EQ(t.scalars.applied, s.scalars.applied);
  EXPECT_EQ(t.scalars.skipped, s.scalars.skipped);
  EXPECT_EQ(t.scalars.bad_streak, s.scalars.bad_streak);
  EXPECT_EQ(t.running_loss, s.running_loss);
  EXPECT_EQ(t.running_images, s.running_images);
  EXPECT_EQ(t.epoch_loss, s.epoch_loss);
  EXPECT_EQ(t.epoch_images, s.epoch_images);
  EXPECT_EQ(t.best_step, s.best_step);
  EXPECT_EQ(t.best_value, s.best_value);
  EXPECT_EQ(t.patience_value, s.patience_value);
  EXPECT_EQ(t.patience_used, s.patience_used);
  EXPECT_EQ(t.replaced, s.replaced);
  EXPECT_EQ(t.ema_loss, s.ema_loss);
}

TEST(RunState, RareNumbersAreLeftOutWhereTheyAreZero) {
  RunState s = some_state();
  s.replaced = 0, s.ema_loss = 0;
  const Json json = to_json(s);
  EXPECT_FALSE(json.contains("replaced_samples") || json.contains("ema_loss"));
  EXPECT_EQ(run_state_from(json, kFile).replaced, 0);
  EXPECT_EQ(run_state_from(json, kFile).ema_loss, 0);
}

void expect_damaged(const Json& json, const std::string& word) {
  try {
    run_state_from(json, kFile);
    ADD_FAILURE() << "accepted: " << json.dump();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::checkpoint);
    EXPECT_NE(std::string(e.what()).find(word), std::string::npos) << e.what();
    EXPECT_EQ(std::string(e.what()).find('\n'), std::string::npos);
  }
}

TEST(RunState, EveryFieldMustBeThereAndANumber) {
  const Json whole = to_json(some_state());
  for (const auto& [key, value] : whole.items()) {
    Json without = whole;
    without.erase(key);
    if (key != "replaced_samples" && key != "ema_loss") expect_damaged(without, key);
    for (const Json& wrong : {Json("5"), Json(nullptr), Json::array({1}), Json::object(), Json(true)}) {
      Json bad = whole;
      bad[key] = wrong;
      expect_damaged(bad, key);
    }
  }
  for (const Json& garbage : {Json(), Json(3), Json("text"), Json::array(), Json::object()})
    expect_damaged(garbage, "step");
}

TEST(RunState, NumbersThatNoRunHasAreRefused) {
  const std::pair<const char*, Json> wrong[] = {{"applied", 4},          {"skipped", 3},    {"applied", 1000},
                                                {"bad_streak", 8},       {"best_step", 8},  {"epoch_images", 113},
                                                {"running_images", 113}, {"loss_scale", 0}, {"loss_scale", -1.0}};
  for (const auto& [key, value] : wrong) {
    Json bad = to_json(some_state());
    bad[key] = value;
    expect_damaged(bad, "'run/state.json'");
  }
}

TEST(RunState, CountsAreNotBelowZero) {
  for (const char* key :
       {"step", "epoch", "batch", "applied", "replaced_samples", "samples", "skipped", "bad_streak", "epoch_images"}) {
    Json bad = to_json(some_state());
    bad[key] = -1;
    expect_damaged(bad, "below zero");
  }
}

}  // namespace
}  // namespace ct
