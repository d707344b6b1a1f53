#include "data/augmentation.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "data/pictures/transform.h"
#include "data/rand_augment.h"

namespace ct {
namespace {

const ConfigRule kProbability{.min = 0, .max = 1};
const ConfigRule kStrength{.min = 0, .max = 10};
const ConfigRule kAlpha{.min = 0.001, .max = 100};

template <class Step>
constexpr bool kMoves =
    std::is_same_v<Step, RandomCrop> || std::is_same_v<Step, Flip> || std::is_same_v<Step, AlternatingFlip>;
template <class Step>
constexpr bool kMixes = std::is_same_v<Step, Mixup> || std::is_same_v<Step, Cutmix>;

std::array<std::pair<EditKind, double>, 4> strengths(const ColorJitter& s) {
  return {{{EditKind::brightness, s.brightness},
           {EditKind::contrast, s.contrast},
           {EditKind::saturation, s.saturation},
           {EditKind::hue, s.hue}}};
}

/// Edits of an image that a step makes by itself.
template <class Step>
int edits_of_step(const Step& step) {
  if constexpr (std::is_same_v<Step, ColorJitter>) {
    const auto all = strengths(step);
    return static_cast<int>(std::ranges::count_if(all, [](const auto& one) { return one.second > 0; }));
  } else if constexpr (std::is_same_v<Step, RandAugment>) {
    return static_cast<int>(step.num_ops);
  } else {
    return kMoves<Step> ? 0 : 1;
  }
}

/// The logarithm of a Gamma(shape, 1) number (Marsaglia & Tsang, 2000): small shapes make numbers too small for double.
double log_gamma_number(Random& random, double shape) {
  if (shape < 1) {
    const double u = 1 - random.uniform();
    return log_gamma_number(random, shape + 1) + std::log(u) / shape;
  }
  const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = random.normal(), root = 1 + c * x, v = root * root * root;
    const double u = 1 - random.uniform();
    if (v > 0 && std::log(u) < 0.5 * x * x + d - d * v + d * std::log(v)) return std::log(d * v);
  }
}

/// Beta(alpha, alpha).
double beta_number(Random& random, double alpha) {
  const double a = log_gamma_number(random, alpha), b = log_gamma_number(random, alpha);
  return 1 / (1 + std::exp(b - a));
}

/// The part of [middle - before, middle + after) that lies in [0, size).
struct Span {
  int begin, end;
  int size() const { return end - begin; }
};
Span around(int middle, int before, int after, int size) {
  return {std::max(middle - before, 0), std::min(middle + after, size)};
}

EditDraw blend(const Span& x, const Span& y, int partner, int share) {
  return {EditKind::blend, {x.begin, y.begin, x.size(), y.size(), partner, share}};
}

/// What one image takes, step by step.
class Drawing {
 public:
  Drawing(const SampleList& micro_batch, size_t place, int height, int width, std::span<EditDraw> edits)
      : key_(micro_batch.key_of(place)),
        micro_batch_(micro_batch),
        place_(place),
        height_(height),
        width_(width),
        edits_(edits),
        moving_(draws_of(key_, image(), kMovePlace)) {}

  template <class Step>
  void take(const Step& step, uint32_t number) {
    if constexpr (kMoves<Step>)
      move(step, number);
    else
      edit(step, number);
    moved_ = kMoves<Step>;
  }
  Augmentation::Result result() const { return {moves_, mix_}; }

 private:
  uint32_t image() const { return micro_batch_.images[place_]; }
  Random draws(uint32_t number) const { return draws_of(key_, image(), kFirstStepPlace + number); }
  void add(const EditDraw& edit) { edits_[made_++] = edit; }

  void move(const RandomCrop& step, uint32_t) {
    const auto padding = static_cast<int>(step.padding);
    const int dy = static_cast<int>(moving_.below(static_cast<uint32_t>(2 * padding + 1))) - padding;
    const int dx = static_cast<int>(moving_.below(static_cast<uint32_t>(2 * padding + 1))) - padding;
    moves_.dy += dy;
    moves_.dx += moves_.flip ? -dx : dx;
  }
  void move(const Flip& step, uint32_t) { moves_.flip ^= moving_.uniform() < step.p; }
  void move(const AlternatingFlip&, uint32_t number) {
    Random random = draws_of({key_.seed, 0}, image(), kFirstStepPlace + number);
    moves_.flip ^= static_cast<int32_t>((random.below(2) + static_cast<uint64_t>(key_.epoch) + key_.repeat) % 2);
  }

  /// What was moved before comes first.
  template <class Step>
  void edit(const Step& step, uint32_t number) {
    if (moved_) {
      add({EditKind::move, {moves_.dy, moves_.dx, moves_.flip}});
      moves_ = {};
    }
    if constexpr (kMixes<Step>)
      mix(step, number);
    else
      change(step, draws(number));
  }

