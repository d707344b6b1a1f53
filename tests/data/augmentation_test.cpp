#include "data/augmentation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <set>

#include "data/rand_augment.h"

namespace ct {
namespace {

constexpr int kDraws = 100'000, kSide = 32;

/// What images 0, 1, ... of a large set take of one list of steps, each alone in its micro-batch.
class Drawn {
 public:
  explicit Drawn(std::vector<AugmentStep> steps, int height = kSide, int width = kSide, SampleKey key = {42, 3})
      : augmentation_(std::move(steps), height, width), key_(key), edits(static_cast<size_t>(augmentation_.edits())) {}
  const Draw& of(uint32_t image) {
    const auto result = augmentation_.draw({{&image, 1}, key_}, 0, edits);
    moves_ = result.moves;
    return moves_;
  }
  int flips(int images) {
    int count = 0;
    for (int i = 0; i < images; ++i) count += of(static_cast<uint32_t>(i)).flip;
    return count;
  }

 private:
  Augmentation augmentation_;
  SampleKey key_;
  Draw moves_;

 public:
  std::vector<EditDraw> edits;
};

/// Pearson's test: are counts as likely as their shares say? Fails where p is less than 0.001.
void expect_shares(const std::vector<double>& counts, const std::vector<double>& shares, const std::string& what) {
  double total = 0, chi_squared = 0;
  for (const double count : counts) total += count;
  for (size_t i = 0; i < counts.size(); ++i) {
    const double expected = shares[i] * total;
    ASSERT_GE(expected, 5) << what << " " << i;
    chi_squared += (counts[i] - expected) * (counts[i] - expected) / expected;
  }
  // The critical value by Wilson and Hilferty's cube.
  const double freedom = static_cast<double>(counts.size() - 1), ninth = 2 / (9 * freedom);
  EXPECT_LT(chi_squared, freedom * std::pow(1 - ninth + 3.0902 * std::sqrt(ninth), 3)) << what;
}
void expect_even(const std::vector<double>& counts, const std::string& what) {
  expect_shares(counts, std::vector<double>(counts.size(), 1 / static_cast<double>(counts.size())), what);
}
/// Values in [0, 1) by the distribution function of what they should be: 20 parts that are equally likely.
class Even {
 public:
  void add(double probability) { ++counts_[std::min<size_t>(static_cast<size_t>(probability * 20), 19)]; }
  void expect(const std::string& what) const { expect_even(counts_, what); }

