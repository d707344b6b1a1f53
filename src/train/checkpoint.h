// What one checkpoint of a run holds, and how it gets there and back: weights and moments by name in PyTorch's layout,
// the run's state, and where it comes from.
#pragma once

#include <string>

#include "checkpoint/store.h"
#include "train/weights.h"

namespace ct {

/// What a checkpoint of this program was made by, beside its RunState.
struct Provenance {
  std::string config;  // YAML
  int64_t ranks = 1;
  std::string dataset;  // name
  uint32_t data_crc = 0;
  std::string device;  // Backend::description
};
Json to_json(const RunState& state, const Provenance& provenance);
Provenance provenance_from(const Json& state);

/// Saves everything an engine needs to go on, as step `state.step` of the store.
void save_checkpoint(Store& store, const RunState& state, const Provenance& provenance, const Metadata& metadata,
                     const Programs& programs, const Engine& engine);

/// Reads weights, moments and state into an engine, on any rank.
RunState restore_checkpoint(const Path& checkpoint, const std::string& model, const Programs& programs,
                            const Engine& engine);

}  // namespace ct
