// Images that lie on the device, rows of micro-batches that travel together, and values that the host reads late: the
// bits of micro-batches that bring their images one by one and of values that are read at once.
#include "engine/feed.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "base/random.h"
#include "comm/host/threads.h"
#include "device/cuda.h"
#include "engine/engine.h"
#include "plan/lower.h"
#include "runtime.h"

namespace ct::feed_test {
namespace {

constexpr int64_t kImages = 3, kSet = 23, kClasses = 5;
constexpr int64_t kSide = 8, kLargeSide = 96;  // a micro-batch of large images does not travel by a kernel

int64_t bytes_of(int64_t side) { return 3 * side * side; }

ValueId net(Graph& g, ValueId images, int classes) {
  return g.linear(g.dropout(g.linear(g.flatten(images), "hidden", 12, {.activation = Activation::relu}), 0.3), "out",
                  classes);
}

std::vector<uint8_t> training_set(int64_t side) {
  Random random(3, Purpose::augment);
  std::vector<uint8_t> pixels(static_cast<size_t>(kSet * bytes_of(side)));
  for (uint8_t& pixel : pixels) pixel = static_cast<uint8_t>(random.below(256));
  return pixels;
}

/// Micro-batch `number` of the run; of its images the pixels or the numbers.
void write(const Inputs& in, int64_t number, const std::vector<uint8_t>& set) {
  const auto bytes = static_cast<int64_t>(set.size()) / kSet;
  Random random(4, Purpose::augment, static_cast<uint64_t>(number));
  for (size_t i = 0; i < kImages; ++i) {
    const auto image = static_cast<int32_t>(random.below(kSet));
    in.draws[i] = {.dy = static_cast<int32_t>(random.below(3)) - 1, .dx = 1, .flip = static_cast<int32_t>(i % 2)};
    in.labels[i] = static_cast<int32_t>(random.below(kClasses));
    in.edits[i] = {EditKind::brightness, {kEditOne / 2 + static_cast<int32_t>(random.below(kEditOne))}};
    if (!in.index.empty())
      in.index[i] = image;
    else
      std::copy_n(set.begin() + image * bytes, bytes, in.images.begin() + static_cast<int64_t>(i) * bytes);
  }
  *in.dropout_key = {.seed = 5, .step = number, .micro_batch = 0};
}

struct How {
  bool resident = true;
  std::vector<int64_t> ahead = {1};  // micro-batches that are written together, in turn; at most inputs_at_once()
  int64_t dropped = 0;               // of these, the last ones that are written anew
  bool record = true;
  int64_t drained_every = 1;  // steps
  int64_t accumulation = 2;
  bool finishes = false;  // steps, by one call that may leave them to a later one
  int64_t side = kSide;
};

struct Result {
  std::vector<float> weights;
  std::vector<double> losses;
  int64_t at_once = 0;
  size_t copies = 0;  // of the steps
  int64_t steps_at_once = 0;
};

Result train(const How& how, int64_t steps) {
  const auto backend = make_cuda_backend({});
  backend->enter_thread();
  const auto comm = make_solo();
  const Graph graph = build_graph(net, {.batch = kImages,
                                        .height = how.side,
                                        .width = how.side,
                                        .classes = kClasses,
                                        .scale = {0.01f, 0.01f, 0.01f},
                                        .shift = {-1, -1, -1},
                                        .resident_images = how.resident ? kSet : 0,
                                        .edits = 1});
  Engine engine(*backend, *comm,
                lower_training(graph, {.optimizer = optim::Sgd{}, .clip = 1},
                               {.accumulation = static_cast<int>(how.accumulation)}),
                [](int64_t) { return ScheduleRow{.lr = 0.1}; }, {.record = how.record});
  Random random(1, Purpose::init);
  const StateBuffer weights = engine.state().front();
  for (const Range& range : weights.ranges())
    for (float& w : weights(range)) w = static_cast<float>(random.uniform() - 0.5);
  engine.state_written();
  const std::vector<uint8_t> set = training_set(how.side);
  engine.write_images([&](int64_t first, std::span<uint8_t> to) {
    std::copy_n(set.begin() + first * bytes_of(how.side), to.size(), to.begin());
  });

  Result result{.at_once = engine.inputs_at_once()};
  const size_t copied = on_host::copies_between();
  const auto drain = [&] {
    for (const double loss : engine.drain_losses()) result.losses.push_back(loss);
  };
  size_t block = 0;
  int64_t left = 0;
  for (int64_t number = 0; number < steps * how.accumulation; ++number) {
    if (left == 0) {
      const int64_t size = std::min(how.ahead[block++ % how.ahead.size()], result.at_once);
      for (int64_t ahead = 0; ahead < size; ++ahead) write(engine.inputs(ahead), number + ahead, set);
      left = std::max<int64_t>(size - how.dropped, 1);
      EXPECT_EQ(engine.inputs_left(), 0);
    }
    --left;
    const bool last = (number + 1) % how.accumulation == 0;
    if (last && how.finishes) {
      engine.finish_step();
    } else {
      engine.micro_step();
      if (last) engine.update();
    }
    if (last && (number + 1) / how.accumulation % how.drained_every == 0) drain();
  }
  result.steps_at_once = engine.bound().steps_at_once();
  result.copies = on_host::copies_between() - copied;
  drain();
  const StateBuffer trained = engine.state().front();
  for (const Range& range : trained.ranges()) {
    const auto part = trained(range);
    result.weights.insert(result.weights.end(), part.begin(), part.end());
  }
  return result;
}

void expect_same(const Result& a, const Result& b) {
  EXPECT_EQ(a.weights, b.weights);
  EXPECT_EQ(a.losses, b.losses);
}

class Feed : public testing::TestWithParam<on_host::RuntimeOptions::Streams> {
 protected:
  void SetUp() override {
    on_host::restart();
    on_host::runtime_options().streams = GetParam();
  }
  void TearDown() override {
    on_host::runtime_options() = {};
    EXPECT_EQ(on_host::allocated_bytes(), 0u);
  }
};

/// Whole blocks of rows, parts of them, and blocks that are begun anew before their end, as at the end of an epoch. Of
/// short blocks several are written while the device may not have begun with the first one.
TEST_P(Feed, RowsEndInTheBitsOfImages) {
  constexpr int64_t kSteps = 70;
  const Result expected = train({.resident = false, .record = false}, kSteps);
  EXPECT_EQ(expected.at_once, 1);
  EXPECT_EQ(expected.losses.size(), static_cast<size_t>(kSteps * 2));
  const int64_t most = train({}, 1).at_once;
  EXPECT_EQ(most, 64 * 2);
  const std::vector<int64_t> sizes{most, 3, 1, 7, 40};
  const How hows[] = {{.ahead = {1}},
                      {.ahead = {5}, .dropped = 2, .record = false},
                      {.ahead = {most}},
                      {.ahead = sizes},
                      {.ahead = sizes, .dropped = 2, .record = false}};
  for (How how : hows) {
    SCOPED_TRACE(testing::Message() << how.ahead.front() << " of " << how.ahead.size() << " sizes, " << how.dropped
                                    << " dropped" << (how.record ? ", recorded" : ""));
    how.drained_every = 10;
    expect_same(train(how, kSteps), expected);
  }
}

TEST_P(Feed, ABlockOfRowsIsOneCopy) {
  EXPECT_EQ(train({.ahead = {1000}, .drained_every = 10}, 192).copies, 3u);
  EXPECT_EQ(train({.ahead = {20}, .drained_every = 10}, 40).copies, 4u);
  EXPECT_EQ(train({.resident = false, .drained_every = 10}, 40).copies, 0u);  // a kernel reads what is small
}

/// More losses than are kept: the host must wait for the device before a place is used again.
TEST_P(Feed, ValuesThatAreReadLateAreAllThere) {
  constexpr int64_t kSteps = static_cast<int64_t>(kLogSlots) / 2 + 10;
  const Result at_once = train({.ahead = {1000}}, kSteps);
  EXPECT_EQ(at_once.losses.size(), static_cast<size_t>(kSteps * 2));
  expect_same(train({.ahead = {1000}, .drained_every = kSteps}, kSteps), at_once);
}

/// By one replay each, or by fewer where somebody reads what is there, or where rows are written anew.
TEST_P(Feed, StepsThatRunTogetherEndInTheBitsOfSteps) {
  constexpr int64_t kSteps = static_cast<int64_t>(kLogSlots) + 30;
  const auto expect_together = [&](How how, int64_t steps_at_once, int64_t steps = 50) {
    SCOPED_TRACE(testing::Message() << how.ahead.front() << " ahead, " << how.dropped << " dropped, drained every "
                                    << how.drained_every << (how.record ? ", recorded" : ""));
    how.accumulation = 1;
    how.finishes = true;
    const Result expected = train({.ahead = {1000}, .accumulation = 1}, steps), found = train(how, steps);
    EXPECT_EQ(expected.steps_at_once, 1);
    expect_same(found, expected);
    EXPECT_EQ(found.steps_at_once, steps_at_once);
  };
  const std::vector<int64_t> sizes{64, 3, 1, 17, 40};
  expect_together({.ahead = {1000}, .drained_every = kSteps}, 8, kSteps);
  expect_together({.ahead = {1000}, .drained_every = 5}, 8);
  expect_together({.ahead = sizes, .dropped = 2, .drained_every = 100}, 8);
  expect_together({.resident = false, .drained_every = 7}, 8);  // they may, but each brings its own images
  expect_together({.ahead = sizes, .record = false, .drained_every = 20}, 1);
  expect_same(train({.ahead = {1000}, .finishes = true}, 40), train({.ahead = {1000}}, 40));  // two micro-batches each
}

/// They are brought beside the steps before theirs.
TEST_P(Feed, LargeImagesEndInTheBitsOfImagesOnTheDevice) {
  const Result expected = train({.side = kLargeSide}, 8), found = train({.resident = false, .side = kLargeSide}, 8);
  expect_same(found, expected);
  EXPECT_EQ(found.copies, 16u);
  expect_same(train({.resident = false, .record = false, .drained_every = 8, .finishes = true, .side = kLargeSide}, 8),
              expected);
}

/// An upload waits for its block, a step for its upload: each forgotten wait shows. Uploads are two waits each.
TEST(FeedUploads, WithoutAWaitOtherBitsCome) {
  on_host::restart();
  const How how{.resident = false, .record = false, .drained_every = 10, .side = kLargeSide};
  const Result expected = train(how, 10);
  for (const int forgotten : {5, 40}) {  // of the third upload, for the first one's block; of the last step
    on_host::fail_next("cudaStreamWaitEvent", cudaSuccess, forgotten);
    EXPECT_NE(train(how, 10).losses, expected.losses) << forgotten;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Streams, Feed, testing::Values(on_host::RuntimeOptions::Streams::lazy, on_host::RuntimeOptions::Streams::eager),
    [](const auto& info) { return info.param == on_host::RuntimeOptions::Streams::lazy ? "Lazy" : "Eager"; });

}  // namespace
}  // namespace ct::feed_test
