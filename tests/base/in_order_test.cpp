#include "base/in_order.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>

#include "base/error.h"

namespace ct {
namespace {

TEST(InOrder, TakesEverythingOnceInOrderOnThisThread) {
  for (const int threads : {1, 3, 8}) {
    const auto here = std::this_thread::get_id();
    std::atomic<int64_t> made{0};
    int64_t next = 0, most = 0;
    const auto make = [&](int64_t i) {
      if (i % 7 == 0) std::this_thread::sleep_for(std::chrono::microseconds(300));
      ++made;
      return std::make_unique<int64_t>(i * i);  // what can only be moved
    };
    in_order(500, threads, make, [&](int64_t i, std::unique_ptr<int64_t> square) {
      EXPECT_EQ(i, next++);
      EXPECT_EQ(*square, i * i);
      EXPECT_EQ(std::this_thread::get_id(), here);
      most = std::max(most, made - next);
    });
    EXPECT_EQ(next, 500);
    EXPECT_LE(most, 5 * threads);
  }
  in_order(
      0, 2, [](int64_t i) { return i; }, [](int64_t, int64_t) { FAIL(); });
}

TEST(InOrder, OfWhatIsThrownTheFirstComesOut) {
  for (const int threads : {1, 2, 6}) {
    const auto make = [](int64_t i) {
      if (i == 9) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      if (i >= 9) throw std::runtime_error(std::to_string(i));
      return i;
    };
    int64_t taken = 0;
    const auto run = [&] { in_order(100, threads, make, [&](int64_t, int64_t) { ++taken; }); };
    try {
      run();
      ADD_FAILURE() << "nothing was thrown";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "9");
    }
    EXPECT_EQ(taken, 9);
  }
  const auto take = [](int64_t i, int64_t) {
    if (i == 3) throw std::runtime_error("taken");
  };
  EXPECT_THROW(in_order(
                   1000, 4, [](int64_t i) { return i; }, take),
               std::runtime_error);
}

TEST(InOrder, WhereNoThreadCanBeStartedAnErrorSaysSo) {
  pthread_attr_t before, huge;
  ASSERT_EQ(pthread_getattr_default_np(&before), 0);
  ASSERT_EQ(pthread_attr_init(&huge), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&huge, size_t{1} << 47), 0);  // more than there are addresses
  ASSERT_EQ(pthread_setattr_default_np(&huge), 0);
  std::string message;
  try {
    in_order(
        3, 2, [](int64_t i) { return i; }, [](int64_t, int64_t) {});
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::memory);
    message = error.what();
  }
  EXPECT_EQ(pthread_setattr_default_np(&before), 0);
  EXPECT_NE(message.find("no thread can be started"), std::string::npos) << message;
  pthread_attr_destroy(&huge);
  pthread_attr_destroy(&before);
}

}  // namespace
}  // namespace ct