  void change(const RandomResizedCrop& step, Random random) {
    const Window box = random_window(step, {width_, height_}, random);
    add({EditKind::resized_crop, {box.x, box.y, box.width, box.height}});
  }
  void change(const Cutout& step, Random random) {
    const auto y = static_cast<int>(random.below(static_cast<uint32_t>(height_)));
    const auto x = static_cast<int>(random.below(static_cast<uint32_t>(width_)));
    const auto length = static_cast<int>(step.length), half = length / 2;
    add(blend(around(x, half, length - half, width_), around(y, half, length - half, height_), -1, kEditOne));
  }
  void change(const ColorJitter& step, Random random) {
    std::array<EditDraw, 4> edits;
    uint32_t count = 0;
    for (const auto& [kind, strength] : strengths(step)) {
      const double uniform = random.uniform();
      if (strength == 0) continue;
      if (kind == EditKind::hue) {
        const auto shift = static_cast<int>(255 * strength * (2 * uniform - 1));
        edits[count++] = {kind, {shift & 255}};
      } else {
        const double low = std::max(0.0, 1 - strength), factor = low + uniform * (1 + strength - low);
        edits[count++] = {kind, {static_cast<int32_t>(std::lround(factor * kEditOne))}};
      }
    }
    for (uint32_t i = 0; i < count; ++i) {
      std::swap(edits[i], edits[i + random.below(count - i)]);
      add(edits[i]);
    }
  }
  void change(const RandAugment& step, Random random) {
    const double strength = static_cast<double>(step.magnitude) / static_cast<double>(step.num_magnitude_bins - 1);
    for (int64_t i = 0; i < step.num_ops; ++i) {
      const auto which = static_cast<int>(random.below(kRandAugmentOperations));
      add(rand_augment_edit(which, strength, random.below(2) == 1, height_, width_));
    }
  }

  /// All images of a micro-batch are mixed, or none, and once: a partner is never itself a mixture.
  template <class Step>
  void mix(const Step& step, uint32_t number) {
    Random of_all = draws_of(micro_batch_.key_of(0), micro_batch_.images.front(), kFirstStepPlace + number);
    const bool mixes = of_all.uniform() < step.p && !mixed_;
    mixed_ = mixed_ || mixes;
    if (!mixes) return add({});
    Random random = draws(number);
    random.uniform();  // the first image's is that of all
    mix_.partner = static_cast<int32_t>(random.below(static_cast<uint32_t>(micro_batch_.images.size() - 1)));
    mix_.partner += mix_.partner >= static_cast<int32_t>(place_);
    add(mixture(step, random));
  }
  EditDraw mixture(const Mixup& step, Random& random) {
    const auto share = static_cast<int>(std::lround(beta_number(random, step.alpha) * kEditOne));
    mix_.share = static_cast<float>(share) / kEditOne;
    return blend({0, width_}, {0, height_}, mix_.partner, share);
  }
  EditDraw mixture(const Cutmix& step, Random& random) {
    const double half = 0.5 * std::sqrt(beta_number(random, step.alpha));
    const auto half_width = static_cast<int>(half * width_), half_height = static_cast<int>(half * height_);
    const auto middle_x = static_cast<int>(random.below(static_cast<uint32_t>(width_)));
    const auto middle_y = static_cast<int>(random.below(static_cast<uint32_t>(height_)));
    const Span x = around(middle_x, half_width, half_width, width_);
    const Span y = around(middle_y, half_height, half_height, height_);
    mix_.share = static_cast<float>(x.size() * y.size()) / static_cast<float>(width_ * height_);
    return blend(x, y, mix_.partner, kEditOne);
  }

  const SampleKey key_;
  const SampleList& micro_batch_;
  const size_t place_;
  const int height_, width_;
  const std::span<EditDraw> edits_;
  Random moving_;
  Draw moves_;
  Mix mix_;
  size_t made_ = 0;
  bool moved_ = false, mixed_ = false;
};

template <size_t... I>
std::vector<AugmentStep> all_steps(std::index_sequence<I...>) {
  return {AugmentStep(std::in_place_index<I>)...};
}
std::vector<AugmentStep> all_steps() { return all_steps(std::make_index_sequence<std::variant_size_v<AugmentStep>>()); }

/// Is it left to the data set?
bool is_done(const AugmentStep& step, bool cropped) {
  return cropped && std::holds_alternative<RandomResizedCrop>(step);
}

}  // namespace

