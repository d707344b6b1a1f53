// Pretrained weights by the name of their network: --pretrained resnet18.
#pragma once

#include <string>

#include "fetch/download.h"

namespace ct {

/// Addresses of folders with the published files, separated by blanks, in place of the published ones.
inline constexpr const char* kMirrorVariable = "CIFAR_TRAIN_MIRROR";

/// Those of the environment. Error(usage) for a mirror that is no address.
DownloadOptions download_options();

/// The reason why this is not the address of a mirror, for CLI::Option::check; empty: it is one.
std::string mirror_problem(const std::string& address);

/// `file` itself, unless it is the name of a network with published weights: then their file in the cache, downloaded
/// if it is not there. Of the ranks of a launcher's job, the one that downloads tells from where.
std::string file_of_weights(const std::string& file);

}  // namespace ct