 private:
  std::vector<double> counts_ = std::vector<double>(20);
};

TEST(Augmentation, CropsCoverTheirRangeEvenly) {
  Drawn drawn({RandomCrop{.padding = 4}});
  std::vector<double> dy(9), dx(9);
  for (uint32_t image = 0; image < kDraws; ++image) {
    const Draw& draw = drawn.of(image);
    ASSERT_LE(std::abs(draw.dy), 4);
    ASSERT_LE(std::abs(draw.dx), 4);
    EXPECT_EQ(draw.flip, 0);
    ++dy[static_cast<size_t>(draw.dy + 4)];
    ++dx[static_cast<size_t>(draw.dx + 4)];
  }
  expect_even(dy, "dy");
  expect_even(dx, "dx");
}

TEST(Augmentation, FlipsFollowTheirProbability) {
  EXPECT_EQ(Drawn({Flip{0}}).flips(1000), 0);
  EXPECT_EQ(Drawn({Flip{1}}).flips(1000), 1000);
  for (const double p : {0.25, 0.3}) {
    const double flips = Drawn({Flip{p}}).flips(kDraws);
    expect_shares({flips, kDraws - flips}, {p, 1 - p}, "flips");
  }
}

TEST(Augmentation, CropsAndFlipsAreKeyedByEpochAndImageAndCompose) {
  const AugmentStep crop = RandomCrop{.padding = 4}, mirror = Flip{1};
  const auto draw = [](std::vector<AugmentStep> steps, uint64_t seed, int64_t epoch, uint32_t image) {
    const Draw d = Drawn(std::move(steps), kSide, kSide, {seed, epoch}).of(image);
    return std::array<int, 3>{d.dy, d.dx, d.flip};
  };
  EXPECT_EQ(draw({}, 1, 1, 1), (std::array<int, 3>{0, 0, 0}));
  EXPECT_EQ(draw({crop, mirror}, 1, SampleKey::kEvaluation, 1), (std::array<int, 3>{0, 0, 0}));
  int same_epoch = 0, same_image = 0, same_seed = 0;
  for (uint32_t i = 0; i < 100; ++i) {
    const auto one = draw({crop}, 1, 1, i);
    EXPECT_EQ(one, draw({crop}, 1, 1, i));
    same_epoch += one == draw({crop}, 1, 2, i);
    same_image += one == draw({crop}, 1, 1, i + 1);
    same_seed += one == draw({crop}, 2, 1, i);
    // crop, then flip: the crop as it is; flip, then crop: it moves the mirrored image.
    EXPECT_EQ(draw({crop, mirror}, 1, 1, i), (std::array<int, 3>{one[0], one[1], 1}));
    const auto unflipped = draw({mirror, mirror, crop}, 1, 1, i);
    EXPECT_EQ(unflipped[2], 0);
    const auto flipped = draw({Flip{0}, mirror, crop}, 1, 1, i);
    EXPECT_EQ(flipped, (std::array<int, 3>{unflipped[0], -unflipped[1], 1}));
  }
  EXPECT_LT(same_epoch, 10);
  EXPECT_LT(same_image, 10);
  EXPECT_LT(same_seed, 10);
}

/// Part of every result: they must never change.
TEST(Augmentation, CropsAndFlipsKeepTheirDraws) {
  const auto drawn = [](std::vector<AugmentStep> steps, uint32_t image) {
    const Draw d = Drawn(std::move(steps)).of(image);
    return std::array<int, 3>{d.dy, d.dx, d.flip};
  };
  Random random(42, Purpose::augment, uint64_t{3} << 32 | 7, 0);
  const int dy = static_cast<int>(random.below(9)) - 4, dx = static_cast<int>(random.below(9)) - 4;
  const int flip = random.uniform() < 0.5;
  EXPECT_EQ(drawn({RandomCrop{}, Flip{}}, 7), (std::array<int, 3>{dy, dx, flip}));
  // Steps between them, which make edits of what was moved before, draw from elsewhere.
  Drawn with_edits({RandomCrop{}, Cutout{}, Flip{}});
  EXPECT_EQ(with_edits.of(7).flip, flip);
  ASSERT_EQ(with_edits.edits.size(), 2u);
  EXPECT_EQ(with_edits.edits[0].kind, EditKind::move);
  EXPECT_EQ(with_edits.edits[0].at, (std::array<int32_t, 7>{dy, dx, 0}));
}

TEST(Augmentation, AlternatingFlipsMirrorEveryOtherEpoch) {
  const auto flip = [](uint32_t image, int64_t epoch) {
    return Drawn({AlternatingFlip{}}, kSide, kSide, {7, epoch}).of(image).flip;
  };
  double first = 0;
  for (uint32_t image = 0; image < 2000; ++image) {
    const int even = flip(image, 0);
    first += even;
    EXPECT_EQ(flip(image, 1), 1 - even);
    EXPECT_EQ(flip(image, 2), even);
    EXPECT_EQ(flip(image, 99), 1 - even);
  }
  expect_even({first, 2000 - first}, "mirrored in even epochs");
}

/// Of a large image, where rounding to pixels does not show and every box that is drawn fits.
TEST(Augmentation, RandomResizedCropsFollowTheirDistributions) {
  constexpr int kLarge = 1000;
  Drawn drawn({RandomResizedCrop{.scale = {0.25, 0.6}, .ratio = {0.9, 1.1}}}, kLarge, kLarge);
  Even area, ratio, x, y;
  for (uint32_t image = 0; image < kDraws; ++image) {
    drawn.of(image);
    const auto& [kind, box] = drawn.edits[0];
    ASSERT_EQ(kind, EditKind::resized_crop);
    const double width = box[2], height = box[3];
    ASSERT_TRUE(box[0] >= 0 && box[1] >= 0 && box[0] + box[2] <= kLarge && box[1] + box[3] <= kLarge);
    const auto unit = [](double at) { return std::clamp(at, 0.0, 0.999999); };
    // Sides are rounded to thousandths, within which they are spread here so that parts are equally likely.
    Random spread(1, Purpose::augment, image);
    const double w = width + spread.uniform() - 0.5, h = height + spread.uniform() - 0.5;
    area.add(unit((w * h / kLarge / kLarge - 0.25) / 0.35));
    ratio.add(unit(std::log(w / h / 0.9) / std::log(1.1 / 0.9)));
    x.add(unit((box[0] + spread.uniform()) / (kLarge - width + 1)));
    y.add(unit((box[1] + spread.uniform()) / (kLarge - height + 1)));
  }
  area.expect("area");
  ratio.expect("ratio");
  x.expect("x");
  y.expect("y");
}

TEST(Augmentation, CutoutsLieAroundEveryPixel) {
  Drawn drawn({Cutout{.length = 7}}, 8, 10);
  std::vector<double> x(10), y(8);
  for (uint32_t image = 0; image < kDraws; ++image) {
    drawn.of(image);
    const auto& [kind, at] = drawn.edits[0];
    ASSERT_EQ(kind, EditKind::blend);
    EXPECT_EQ(at[4], -1);
    EXPECT_EQ(at[5], kEditOne);
    // The last pixel of three before the middle, itself and three after it.
    const int middle_x = at[0] > 0 ? at[0] + 3 : at[2] - 4, middle_y = at[1] > 0 ? at[1] + 3 : at[3] - 4;
    EXPECT_EQ(at[2], std::min(middle_x + 4, 10) - std::max(middle_x - 3, 0));
    EXPECT_EQ(at[3], std::min(middle_y + 4, 8) - std::max(middle_y - 3, 0));
    ++x[static_cast<size_t>(middle_x)], ++y[static_cast<size_t>(middle_y)];
  }
  expect_even(x, "x");
  expect_even(y, "y");
}

TEST(Augmentation, ColorJitterTakesEveryOrderAndFactor) {
  Drawn drawn({ColorJitter{.brightness = 0.4, .contrast = 1.5, .saturation = 0.1, .hue = 0.2}}, kSide, kSide, {7, 0});
  ASSERT_EQ(drawn.edits.size(), 4u);
  std::map<std::vector<EditKind>, double> orders;
  Even brightness, contrast, saturation;
  std::vector<double> hue(101);
  for (uint32_t image = 0; image < kDraws; ++image) {
    drawn.of(image);
    std::vector<EditKind> order;
    for (const auto& [kind, at] : drawn.edits) {
      order.push_back(kind);
      const double factor = at[0] / static_cast<double>(kEditOne);
      if (kind == EditKind::brightness) brightness.add((factor - 0.6) / 0.8);
      if (kind == EditKind::contrast) contrast.add(factor / 2.5);  // from 0 on, not from -0.5
      if (kind == EditKind::saturation) saturation.add((factor - 0.9) / 0.2);
      if (kind == EditKind::hue) ++hue[static_cast<size_t>(at[0] < 128 ? at[0] + 50 : at[0] - 206)];
    }
    ++orders[order];
  }
  ASSERT_EQ(orders.size(), 24u);
  std::vector<double> counts;
  for (const auto& [order, count] : orders) counts.push_back(count);
  expect_even(counts, "orders");
  brightness.expect("brightness");
  contrast.expect("contrast");
  saturation.expect("saturation");
  // From -51 to 51, cut off to whole numbers: twice as often 0, and never 51.
  std::vector<double> shares(101, 1.0 / 102);
  shares[50] = 2.0 / 102;
  expect_shares(hue, shares, "hue");
  EXPECT_EQ(Drawn({ColorJitter{.brightness = 0, .contrast = 0.3, .saturation = 0}}).edits.size(), 1u);
}

TEST(Augmentation, RandAugmentTakesEveryOperation) {
  Drawn drawn({RandAugment{.num_ops = 2, .magnitude = 10, .num_magnitude_bins = 11}}, 20, 40);
  ASSERT_EQ(drawn.edits.size(), 2u);
  using Seen = std::pair<EditKind, std::array<int32_t, 7>>;
  std::map<Seen, double> seen;
  for (uint32_t image = 0; image < kDraws / 2; ++image) {
    drawn.of(image);
    for (const auto& [kind, at] : drawn.edits) ++seen[{kind, at}];
  }
  // Five operations have one direction, nine have two.
  ASSERT_EQ(seen.size(), 5u + 2 * 9);
  std::map<Seen, double> expected;
  for (int which = 0; which < kRandAugmentOperations; ++which)
    for (const bool negative : {false, true}) {
      const EditDraw edit = rand_augment_edit(which, 1, negative, 20, 40);
      expected[{edit.kind, edit.at}] += 1.0 / 28;
    }
  std::vector<double> counts, shares;
  for (const auto& [what, count] : seen) {
    ASSERT_TRUE(expected.contains(what)) << static_cast<int>(what.first);
    counts.push_back(count);
    shares.push_back(expected.at(what));
  }
  expect_shares(counts, shares, "operations");
}

/// The numbers of torchvision's operations at magnitude 9 of 31, 32x32.
TEST(Augmentation, RandAugmentHasTheNumbersOfTorchvision) {
  const auto edit = [](int which, bool negative) { return rand_augment_edit(which, 9 / 30.0, negative, 32, 32); };
  const auto expect = [](const EditDraw& made, EditKind kind, std::array<int32_t, 7> at) {
    EXPECT_EQ(made.kind, kind);
    EXPECT_EQ(made.at, at) << static_cast<int>(kind);
  };
  const int32_t one = kEditOne, half = one / 2;
  expect(edit(0, false), EditKind::none, {});
  // Shear by 0.09: x comes from x + 0.09 y, from the pixels' middles.
  expect(edit(1, false), EditKind::affine, {one, 5898, half + 2949, 0, one, half});
  expect(edit(2, true), EditKind::affine, {one, 0, half, -5898, one, half - 2949});
  // 150 / 331 * 32 * 0.3 = 4.35 pixels, cut off to 4.
  expect(edit(3, false), EditKind::affine, {one, 0, half - 4 * one, 0, one, half});
  expect(edit(4, true), EditKind::affine, {one, 0, half, 0, one, half + 4 * one});
  const EditDraw turned = edit(5, false);  // by 9 degrees against the clock
  EXPECT_EQ(turned.kind, EditKind::affine);
  EXPECT_NEAR(turned.at[0], one * std::cos(9 * std::numbers::pi / 180), 1);
  EXPECT_NEAR(turned.at[1], -one * std::sin(9 * std::numbers::pi / 180), 1);
  EXPECT_NEAR(turned.at[3], -turned.at[1], 1);
  expect(edit(6, false), EditKind::brightness, {static_cast<int32_t>(std::lround(1.27 * one))});
  expect(edit(7, true), EditKind::saturation, {static_cast<int32_t>(std::lround(0.73 * one))});
  expect(edit(8, true), EditKind::contrast, {static_cast<int32_t>(std::lround(0.73 * one))});
  expect(edit(9, false), EditKind::sharpness, {static_cast<int32_t>(std::lround(1.27 * one))});
  expect(edit(10, false), EditKind::posterize, {7});
  expect(edit(11, true), EditKind::solarize, {179});  // 178.5
  expect(edit(12, false), EditKind::auto_contrast, {});
  expect(edit(13, true), EditKind::equalize, {});
}

/// What a whole micro-batch takes.
struct Mixed {
  Mixed(std::vector<AugmentStep> steps, std::vector<uint32_t> images, int64_t epoch = 1) {
    const Augmentation augmentation(std::move(steps), kSide, kSide);
    const auto count = static_cast<size_t>(augmentation.edits());
    edits.resize(images.size() * count);
    for (size_t i = 0; i < images.size(); ++i)
      mixes.push_back(augmentation.draw({images, {42, epoch}}, i, std::span(edits).subspan(i * count, count)).mix);
  }
  std::vector<EditDraw> edits;
  std::vector<Mix> mixes;
};
std::vector<uint32_t> some_images(uint32_t first) { return {first, first + 1, first + 2, first + 3, first + 4}; }

TEST(Augmentation, PartnersAreAllOthersAlike) {
  for (const AugmentStep& step : {AugmentStep(Mixup{}), AugmentStep(Cutmix{})}) {
    std::vector<double> counts(20);
    for (uint32_t first = 0; first < kDraws; first += 5) {
      const Mixed drawn({step}, some_images(first));
      for (size_t i = 0; i < 5; ++i) {
        const auto partner = static_cast<size_t>(drawn.mixes[i].partner);
        ASSERT_TRUE(partner < 5 && partner != i);
        EXPECT_EQ(drawn.edits[i].at[4], drawn.mixes[i].partner);
        ++counts[4 * i + partner - (partner > i)];
      }
    }
    expect_even(counts, std::string(name_of(step)));
  }
}

TEST(Augmentation, SharesOfMixupAreBetaNumbers) {
  const std::pair<double, double (*)(double)> distributions[] = {
      {1, [](double x) { return x; }},
      {0.5, [](double x) { return 2 / std::numbers::pi * std::asin(std::sqrt(x)); }},
      {2, [](double x) { return x * x * (3 - 2 * x); }}};
  for (const auto& [alpha, distribution] : distributions) {
    Even shares;
    for (uint32_t first = 0; first < kDraws; first += 5) {
      const Mixed drawn({Mixup{.alpha = alpha}}, some_images(first));
      for (size_t i = 0; i < 5; ++i) {
        const float share = drawn.mixes[i].share;
        ASSERT_TRUE(share >= 0 && share <= 1);
        EXPECT_EQ(drawn.edits[i].at[5], static_cast<int32_t>(share * kEditOne));
        EXPECT_EQ(drawn.edits[i].at[2], kSide);
        shares.add(distribution(share));
      }
    }
    shares.expect("alpha " + std::to_string(alpha));
  }
  for (const double alpha : {1e-9, 100.0})  // all or nothing; close to a half
    for (const Mix& mix : Mixed({Mixup{.alpha = alpha}}, some_images(9)).mixes)
      EXPECT_LE(alpha < 1 ? std::min(mix.share, 1 - mix.share) : std::abs(mix.share - 0.5f), alpha < 1 ? 0 : 0.2f);
}

TEST(Augmentation, BoxesOfCutmixAreTheirShareOfTheLabel) {
  // Of a uniform area, a half side is n pixels where the root of the area lies between n and n + 1 sixteenths; the box
  // lies around any pixel and is cut off at the border.
  constexpr int kHalf = kSide / 2;
  std::map<std::pair<int, int>, size_t> number_of;  // by where a side begins and ends
  std::vector<double> shares;
  for (int n = 0; n < kHalf; ++n)
    for (int middle = 0; middle < kSide; ++middle) {
      const auto [at, is_new] =
          number_of.try_emplace({std::max(middle - n, 0), std::min(middle + n, kSide)}, shares.size());
      if (is_new) shares.push_back(0);
      shares[at->second] += (2 * n + 1) / double{kHalf * kHalf * kSide};
    }
  std::vector<double> columns(shares.size()), rows(shares.size());
  for (uint32_t first = 0; first < kDraws; first += 5) {
    const Mixed drawn({Cutmix{}}, some_images(first));
    for (size_t i = 0; i < 5; ++i) {
      const auto& at = drawn.edits[i].at;
      EXPECT_EQ(drawn.edits[i].kind, EditKind::blend);
      EXPECT_EQ(drawn.mixes[i].share, static_cast<float>(at[2] * at[3]) / (kSide * kSide));
      EXPECT_EQ(at[5], kEditOne);
      const std::pair column{at[0], at[0] + at[2]}, row{at[1], at[1] + at[3]};
      ASSERT_TRUE(number_of.contains(column) && number_of.contains(row)) << first;
      ++columns[number_of[column]], ++rows[number_of[row]];
      const auto whole = [](const auto& side) { return side.first > 0 && side.second < kSide; };
      if (whole(column) && whole(row)) {
        EXPECT_EQ(at[2], at[3]);
      }
    }
  }
  expect_shares(columns, shares, "columns");
  expect_shares(rows, shares, "rows");
}

TEST(Augmentation, AMicroBatchIsMixedOnceOrNotAtAll) {
  std::vector<double> counts(3);  // none, mixup, cutmix
  for (uint32_t first = 0; first < kDraws; first += 5) {
    const Mixed drawn({Mixup{.p = 0.4}, Cutmix{.p = 0.5}}, some_images(first));
    const bool mixup = drawn.edits[0].kind == EditKind::blend, cutmix = drawn.edits[1].kind == EditKind::blend;
    ASSERT_FALSE(mixup && cutmix);
    for (size_t i = 0; i < 5; ++i) {
      EXPECT_EQ(drawn.edits[2 * i].kind == EditKind::blend, mixup);
      EXPECT_EQ(drawn.edits[2 * i + 1].kind == EditKind::blend, cutmix);
      EXPECT_EQ(drawn.mixes[i].partner >= 0, mixup || cutmix);
      if (!mixup && !cutmix) {
        EXPECT_EQ(drawn.mixes[i].share, 0);
      }
    }
    ++counts[mixup ? 1 : cutmix ? 2 : 0];
  }
  expect_shares(counts, {0.3, 0.4, 0.3}, "mixed");
}

/// The same step at two places of the list draws twice; neighbours change nothing of what is drawn at a place.
TEST(Augmentation, StepsDrawByTheirPlaceInTheList) {
  Drawn two({Cutout{}, Cutout{}}), later({ColorJitter{}, Cutout{}});
  int same = 0;
  for (uint32_t image = 0; image < 100; ++image) {
    two.of(image), later.of(image);
    same += two.edits[0].at == two.edits[1].at;
    EXPECT_EQ(two.edits[1].at, later.edits.back().at);
  }
  EXPECT_LT(same, 10);
}

/// Pictures that were cropped where they were decoded: the others keep their places.
TEST(Augmentation, ACropThatWasDoneIsLeftOut) {
  const std::vector<AugmentStep> steps = {Flip{}, RandomResizedCrop{}, Cutout{}, Flip{}};
  const Augmentation whole(steps, kSide, kSide), rest(steps, kSide, kSide, /*cropped=*/true);
  ASSERT_EQ(whole.edits(), 3);
  ASSERT_EQ(rest.edits(), 2);
  for (uint32_t image = 0; image < 50; ++image) {
    std::vector<EditDraw> a(3), b(2);
    const auto one = whole.draw({{&image, 1}, {1, 2}}, 0, a), other = rest.draw({{&image, 1}, {1, 2}}, 0, b);
    EXPECT_EQ(a[0].at, b[0].at);
    EXPECT_EQ(a[2].at, b[1].at);
    EXPECT_EQ(one.moves.flip, other.moves.flip);
  }
}

TEST(Augmentation, EveryStepIsFoundByItsName) {
  const std::vector<std::string> names = augment_step_names();
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), std::variant_size_v<AugmentStep>);
  for (const std::string& name : names) {
    AugmentStep step = augment_step(name);
    EXPECT_EQ(name_of(step), name);
    EXPECT_FALSE(fault_of(step)) << name;
  }
}

}  // namespace
}  // namespace ct
