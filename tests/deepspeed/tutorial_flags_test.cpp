#include "deepspeed/tutorial_flags.h"

#include "train/config/config_test.h"

namespace ct {
namespace {

auto words_of(const TutorialFlags& flags) {
  return [flags](const Merge& files, std::vector<std::string>* warnings) {
    return tutorial_flag_overrides(flags, files, warnings);
  };
}

TEST_F(ConfigTest, TutorialFlagsKeepWorking) {
  const auto with = [&](const TutorialFlags& flags) {
    return load_config({.files = {kShipped / "default.yaml"}, .flags = words_of(flags)}, &warnings_);
  };
  const auto refused = [&](const TutorialFlags& flags) {
    return error({.files = {kShipped / "default.yaml"}, .flags = words_of(flags)});
  };
  EXPECT_EQ(with({.batch_size = 32}).batch, (BatchKeys{32, 4, std::nullopt}));
  EXPECT_EQ(with({.batch_size = 2}).batch, (BatchKeys{2, 2, std::nullopt}));
  EXPECT_EQ(with({.epochs = 30}).train.epochs, 30);
  EXPECT_EQ(with({.log_interval = 100}).train.log_interval, 100);
  EXPECT_EQ(with({.stage = 0, .dtype = "fp32"}).origins.at("bf16.enabled"), "--dtype fp32");
  EXPECT_EQ(with({.backend = "mpi"}).communication.backend, CommBackend::mpi);
  EXPECT_TRUE(warnings_.empty());
  EXPECT_EQ(with({.backend = "gloo"}).communication.backend, CommBackend::automatic);
  with({.local_rank = 0});
  ASSERT_EQ(warnings_.size(), 2u);
  EXPECT_PART(warnings_[1], "--local_rank is ignored");
  for (const int64_t stage : {0, 1, 2, 3}) EXPECT_EQ(with({.stage = stage}).zero_optimization.stage, stage);
  EXPECT_EQ(with({.dtype = "bf16"}).bf16.enabled, true);
  EXPECT_EQ(refused({.stage = 4}), "--stage 4: zero_optimization.stage must be at least 0 and at most 3, found 4");
  EXPECT_TRUE(with({.dtype = "fp16"}).fp16.enabled);
  EXPECT_PART(refused({.sync_bn = true}), "--sync-bn: model.sync_bn");
  EXPECT_PART(refused({.dtype = "int8"}), "--dtype must be fp32, bf16 or fp16");
  EXPECT_EQ(with({.backend = "nccl"}).communication.backend, CommBackend::nccl);
  EXPECT_EQ(with({.with_cuda = true}).device, "cuda");
  EXPECT_EQ(with({.use_ema = true}).train.ema.decay, 0.999);
  // Where an average is configured already, that is what --use_ema asks for.
  const auto averaged = [&](const std::string& decay) {
    return load_config({.files = {write("ema.yaml", kAdam + "train: {ema: {decay: " + decay + "}}\n")},
                        .flags = words_of({.use_ema = true})},
                       &warnings_)
        .train.ema.decay;
  };
  EXPECT_EQ(averaged("0.9"), 0.9);
  EXPECT_EQ(averaged("0"), 0.999);
  EXPECT_EQ(averaged("0.0"), 0.999);
  EXPECT_PART(error({.files = {write("ema.yaml", kAdam + "train: {ema: {decay: much}}\n")},
                     .flags = words_of({.use_ema = true})}),
              "train.ema.decay");
}

}  // namespace
}  // namespace ct
