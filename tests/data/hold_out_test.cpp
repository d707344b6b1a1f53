#include "data/hold_out.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/error.h"

namespace ct {
namespace {

/// Images of the given numbers for each class, in the order of the classes.
class Counted final : public DataSet {
 public:
  explicit Counted(const std::vector<int>& counts) : DataSet("counted", {1, 1, 1}) {
    for (size_t c = 0; c < counts.size(); ++c) {
      class_names_.push_back(str("class-", c));
      labels_.insert(labels_.end(), static_cast<size_t>(counts[c]), static_cast<uint16_t>(c));
    }
  }
  uint32_t fingerprint() const override { return 0; }
  bool read(int64_t, const SampleKey&, uint8_t*) const override { return true; }
};

std::vector<int> counts_of(const DataSet& set, const std::vector<uint32_t>& part) {
  std::vector<int> counts(static_cast<size_t>(set.classes()));
  for (const uint32_t i : part) ++counts[static_cast<size_t>(set.label(i))];
  return counts;
}

HoldOut holding(const std::string& validation, const std::string& test = "", uint64_t seed = 42) {
  return {.seed = seed, .validation = portion_of(validation), .test = portion_of(test)};
}

std::string error_of(const DataSet& set, const HoldOut& how) {
  try {
    divide(set, how);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    return error.what();
  }
  return "";
}

TEST(Portion, IsANumberAPercentageAFoldOrAFolder) {
  using Unit = Portion::Unit;
  for (const auto& [text, unit] : {std::pair{"8", Unit::images},
                                   {"20%", Unit::percent},
                                   {"2/5", Unit::fold},
                                   {"pets/val", Unit::folder},
                                   {"20 pictures", Unit::folder}}) {
    EXPECT_EQ(portion_of(text).unit, unit) << text;
    EXPECT_EQ(to_text(portion_of(text)), text);
    EXPECT_EQ(fault_of(portion_of(text)), "") << text;
  }
  EXPECT_EQ(portion_of("12.5 %"), portion_of("12.5%"));
  EXPECT_TRUE(portion_of("0").empty() && portion_of("").empty());
  for (const char* text : {"-1", "0%", "100%", "0/5", "6/5", "1/1"}) EXPECT_NE(fault_of(portion_of(text)), "") << text;
}

TEST(HoldOut, EveryPartHasTheClassesInProportion) {
  const Counted set({14, 26});
  const Parts parts = divide(set, holding("20%"));
  EXPECT_EQ(counts_of(set, parts.validation), (std::vector{3, 5}));
  EXPECT_EQ(counts_of(set, parts.training), (std::vector{11, 21}));
  EXPECT_TRUE(parts.test.empty());
  const Parts three = divide(set, holding("8", "10%"));
  EXPECT_EQ(counts_of(set, three.test), (std::vector{1, 3}));
  EXPECT_EQ(three.validation.size(), 8u);
  EXPECT_EQ(three.test, divide(set, holding("50%", "10%")).test) << "the test images stay the same";
}

TEST(HoldOut, PartsAreDrawnByTheSeedAndHoldEveryImageOnce) {
  const Counted set({300, 500, 200});
  const Parts parts = divide(set, holding("10%", "25%"));
  std::set<uint32_t> all;
  for (const auto& part : {parts.training, parts.validation, parts.test}) {
    EXPECT_TRUE(std::ranges::is_sorted(part));
    all.insert(part.begin(), part.end());
  }
  EXPECT_EQ(all.size(), 1000u);
  EXPECT_EQ(parts.validation.size(), 100u);
  EXPECT_EQ(parts.test.size(), 250u);
  EXPECT_EQ(divide(set, holding("10%", "25%")).validation, parts.validation);
  EXPECT_NE(divide(set, holding("10%", "25%", 43)).validation, parts.validation);
  EXPECT_EQ(divide(set, {}).training.size(), 1000u);
}

TEST(HoldOut, AClassKeepsAnImageInEveryPartIfItHasEnough) {
  const Counted set({1, 2, 3, 1000});
  const Parts parts = divide(set, holding("1%", "1%"));
  const auto training = counts_of(set, parts.training), validation = counts_of(set, parts.validation),
             test = counts_of(set, parts.test);
  EXPECT_EQ(training[0], 1);
  EXPECT_EQ(training[1], 1);
  EXPECT_EQ(validation[1] + test[1], 1);
  EXPECT_TRUE(training[2] == 1 && validation[2] == 1 && test[2] == 1);
}

TEST(HoldOut, FoldsTileTheImages) {
  const Counted set({7, 11, 5});
  std::vector<uint32_t> all;
  for (const char* fold : {"1/3", "2/3", "3/3"}) {
    const Parts parts = divide(set, holding(fold));
    EXPECT_TRUE(parts.validation.size() == 7 || parts.validation.size() == 8);
    EXPECT_EQ(parts.training.size() + parts.validation.size(), 23u);
    for (const int count : counts_of(set, parts.validation)) EXPECT_GE(count, 1);
    all.insert(all.end(), parts.validation.begin(), parts.validation.end());
  }
  std::ranges::sort(all);
  EXPECT_EQ(all, whole(&set).images);
}

TEST(HoldOut, WhatLeavesAClassWithoutTrainingImagesIsRefused) {
  const Counted set({3, 10});
  EXPECT_EQ(error_of(set, holding("12")),
            "data.validation: holding out 12 of 13 images leaves no image of the class 'class-0' to train on; hold out "
            "at most 11");
  EXPECT_NE(error_of(set, holding("0", "95%")).find("data.test: holding out 12 of 13"), std::string::npos);
  EXPECT_EQ(error_of(set, holding("20%", "9")),
            "data.validation 20% beside data.test 9: holding out 3 of 13 images leaves no image of the class 'class-0' "
            "to train on; lower data.test, or hold out at most 2");
  EXPECT_EQ(counts_of(set, divide(set, holding("11")).training), (std::vector{1, 1}));
  const Counted single({1, 10});
  EXPECT_NE(error_of(single, holding("1/2")).find("data.validation: holding out 1/2 leaves no image of the class"),
            std::string::npos);
  HoldOut limited = holding("2");
  limited.limit = 14;
  EXPECT_NE(error_of(set, limited).find("data.limit: 14 is more than the 13 training images"), std::string::npos);
}

}  // namespace
}  // namespace ct
