// What happens to a sample between its data set and the model: the steps of data.augment, in the order of the list.
//
// Decoding and resizing run on the host, in DataSet::read(), and with them a random_resized_crop of pictures.
// Everything else is drawn here and done by the device: crops and flips by the operation augment, which moves pixels
// once for all of them (Draw), what is more than that by edits before it (graph/edit_draw.h).
//
// Every draw is keyed by (seed, epoch, image, place in the list), whoever asks.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/config_key.h"
#include "base/random.h"
#include "graph/edit_draw.h"

namespace ct {

/// The key of the draws that a sample takes.
struct SampleKey {
  uint64_t seed = 0;
  int64_t epoch = kEvaluation;
  static constexpr int64_t kEvaluation = -1;  // nothing is drawn
};

/// The stream of numbers of one place in the list. Place 0 is shared by random_crop and flip, which draw in turn; the
/// steps on the host have places of their own, and all others that of their number in the list, from kFirstStepPlace
/// on. The places are part of every result.
inline constexpr uint32_t kMovePlace = 0, kResizedCropPlace = 1, kReplacementPlace = 2, kFirstStepPlace = 16;
inline Random draws_of(const SampleKey& key, uint32_t image, uint32_t place) {
  return Random(key.seed, Purpose::augment, static_cast<uint64_t>(key.epoch) << 32 | image, place);
}

// ---- the steps; each lists its keys, in the order of printing

/// So many black pixels are added on each side, then it is cut to its old size (torchvision's RandomCrop).
struct RandomCrop {
  static constexpr std::string_view kName = "random_crop";
  int64_t padding = 4;
  std::vector<ConfigKey> keys();
};
/// Mirrors left and right.
struct Flip {
  static constexpr std::string_view kName = "flip";
  double p = 0.5;
  std::vector<ConfigKey> keys();
};
/// Mirrors an image in every other epoch: one half of them in even ones, the other in odd ones (Jordan, 2024).
struct AlternatingFlip {
  static constexpr std::string_view kName = "alternating_flip";
  std::vector<ConfigKey> keys() { return {}; }
};
/// A random box becomes the sample (torchvision's RandomResizedCrop; random_window says which box).
struct RandomResizedCrop {
  static constexpr std::string_view kName = "random_resized_crop";
  std::array<double, 2> scale = {0.08, 1};        // share of the area, from and to
  std::array<double, 2> ratio = {0.75, 4.0 / 3};  // of width to height, from and to
  std::vector<ConfigKey> keys();
};
/// A square around a random pixel, cut off at the image's border, becomes the mean colour (DeVries & Taylor, 2017).
struct Cutout {
  static constexpr std::string_view kName = "cutout";
  int64_t length = 16;
  std::vector<ConfigKey> keys();
};
/// Brightness, contrast and saturation by factors from 1 - x to 1 + x, and a hue turned by up to x of the circle, in a
/// random order (torchvision's ColorJitter). 0 leaves one out.
struct ColorJitter {
  static constexpr std::string_view kName = "color_jitter";
  double brightness = 0.4, contrast = 0.4, saturation = 0.4, hue = 0;
  std::vector<ConfigKey> keys();
};
/// So many operations out of fourteen, one after the other (Cubuk et al., 2019; data/rand_augment.h).
struct RandAugment {
  static constexpr std::string_view kName = "rand_augment";
  int64_t num_ops = 2, magnitude = 9, num_magnitude_bins = 31;
  std::vector<ConfigKey> keys();
};
/// Another image of the micro-batch is blended in, and its label with it; its share is Beta(alpha, alpha) (Zhang et
/// al., 2017). Of steps that mix images the first that is drawn for a micro-batch is done.
struct Mixup {
  static constexpr std::string_view kName = "mixup";
  double alpha = 1, p = 1;  // p: of a micro-batch
  std::vector<ConfigKey> keys();
};
/// A box of another image of the micro-batch takes the place of the image's own, and that share of the label is the
/// other's; the box's share of the image is Beta(alpha, alpha) before it is cut off at the border (Yun et al., 2019).
struct Cutmix {
  static constexpr std::string_view kName = "cutmix";
  double alpha = 1, p = 1;
  std::vector<ConfigKey> keys();
};

using AugmentStep =
    std::variant<RandomCrop, Flip, AlternatingFlip, RandomResizedCrop, Cutout, ColorJitter, RandAugment, Mixup, Cutmix>;

std::vector<std::string> augment_step_names();
/// The step of that name, with its defaults.
AugmentStep augment_step(std::string_view name);
std::string_view name_of(const AugmentStep& step);
/// Bound to the members of `step`.
std::vector<ConfigKey> keys_of(AugmentStep& step);
/// A rule between its keys that it breaks.
std::optional<ConfigFault> fault_of(const AugmentStep& step);

// ---- what is drawn

/// Of an image that is mixed with another one.
struct Mix {
  int32_t partner = -1;  // its place in the micro-batch; -1: none
  float share = 0;       // of the label
};

/// What a micro-batch's images take of the device.
class Augmentation {
 public:
  Augmentation() = default;
  /// `cropped`: the data set has done the random_resized_crop already.
  Augmentation(std::vector<AugmentStep> steps, int64_t height, int64_t width, bool cropped = false);

  /// Of each image: the same for all.
  int edits() const { return edits_; }
  bool mixes() const;

  /// Draws for image number `place` of a micro-batch: its edits, and what is moved at last. Each crop moves by
  /// -padding..padding in both directions, uniformly. Between two edits several crops add up, as if padding never were
  /// cut off in between, and several flips cancel out; a crop after a flip moves the mirrored image.
  struct Result {
    Draw moves;
    Mix mix;
  };
  Result draw(const SampleKey& key, std::span<const uint32_t> micro_batch, size_t place,
              std::span<EditDraw> edits) const;

 private:
  std::vector<AugmentStep> steps_;
  int32_t height_ = 0, width_ = 0;
  bool cropped_ = false;
  int edits_ = 0;
};

/// How many edits Augmentation makes of these steps.
int edits_of(std::span<const AugmentStep> steps, bool cropped);
/// Do they mix the labels of images?
bool mixes_labels(std::span<const AugmentStep> steps);

}  // namespace ct
