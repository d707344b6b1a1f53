#include "data/loader.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>

#include "data/hold_out.h"
#include "data/made_up_set.h"
#include "data/pipeline.h"

namespace ct {
namespace {

constexpr SampleShape kShape = {1, 5, 3};

struct Batch {
  explicit Batch(size_t n) : images(n * kShape.bytes(), 99), draws(n), labels(n, 99) {}
  Inputs to() { return {images, draws, labels}; }
  bool operator==(const Batch& b) const { return images == b.images && labels == b.labels; }
  std::vector<uint8_t> images;
  std::vector<Draw> draws;
  std::vector<int32_t> labels;
};

void dawdle(int64_t i) { std::this_thread::sleep_for(std::chrono::microseconds(i * 37 % 400)); }

/// What a micro-batch must hold, read in line.
Batch expected(const MadeUpSet& set, std::span<const uint32_t> images, const SampleKey& key) {
  Batch batch(images.size());
  for (size_t i = 0; i < images.size(); ++i) {
    set.read(images[i], key, batch.images.data() + i * kShape.bytes());
    batch.labels[i] = set.label(images[i]);
  }
  return batch;
}

TEST(Loader, GivesWhatReadingInLineGives) {
  const MadeUpSet slow(kShape, 7, 60, dawdle), set(kShape, 7, 60);
  for (const int workers : {1, 3, 16}) {
    const auto training = divide(set, {.seed = 5, .validation = {.amount = 10}}).training;
    Pipeline pipeline(slow, training,
                      {.seed = 5,
                       .train_batch = 12,
                       .micro_batch = 3,
                       .first_micro = 1,
                       .micros = 2,
                       .micro_stride = 2,
                       .workers = workers});
    EXPECT_EQ(pipeline.workers(), workers);
    const auto check = [&](int64_t epoch, int64_t step, int64_t k) {
      std::vector<uint32_t> images;
      for (uint32_t place : permutation(5, epoch, 50)) images.push_back(training[place]);
      Batch batch(3);
      pipeline.fill(epoch, step, k, batch.to());
      EXPECT_TRUE(batch == expected(set, micro_batch_images(images, 12, 3, step, k), {5, epoch}))
          << "epoch " << epoch << " step " << step << " micro-batch " << k << ", " << workers << " workers";
    };
    for (int64_t n = 0; n < 12; ++n)  // three epochs of four steps, in the order that is foreseen
      for (int64_t k : {1, 3}) check(n / 4, n % 4, k);
    check(1, 2, 1);  // back, as after a resume
    check(1, 2, 3);
    check(1, 3, 0);  // another rank's
    check(1, 3, 1);
    check(7, 0, 3);  // and far ahead
  }
}

/// The loader is epochs ahead of what is taken.
TEST(Loader, EpochsOfOneMicroBatch) {
  const MadeUpSet slow(kShape, 7, 12, dawdle), set(kShape, 7, 12);
  const auto training = whole(&set).images;
  for (const int workers : {1, 8})
    for (const int64_t micro : {3, 12}) {
      Pipeline pipeline(slow, training,
                        {.seed = 5, .train_batch = micro, .micro_batch = micro, .micros = 1, .workers = workers});
      const int64_t steps = 12 / micro;
      for (int64_t n = 0; n < 8 * steps; ++n) {
        const int64_t epoch = n / steps, step = n % steps;
        std::vector<uint32_t> images;
        for (uint32_t place : permutation(5, epoch, 12)) images.push_back(training[place]);
        Batch batch(static_cast<size_t>(micro));
        pipeline.fill(epoch, step, 0, batch.to());
        EXPECT_TRUE(batch == expected(set, micro_batch_images(images, micro, micro, step, 0), {5, epoch}))
            << "epoch " << epoch << ", step " << step << ", micro-batches of " << micro << ", " << workers
            << " workers";
      }
    }
}

TEST(Loader, EvaluationReadsAheadToo) {
  const MadeUpSet slow(kShape, 7, 11, dawdle), set(kShape, 7, 11);
  const EvalPipeline pipeline(slow, 2, /*workers=*/2);
  for (const int64_t ranks : {1, 2, 4})
    for (int64_t rank = 0; rank < ranks; ++rank) {
      const auto ahead = pipeline.read_ahead(ranks, {});
      ASSERT_NE(ahead, nullptr);
      for (int64_t b = rank; b < pipeline.batches(); b += ranks) {
        Batch batch(2);
        const auto count = pipeline.fill(b, batch.to(), ahead.get()).size();
        ASSERT_EQ(count, b == 5 ? 1u : 2u);
        const uint32_t images[] = {static_cast<uint32_t>(2 * b), static_cast<uint32_t>(2 * b + 1)};
        Batch whole = expected(set, std::span(images).first(count), {});
        whole.images.resize(2 * kShape.bytes(), 0);
        whole.labels.resize(2, 0);
        EXPECT_TRUE(batch == whole) << b;
      }
    }
}

TEST(Loader, ReadsWhileTheTakerIsBusy) {
  std::atomic<int> read = 0;
  const MadeUpSet set(kShape, 2, 100, [&](int64_t) { ++read; });
  Pipeline pipeline(set, whole(&set).images, {.train_batch = 5, .micro_batch = 5});
  Batch batch(5);
  pipeline.fill(0, 0, 0, batch.to());
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (read < 15 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(read, 15);  // two micro-batches ahead, and no further
}

TEST(Loader, AnErrorComesWhereItsSampleIsTaken) {
  const MadeUpSet set(kShape, 2, 40, [](int64_t i) {
    if (i == 13) fail(ExitCode::data, "images/13.jpeg: cut short");
  });
  Pipeline pipeline(set, whole(&set).images, {.shuffle = false, .train_batch = 4, .micro_batch = 4, .workers = 3});
  Batch batch(4);
  for (int64_t step = 0; step < 3; ++step) pipeline.fill(0, step, 0, batch.to());
  try {
    pipeline.fill(0, 3, 0, batch.to());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::data);
    EXPECT_EQ(error.what(), std::string("images/13.jpeg: cut short"));
  }
  pipeline.fill(0, 4, 0, batch.to());
  EXPECT_EQ(batch.labels[3], 19 % 2);
}

TEST(Loader, SamplesThatArriveAreASignOfLife) {
  const MadeUpSet set(kShape, 2, 40, [](int64_t) { std::this_thread::sleep_for(std::chrono::milliseconds(5)); });
  int arrived = 0;
  Pipeline pipeline(set, whole(&set).images, {.train_batch = 8, .micro_batch = 8, .arrived = [&] { ++arrived; }});
  Batch batch(8);
  pipeline.fill(0, 0, 0, batch.to());
  EXPECT_GE(arrived, 4);  // not only once for all
}

}  // namespace
}  // namespace ct
