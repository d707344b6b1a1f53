// The steps of data.augment, which change a sample between its data set and the model, in the order of the list.
//
// Decoding and resizing run on the host, in DataSet::read(), including a random_resized_crop of pictures. All other
// steps are drawn here and applied by the device: the operation Augment applies crops and flips in one move of the
// pixels (Draw); Edit operations before it apply the rest (graph/edit_draw.h).
//
// Every draw is keyed by (seed, epoch, image, place in the list), so every caller gets the same.
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

/// The key of a sample's draws.
struct SampleKey {
  uint64_t seed = 0;
  int64_t epoch = kEvaluation;
  static constexpr int64_t kEvaluation = -1;  // no draws
  uint32_t repeat = 0;                        // how often the epoch's order had the image before
};

/// The samples of one micro-batch.
struct SampleList {
  std::span<const uint32_t> images;        // empty: the end
  SampleKey key;                           // of all samples; key_of() is that of one
  std::span<const uint32_t> others = {};   // candidates to replace a damaged image; empty: it is left out
  std::span<const uint32_t> repeats = {};  // SampleKey::repeat of each; empty: 0
  SampleKey key_of(size_t i) const { return {key.seed, key.epoch, repeats.empty() ? 0 : repeats[i]}; }
};

/// The random stream of one place in the list. random_crop and flip share place 0 and draw in turn; the steps on the
/// host have their own places; the place of any other step is kFirstStepPlace plus its number in the list. Places must
/// not change, because results depend on them.
inline constexpr uint32_t kMovePlace = 0, kResizedCropPlace = 1, kReplacementPlace = 2, kFirstStepPlace = 16;
inline Random draws_of(const SampleKey& key, uint32_t image, uint32_t place) {
  return Random(key.seed, Purpose::augment, static_cast<uint64_t>(key.epoch) << 32 | image, place | key.repeat << 8);
}

// ---- the steps; each lists its keys, in the order of printing

/// Adds `padding` black pixels on each side, then crops the image to its old size at random (torchvision's RandomCrop).
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
/// Mirrors one half of the images in even epochs, and the other half in odd epochs (Jordan, 2024).
struct AlternatingFlip {
  static constexpr std::string_view kName = "alternating_flip";
  std::vector<ConfigKey> keys() { return {}; }
};
/// Resizes a random box to the sample's size (torchvision's RandomResizedCrop; random_window draws the box).
struct RandomResizedCrop {
  static constexpr std::string_view kName = "random_resized_crop";
  std::array<double, 2> scale = {0.08, 1};        // share of the area, from and to
  std::array<double, 2> ratio = {0.75, 4.0 / 3};  // width divided by height, from and to
  std::vector<ConfigKey> keys();
};
/// Fills a square around a random pixel, clipped at the image's border, with the mean colour (DeVries & Taylor, 2017).
struct Cutout {
  static constexpr std::string_view kName = "cutout";
  int64_t length = 16;
  std::vector<ConfigKey> keys();
};
/// Changes brightness, contrast and saturation by factors from 1 - x to 1 + x, and rotates the hue by up to x of the
/// circle, in a random order (torchvision's ColorJitter). 0 disables a change.
struct ColorJitter {
  static constexpr std::string_view kName = "color_jitter";
  double brightness = 0.4, contrast = 0.4, saturation = 0.4, hue = 0;
  std::vector<ConfigKey> keys();
};
/// Applies `num_ops` of fourteen operations, one after another (Cubuk et al., 2019; data/rand_augment.h).
struct RandAugment {
  static constexpr std::string_view kName = "rand_augment";
  int64_t num_ops = 2, magnitude = 9, num_magnitude_bins = 31;
  std::vector<ConfigKey> keys();
};
/// Blends the image and its label with another image of the micro-batch, with a share drawn from Beta(alpha, alpha)
/// (Zhang et al., 2017). If a list has several steps that mix images, the first that is drawn for a micro-batch is
/// applied.
struct Mixup {
  static constexpr std::string_view kName = "mixup";
  double alpha = 1, p = 1;  // p: probability for a micro-batch
  std::vector<ConfigKey> keys();
};
/// Replaces a box of the image by that of another image of the micro-batch, and blends the labels by the box's share of
/// the area; the share is drawn from Beta(alpha, alpha) before the box is clipped at the border (Yun et al., 2019).
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
/// The keys of the step, bound to the members of `step`.
std::vector<ConfigKey> keys_of(AugmentStep& step);
/// The fault of keys that contradict each other; nullopt: none do.
std::optional<ConfigFault> fault_of(const AugmentStep& step);

// ---- draws

/// How an image is mixed with another one.
struct Mix {
  int32_t partner = -1;  // the other image's place in the micro-batch; -1: none
  float share = 0;       // weight of the other label
};

/// The augmentation of micro-batches on the device.
class Augmentation {
 public:
  Augmentation() = default;
  /// `cropped`: the data set has already applied the random_resized_crop.
  Augmentation(std::vector<AugmentStep> steps, int64_t height, int64_t width, bool cropped = false);

  /// The number of edits of each image.
  int edits() const { return edits_; }
  bool mixes() const;

  /// Draws for sample number `place` of a micro-batch: its edits and the final move. Each crop moves by
  /// -padding..padding in both directions, uniformly. Between two edits, several crops add up, as if the padding were
  /// not cut off in between, and several flips cancel out; a crop after a flip moves the mirrored image.
  struct Result {
    Draw moves;
    Mix mix;
  };
  Result draw(const SampleList& micro_batch, size_t place, std::span<EditDraw> edits) const;

 private:
  std::vector<AugmentStep> steps_;
  int32_t height_ = 0, width_ = 0;
  bool cropped_ = false;
  int edits_ = 0;
};

/// The number of edits of these steps.
int edits_of(std::span<const AugmentStep> steps, bool cropped);
/// Do they mix the labels of images?
bool mixes_labels(std::span<const AugmentStep> steps);

}  // namespace ct