std::vector<ConfigKey> RandomCrop::keys() {
  return {{"padding", &padding, "pixels on each side", {.min = 0, .max = 16}}};
}
std::vector<ConfigKey> Flip::keys() { return {{"p", &p, "probability", kProbability}}; }
std::vector<ConfigKey> RandomResizedCrop::keys() {
  return {{"scale", &scale, "share of the area", {.min = 0, .max = 1, .above_min = true}},
          {"ratio", &ratio, "width divided by height", {.min = 0.01, .max = 100}}};
}
std::vector<ConfigKey> Cutout::keys() { return {{"length", &length, "side in pixels", {.min = 1, .max = 2048}}}; }
std::vector<ConfigKey> ColorJitter::keys() {
  return {{"brightness", &brightness, "0: none", kStrength},
          {"contrast", &contrast, "likewise", kStrength},
          {"saturation", &saturation, "likewise", kStrength},
          {"hue", &hue, "share of the colour circle; 0: none", {.min = 0, .max = 0.5}}};
}
std::vector<ConfigKey> RandAugment::keys() {
  return {{"num_ops", &num_ops, "operations on each image", {.min = 1, .max = 14}},
          {"magnitude", &magnitude, "from 0 to num_magnitude_bins - 1", {.min = 0, .max = 999}},
          {"num_magnitude_bins", &num_magnitude_bins, "number of magnitudes", {.min = 2, .max = 1000}}};
}
std::vector<ConfigKey> Mixup::keys() {
  return {{"alpha", &alpha, "of Beta(alpha, alpha)", kAlpha}, {"p", &p, "of a micro-batch", kProbability}};
}
std::vector<ConfigKey> Cutmix::keys() {
  return {{"alpha", &alpha, "of Beta(alpha, alpha)", kAlpha}, {"p", &p, "of a micro-batch", kProbability}};
}

std::vector<std::string> augment_step_names() {
  std::vector<std::string> names;
  for (const AugmentStep& step : all_steps()) names.emplace_back(name_of(step));
  return names;
}
AugmentStep augment_step(std::string_view name) {
  for (const AugmentStep& step : all_steps())
    if (name_of(step) == name) return step;
  fail(ExitCode::bug, "no step is called ", name);
}
std::string_view name_of(const AugmentStep& step) {
  return std::visit([](const auto& s) { return s.kName; }, step);
}
std::vector<ConfigKey> keys_of(AugmentStep& step) {
  return std::visit([](auto& s) { return s.keys(); }, step);
}
std::optional<ConfigFault> fault_of(const AugmentStep& step) {
  const auto no_larger = [](const char* key, const std::array<double, 2>& range) -> std::optional<ConfigFault> {
    if (range[0] <= range[1]) return {};
    return ConfigFault{key, str("expects two numbers in ascending order, found [", range[0], ", ", range[1], "]")};
  };
  if (const auto* crop = std::get_if<RandomResizedCrop>(&step)) {
    if (auto fault = no_larger("scale", crop->scale)) return fault;
    return no_larger("ratio", crop->ratio);
  }
  if (const auto* some = std::get_if<RandAugment>(&step); some && some->magnitude >= some->num_magnitude_bins)
    return ConfigFault{"magnitude", str("must be at least 0 and at most ", some->num_magnitude_bins - 1,
                                        ", one less than num_magnitude_bins, found ", some->magnitude)};
  return {};
}

Augmentation::Augmentation(std::vector<AugmentStep> steps, int64_t height, int64_t width, bool cropped)
    : steps_(std::move(steps)),
      height_(static_cast<int32_t>(height)),
      width_(static_cast<int32_t>(width)),
      cropped_(cropped),
      edits_(edits_of(steps_, cropped)) {}

bool Augmentation::mixes() const { return mixes_labels(steps_); }

Augmentation::Result Augmentation::draw(const SampleList& micro_batch, size_t place, std::span<EditDraw> edits) const {
  if (steps_.empty() || micro_batch.key.epoch == SampleKey::kEvaluation) return {};
  Drawing drawing(micro_batch, place, height_, width_, edits);
  for (uint32_t number = 0; number < steps_.size(); ++number)
    if (!is_done(steps_[number], cropped_))
      std::visit([&](const auto& step) { drawing.take(step, number); }, steps_[number]);
  return drawing.result();
}

int edits_of(std::span<const AugmentStep> steps, bool cropped) {
  int edits = 0;
  bool moved = false;
  for (const AugmentStep& any : steps)
    if (!is_done(any, cropped))
      std::visit(
          [&]<class Step>(const Step& step) {
            if (!kMoves<Step>) edits += edits_of_step(step) + moved;
            moved = kMoves<Step>;
          },
          any);
  return edits;
}

bool mixes_labels(std::span<const AugmentStep> steps) {
  return std::ranges::any_of(steps, [](const AugmentStep& any) {
    return std::visit([]<class Step>(const Step&) { return kMixes<Step>; }, any);
  });
}

}  // namespace ct
