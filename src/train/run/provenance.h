// What a checkpoint of this program was made by: all that state.json holds beside the RunState.
#pragma once

#include <string>

#include "train/run/run_state.h"

namespace ct {

struct Provenance {
  std::string config;  // YAML
  int64_t ranks = 1;
  std::string dataset;         // name
  uint32_t data_crc = 0;       // of the images to train on
  uint32_t test_data_crc = 0;  // of those to evaluate on
  std::string device;          // Backend::description
  std::string plans = {};      // Backend::plans
};
Json to_json(const RunState& state, const Provenance& provenance);
/// Throws Error(checkpoint) for a state that lacks one of them.
Provenance provenance_from(const Json& state);

}  // namespace ct
