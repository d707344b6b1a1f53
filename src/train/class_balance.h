// Classes with different numbers of training images: their weights in the loss, and warnings.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "train/config/config.h"
#include "train/evaluation.h"

namespace ct {

/// Weights of the classes with mean 1 over the training images, whose counts are n_c (N in all, in K classes): auto is
/// N / (K n_c), and weights r_c by name become r_c N / sum_k n_k r_k. A class without images weighs 0 by auto. Empty if
/// no weights are configured. Error(usage): a name that is no class, or all images weigh 0.
std::vector<float> class_weights(const Config& config, const std::vector<std::string>& names,
                                 std::span<const int64_t> counts);

/// A warning if the largest class has more than five times the images of the smallest that has any, and neither weights
/// nor the sampler balance them; empty: none.
std::string imbalance(const Config& config, const std::vector<std::string>& names, std::span<const int64_t> counts);

/// A warning that names the classes with less than half the accuracy of chance, among those with enough images to tell;
/// empty: none.
std::string weak_classes(const Evaluation& evaluation, const std::vector<std::string>& names);

}  // namespace ct
