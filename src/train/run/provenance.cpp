#include "train/run/provenance.h"

#include "base/error.h"

namespace ct {

Json to_json(const RunState& state, const Provenance& p) {
  Json json = to_json(state);
  json["config"] = p.config;
  json["ranks"] = p.ranks;
  json["dataset"] = p.dataset;
  json["data_crc32c"] = p.data_crc;
  json["test_data_crc32c"] = p.test_data_crc;
  json["device"] = p.device;
  json["plans"] = p.plans;
  return json;
}

Provenance provenance_from(const Json& state) {
  try {
    return {.config = state.at("config"),
            .ranks = state.at("ranks"),
            .dataset = state.at("dataset"),
            .data_crc = state.at("data_crc32c"),
            .test_data_crc = state.at("test_data_crc32c"),
            .device = state.at("device"),
            .plans = state.at("plans")};
  } catch (const Json::exception&) {
    fail(ExitCode::checkpoint,
         "state.json does not say what the run was; the checkpoint is damaged, use an earlier one");
  }
}

}  // namespace ct
