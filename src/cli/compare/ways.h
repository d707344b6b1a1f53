// The ways to train one network that `compare` puts beside each other.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/files.h"
#include "train/config/config.h"

namespace ct {

struct Way {
  std::string name;    // "2 CPU ranks, ZeRO 1"
  std::string folder;  // of its run, within the comparison's
  std::string device;
  int64_t ranks = 1;
  bool processes = false;  // a process for each rank, by `launch`; false: threads of one process
  int stage = 0;           // of ZeRO
};

/// One CPU rank; one GPU, if there is one; and `ranks` ranks as threads (PyTorch's DataParallel), as processes
/// (DistributedDataParallel) and with ZeRO stages 1 to 3 (DeepSpeed), on GPUs if the configuration's device has enough
/// of them. `left_out`: the ways that this machine or the device of the configuration does not offer, and why.
std::vector<Way> ways_to_train(const Config& config, int64_t ranks, std::vector<std::string>* left_out);

/// Words of `cifar-train` that train in this way; `train`: the words of a `train` command, common to all. The batch is
/// that of one rank, and the micro-batch is the same for one rank and for `ranks`, so that all ways compute the same
/// sums. Throws Error(usage) if the ranks cannot share the batch.
std::vector<std::string> words_of_way(const Way& way, const std::vector<std::string>& train, const Config& config,
                                      int64_t ranks, const Path& out);

}  // namespace ct
