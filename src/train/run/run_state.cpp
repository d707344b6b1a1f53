#include "train/run/run_state.h"

#include "base/error.h"

namespace ct {
namespace {

/// One list of the fields, for both directions.
template <class State, class F>
void each_field(State& s, F f) {
  f("step", s.step);
  f("epoch", s.epoch);
  f("batch", s.batch);
  f("samples", s.samples);
  f("applied", s.scalars.applied);
  f("skipped", s.scalars.skipped);
  f("bad_streak", s.scalars.bad_streak);
  f("loss_scale", s.loss_scale.scale);
  f("loss_scale_step", s.loss_scale.step);
  f("loss_scale_last_overflow", s.loss_scale.last_overflow);
  f("loss_scale_hysteresis_left", s.loss_scale.hysteresis_left);
  f("running_loss", s.running_loss);
  f("running_images", s.running_images);
  f("epoch_loss", s.epoch_loss);
  f("epoch_images", s.epoch_images);
  f("best_step", s.best_step);
  f("best_value", s.best_value);
  f("patience_value", s.patience_value);
  f("patience_used", s.patience_used);
}

/// Likewise, of numbers that are left out where they are 0.
template <class State, class F>
void each_rare_number(State& s, F f) {
  f("replaced_samples", s.replaced);
  f("ema_loss", s.ema_loss);
  f("optimizer_begun", s.optimizer_begun);
}

/// And what each checkpoint was made by.
template <class Made, class F>
void each_origin(Made& p, F f) {
  f("config", p.config);
  f("ranks", p.ranks);
  f("dataset", p.dataset);
  f("data_crc32c", p.data_crc);
  f("test_data_crc32c", p.test_data_crc);
  f("device", p.device);
  f("plans", p.plans);
}

}  // namespace

Json to_json(const RunState& state) {
  Json json;
  each_field(state, [&](const char* name, const auto& value) { json[name] = value; });
  each_rare_number(state, [&](const char* name, const auto& value) {
    if (value != 0) json[name] = value;
  });
  return json;
}

Json to_json(const RunState& state, const Provenance& provenance) {
  Json json = to_json(state);
  each_origin(provenance, [&](const char* name, const auto& value) { json[name] = value; });
  return json;
}

Provenance provenance_from(const Json& state) {
  Provenance provenance;
  try {
    each_origin(provenance, [&](const char* name, auto& value) { state.at(name).get_to(value); });
  } catch (const Json::exception&) {
    fail(ExitCode::checkpoint, "state.json does not describe the run; the checkpoint is damaged, use an earlier one");
  }
  return provenance;
}

RunState run_state_from(const Json& json) {
  RunState state;
  const auto read = [&](const char* name, auto& value) {
    const auto at = json.find(name);
    if (at == json.end() || !at->is_number())
      fail(ExitCode::checkpoint, "state.json has no number '", name,
           "'; the checkpoint is damaged, use an earlier one");
    at->get_to(value);
  };
  each_field(state, read);
  each_rare_number(state, [&](const char* name, auto& value) {
    if (json.contains(name)) read(name, value);
  });
  if (state.step < 0 || state.epoch < 0 || state.batch < 0 || state.scalars.applied < 0 || state.replaced < 0 ||
      state.samples < 0 || state.optimizer_begun < 0)
    fail(ExitCode::checkpoint, "state.json has a count below zero; the checkpoint is damaged, use an earlier one");
  return state;
}

}  // namespace ct
