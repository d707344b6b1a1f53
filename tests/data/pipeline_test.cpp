#include "data/pipeline.h"

#include <map>
#include <numeric>
#include <set>

#include "data/cifar/cifar_kind.h"
#include "data/data_fixture.h"
#include "data/description.h"
#include "data/hold_out.h"

namespace ct {
namespace {

struct PipelineBatch {
  explicit PipelineBatch(size_t n) : images(n * kImageBytes, 99), draws(n, {9, 9, 9, 9}), labels(n, 99) {}
  Inputs to() { return {images, draws, labels}; }
  std::vector<uint8_t> images;
  std::vector<Draw> draws;
  std::vector<int32_t> labels;
};

class PipelineTest : public DataFixture {
 protected:
  static CifarSet small_set(int count) {
    return CifarSet("synthetic-10", std::vector<std::string>(10, "x"), records(count));
  }
  static void expect_image(const CifarSet& set, int64_t image, const PipelineBatch& batch, int place) {
    EXPECT_EQ(batch.labels[place], set.label(image));
    EXPECT_TRUE(
        std::equal(set.pixels(image), set.pixels(image) + kImageBytes, batch.images.begin() + place * kImageBytes))
        << image;
  }
};

TEST_F(PipelineTest, FillsWhatTheSamplerChooses) {
  const CifarSet set = small_set(100);
  const Parts parts = divide(set, {.seed = 5, .validation = {.amount = 10}});
  const std::vector<AugmentStep> augment = {RandomCrop{.padding = 4}};
  Pipeline pipeline(set, parts.training, {.seed = 5, .augment = augment, .train_batch = 12, .micro_batch = 4});
  EXPECT_EQ(pipeline.steps_per_epoch(), 7);
  EXPECT_EQ(pipeline.micros_per_step(), 3);
  // Any order of asking gives the same: epochs forth and back, steps in reverse.
  for (int epoch : {0, 1, 0}) {
    const auto order = permutation(5, epoch, 90);
    for (int step = 6; step >= 0; --step) {
      for (int k = 0; k < 3; ++k) {
        PipelineBatch batch(4);
        pipeline.fill(epoch, step, k, batch.to());
        for (int i = 0; i < 4; ++i) {
          const uint32_t image = parts.training[order[step * 12 + k * 4 + i]];
          expect_image(set, image, batch, i);
          const Draw draw = Augmentation(augment, 32, 32).draw({{&image, 1}, {5, epoch}}, 0, {}).moves;
          EXPECT_EQ(batch.draws[i].dy, draw.dy);
          EXPECT_EQ(batch.draws[i].dx, draw.dx);
        }
      }
    }
  }
}

/// Where the set lies on the device, micro-batches have the numbers of the images in place of their pixels.
TEST_F(PipelineTest, FillsNumbersOfImages) {
  const CifarSet set = small_set(100);
  const Parts parts = divide(set, {.seed = 5, .validation = {.amount = 10}});
  Pipeline pipeline(set, parts.training,
                    {.seed = 5, .augment = {RandomCrop{.padding = 4}}, .train_batch = 12, .micro_batch = 4});
  for (int step : {0, 6, 3}) {
    PipelineBatch pixels(4), numbers(4);
    std::vector<int32_t> index(4, 99);
    Inputs to = numbers.to();
    to.images = {};
    to.index = index;
    pipeline.fill(1, step, 2, pixels.to());
    pipeline.fill(1, step, 2, to);
    EXPECT_EQ(numbers.labels, pixels.labels);
    for (int i = 0; i < 4; ++i) {
      expect_image(set, index[i], pixels, i);
      EXPECT_EQ(numbers.draws[i].dy, pixels.draws[i].dy);
    }
  }
}

TEST_F(PipelineTest, ARepeatedImageIsAugmentedAnew) {
  const CifarSet set = small_set(100);
  std::vector<uint32_t> images(9);  // of classes that have few images each
  std::iota(images.begin(), images.end(), 0u);
  Pipeline pipeline(set, images,
                    {.seed = 5,
                     .sampler = Sampler::balanced,
                     .augment = {RandomCrop{.padding = 4}},
                     .class_weights = {1, 2, 3},
                     .train_batch = 9,
                     .micro_batch = 9});
  std::map<int32_t, std::set<std::pair<int32_t, int32_t>>> moves;  // of each image, which its first pixel tells
  std::map<int32_t, int> draws;
  for (int epoch = 0; epoch < 4; ++epoch) {
    PipelineBatch batch(9);
    std::vector<float> weights(3);
    Inputs to = batch.to();
    to.class_weights = weights;
    pipeline.fill(epoch, 0, 0, to);
    EXPECT_EQ(weights, (std::vector<float>{1, 2, 3}));
    for (size_t i = 0; i < 9; ++i) {
      ++draws[batch.images[i * kImageBytes]];
      moves[batch.images[i * kImageBytes]].insert({batch.draws[i].dy, batch.draws[i].dx});
    }
  }
  int repeated = 0;
  for (const auto& [image, count] : draws)
    if (count > 4) {
      ++repeated;
      EXPECT_GE(moves[image].size(), 4u) << image;
    }
  EXPECT_GT(repeated, 0);
}

TEST_F(PipelineTest, TheFirstSamplesAreThoseOfTheFirstStep) {
  const CifarSet set = small_set(100);
  Pipeline pipeline(set, divide(set, {.seed = 5, .validation = {.amount = 10}}).training,
                    {.seed = 5, .train_batch = 12, .micro_batch = 4});
  std::vector<uint8_t> step;
  for (int k = 0; k < 3; ++k) {
    PipelineBatch batch(4);
    pipeline.fill(0, 0, k, batch.to());
    step.insert(step.end(), batch.images.begin(), batch.images.end());
  }
  EXPECT_EQ(pipeline.first_samples(100), step);
  step.resize(5 * kImageBytes);
  EXPECT_EQ(pipeline.first_samples(5), step);
  EXPECT_EQ(pipeline.sample(), set.shape());
}

TEST_F(PipelineTest, RanksShareTheWork) {
  const CifarSet set = small_set(64);
  std::vector<uint32_t> all(64);
  std::iota(all.begin(), all.end(), 0u);
  const PipelineOptions options = {.seed = 3, .train_batch = 16, .micro_batch = 4};
  Pipeline one(set, all, options);
  for (int rank = 0; rank < 2; ++rank) {
    PipelineOptions mine = options;
    mine.first_micro = 2 * rank;
    mine.micros = 2;
    Pipeline part(set, all, mine);
    for (int step = 0; step < 4; ++step) {
      for (int k = 2 * rank; k < 2 * rank + 2; ++k) {
        PipelineBatch a(4), b(4);
        one.fill(0, step, k, a.to());
        part.fill(0, step, k, b.to());
        EXPECT_EQ(a.images, b.images);
        EXPECT_EQ(a.labels, b.labels);
      }
    }
  }
}

/// Edits, partners and their labels are those of the micro-batch, whoever asks for it.
TEST_F(PipelineTest, FillsEditsAndSecondLabels) {
  const CifarSet set = small_set(40);
  std::vector<uint32_t> all(40);
  std::iota(all.begin(), all.end(), 0u);
  const PipelineOptions options = {
      .seed = 3, .augment = {Flip{}, RandomResizedCrop{}, Mixup{}}, .train_batch = 10, .micro_batch = 5};
  const Augmentation augmentation(options.augment, 32, 32);
  ASSERT_EQ(augmentation.edits(), 3);
  Pipeline pipeline(set, all, options);
  const auto order = permutation(3, 2, 40);
  for (int64_t k : {1, 0}) {
    PipelineBatch batch(5);
    std::vector<EditDraw> edits(15);
    std::vector<int32_t> second(5);
    std::vector<float> shares(5);
    Inputs to = batch.to();
    EXPECT_THROW(pipeline.fill(2, 1, k, to), Error);
    to.edits = edits, to.second_labels = second, to.second_shares = shares;
    pipeline.fill(2, 1, k, to);
    const auto images = micro_batch_images(order, 10, 5, 1, k);
    for (size_t i = 0; i < 5; ++i) {
      std::vector<EditDraw> expected(3);
      const auto [moves, mix] = augmentation.draw({images, {3, 2}}, i, expected);
      for (size_t e = 0; e < 3; ++e) {
        EXPECT_EQ(edits[3 * i + e].kind, expected[e].kind);
        EXPECT_EQ(edits[3 * i + e].at, expected[e].at);
      }
      ASSERT_TRUE(mix.partner >= 0 && mix.partner < 5 && mix.partner != static_cast<int32_t>(i));
      EXPECT_EQ(expected[2].at[4], mix.partner);
      EXPECT_EQ(second[i], set.label(images[static_cast<size_t>(mix.partner)]));
      EXPECT_EQ(shares[i], mix.share);
      EXPECT_EQ(batch.draws[i].flip, 0);  // it was done before the crop
    }
  }
}

TEST_F(PipelineTest, WithoutShuffleTheFilesOrder) {
  const CifarSet set = small_set(20);
  Pipeline pipeline(set, whole(&set).images, {.shuffle = false, .train_batch = 5, .micro_batch = 5});
  PipelineBatch batch(5);
  pipeline.fill(3, 2, 0, batch.to());
  for (int i = 0; i < 5; ++i) expect_image(set, 10 + i, batch, i);
  EXPECT_EQ(batch.draws[0].dy, 0);
  EXPECT_EQ(batch.draws[4].unused, 0);
}

TEST_F(PipelineTest, EveryEpochMayHaveTheSameOrder) {
  const CifarSet set = small_set(20);
  std::vector<uint32_t> all(20);
  std::iota(all.begin(), all.end(), 0u);
  Pipeline pipeline(set, all, {.seed = 5, .same_order = true, .train_batch = 4, .micro_batch = 4});
  const auto order = permutation(5, 0, 20);
  for (int epoch : {0, 1, 7}) {
    PipelineBatch batch(4);
    pipeline.fill(epoch, 2, 0, batch.to());
    for (int i = 0; i < 4; ++i) expect_image(set, order[8 + i], batch, i);
  }
}

TEST_F(PipelineTest, RefusesWhatDoesNotFit) {
  const CifarSet set = small_set(20);
  const auto training = divide(set, {.seed = 1, .validation = {.amount = 5}}).training;
  expect_error(ExitCode::usage, {"train_batch_size", "16", "15"},
               [&] { Pipeline(set, training, {.train_batch = 16, .micro_batch = 4}); });
  Pipeline pipeline(set, training, {.train_batch = 8, .micro_batch = 4});
  PipelineBatch batch(4), large(8);
  EXPECT_THROW(pipeline.fill(0, 1, 0, batch.to()), Error);
  EXPECT_THROW(pipeline.fill(0, 0, 2, batch.to()), Error);
  EXPECT_THROW(pipeline.fill(0, 0, 0, large.to()), Error);
}

TEST_F(PipelineTest, EvaluationCountsEveryImageOnce) {
  const CifarSet set = small_set(10);
  const EvalPipeline pipeline(set, 4);
  EXPECT_EQ(pipeline.batches(), 3);
  int64_t seen = 0;
  for (int64_t b = 0; b < 3; ++b) {
    PipelineBatch batch(4);
    const auto count = static_cast<int64_t>(pipeline.fill(b, batch.to()).size());
    for (int i = 0; i < count; ++i) expect_image(set, seen + i, batch, i);
    for (int64_t i = count; i < 4; ++i) {
      EXPECT_EQ(batch.labels[i], 0);
      EXPECT_EQ(batch.images[i * kImageBytes], 0);
      EXPECT_EQ(batch.images[(i + 1) * kImageBytes - 1], 0);
    }
    for (const Draw& draw : batch.draws) EXPECT_EQ(draw.dy + draw.dx + draw.flip + draw.unused, 0);
    seen += count;
  }
  EXPECT_EQ(seen, 10);
  const EvalPipeline held_out(set, {7, 2, 9}, 2);
  PipelineBatch batch(2);
  EXPECT_EQ(held_out.fill(1, batch.to()).size(), 1u);
  expect_image(set, 9, batch, 0);
  EXPECT_EQ(EvalPipeline(set, std::vector<uint32_t>{}, 2).batches(), 0);
}

TEST_F(PipelineTest, InspectionReportsDamageFileByFile) {
  const auto folder = make_set("set", 3);
  std::filesystem::remove(folder / "data_batch_2.bin");
  auto bytes = records(10000);
  bytes[5 * kRecordBytes] = 200;
  write(folder / "data_batch_3.bin", bytes);
  const auto reports = verify_batches(folder);
  ASSERT_EQ(reports.size(), 6u);
  EXPECT_NE(reports[0].problem.find("truncated"), std::string::npos);
  EXPECT_EQ(reports[0].records, 3);
  EXPECT_EQ(reports[1].problem, "no such file");
  EXPECT_NE(reports[2].problem.find("record 5 has label 200"), std::string::npos);
  EXPECT_EQ(reports[5].path.filename(), "test_batch.bin");
  expect_error(ExitCode::data, {"nowhere"}, [&] { verify_batches(root / "nowhere"); });
}

TEST_F(PipelineTest, Statistics) {
  std::vector<uint8_t> bytes(2 * kRecordBytes, 0);
  std::fill_n(bytes.begin() + 1, 1024, uint8_t{255});                       // red: one image full, one empty
  std::fill_n(bytes.begin() + kRecordBytes + 1 + 1024, 1024, uint8_t{51});  // green: 0.2 in the second
  bytes[kRecordBytes] = 3;
  const CifarSet set("synthetic-10", std::vector<std::string>(10, "x"), bytes);
  const ChannelStatistics statistics = channel_statistics(set);
  EXPECT_NEAR(statistics.mean[0], 0.5, 1e-12);
  EXPECT_NEAR(statistics.std[0], 0.5, 1e-12);
  EXPECT_NEAR(statistics.mean[1], 0.1, 1e-12);
  EXPECT_NEAR(statistics.std[1], 0.1, 1e-12);
  EXPECT_EQ(statistics.std[2], 0);
  EXPECT_EQ(class_counts(set)[0], 1);
  EXPECT_EQ(class_counts(set)[3], 1);
}

}  // namespace
}  // namespace ct
