#include "metrics/log_format.h"

#include <gtest/gtest.h>

namespace ct {
namespace {

constexpr LossLine kLine{.epoch = 0, .micro_batches = 2000, .step = 1000, .mean = 2.2577, .ema = 2.30259};

TEST(LogFormat, OfTheTutorial) {
  EXPECT_EQ(loss_line(LogFormat::tutorial, kLine), "[1,  2000] loss: 2.258");
  EXPECT_EQ(loss_line(LogFormat::tutorial, {.epoch = 1, .micro_batches = 12000, .mean = 0.5}),
            "[2, 12000] loss: 0.500");
  EXPECT_EQ(accuracy_line(5599, 10000, "test"), "Accuracy of the network on the 10000 test images: 55 %");
  EXPECT_EQ(accuracy_line(0, 0, "test"), "Accuracy of the network on the 0 test images: 0 %");
  EXPECT_EQ(class_accuracy_line("plane", 3, 4), "Accuracy of plane : 75 %");
  EXPECT_EQ(class_accuracy_line("cat", 1, 20), "Accuracy of   cat :  5 %");
  EXPECT_EQ(class_accuracy_line("cat", 0, 0), "Accuracy of   cat : no images");
}

TEST(LogFormat, PercentagesAreRounded) {
  EXPECT_EQ(percent(0.61599), "61.60 %");
  EXPECT_EQ(percent(0.61551, 1), "61.6 %");
  EXPECT_EQ(percent(1, 0), "100 %");
}

/// Python's f"[{1 : d}, {2000 : 5d}] loss: {2.2577 : .3f}", f"{55.99 : .0f}" and f"{5.0 : 2.0f}".
TEST(LogFormat, OfDeepSpeedsExample) {
  constexpr LogFormat kFormat = LogFormat::example;
  EXPECT_EQ(loss_line(kFormat, kLine), "[ 1,  2000] loss:  2.258");
  EXPECT_EQ(loss_line(kFormat, {.epoch = 9, .micro_batches = 12000, .mean = 0.5}), "[ 10,  12000] loss:  0.500");
  EXPECT_EQ(accuracy_line(5599, 10000, "test", kFormat), "Accuracy of the network on the 10000 test images:  56 %");
  EXPECT_EQ(accuracy_line(0, 0, "test", kFormat), "Accuracy of the network on the 0 test images:  0 %");
  EXPECT_EQ(class_accuracy_line("car", 71, 100, kFormat), "Accuracy of   car :  71 %");
  EXPECT_EQ(class_accuracy_line("cat", 1, 20, kFormat), "Accuracy of   cat :  5 %");
}

/// Python's ">>> epoch: {:5}, step: {:7}, loss: {:2.4f}".
TEST(LogFormat, OfAMovingAverage) {
  EXPECT_EQ(loss_line(LogFormat::ema_loss, kLine), ">>> epoch:     0, step:    1000, loss: 2.3026");
  EXPECT_EQ(loss_line(LogFormat::ema_loss, {.epoch = 99, .step = 1250000, .ema = 0.03}),
            ">>> epoch:    99, step: 1250000, loss: 0.0300");
  EXPECT_EQ(accuracy_line(3, 4, "val", LogFormat::ema_loss), "Accuracy of the network on the 4 val images: 75 %");
}

TEST(EmaLoss, BeginsAtZeroWithoutACorrection) {
  double ema = 0;
  for (int step = 0; step < 3; ++step) ema = next_ema_loss(ema, 2);
  EXPECT_DOUBLE_EQ(ema, 2 * (1 - 0.9 * 0.9 * 0.9));
}

}  // namespace
}  // namespace ct
