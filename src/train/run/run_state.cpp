#include "train/run/run_state.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <type_traits>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "checkpoint/manifest.h"
#include "train/config/batch.h"
#include "train/config/load.h"

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

/// A number of the kind and within the limits of T; false: it is something else.
template <class T>
bool read_number(const Json& json, T& value) {
  if constexpr (std::is_integral_v<T>) {
    if (!json.is_number_integer()) return false;
    constexpr uint64_t kMost = uint64_t{1} << 53;  // more than any run counts, and far from an overflow
    if (json.is_number_unsigned() && json.get<uint64_t>() > std::min<uint64_t>(kMost, std::numeric_limits<T>::max()))
      return false;
    if (!std::in_range<T>(json.get<int64_t>())) return false;
  } else if (!json.is_number()) {
    return false;
  }
  json.get_to(value);
  return true;
}

[[noreturn]] void fail_damaged(const Path& file, std::string_view what) {
  fail(ExitCode::checkpoint, in_quotes(file.native()), " ", what, "; the checkpoint is damaged, use an earlier one");
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

Provenance provenance_from(const Json& state, const Path& file) {
  Provenance provenance;
  each_origin(provenance, [&]<class T>(const char* name, T& value) {
    const auto at = state.find(name);
    bool right = at != state.end();
    if constexpr (std::is_same_v<T, std::string>) {
      right = right && at->is_string();
      if (right) at->get_to(value);
    } else {
      right = right && read_number(*at, value);
    }
    if (!right) fail_damaged(file, str("does not describe the run: '", name, "'"));
  });
  if (provenance.ranks < 1) fail_damaged(file, "does not describe the run: 'ranks'");
  return provenance;
}

RunState run_state_from(const Json& json, const Path& file) {
  constexpr int64_t kMostCount = int64_t{1} << 52;  // so that what a run adds is still read exactly
  RunState state;
  const auto read = [&](const char* name, auto& value) {
    const auto at = json.find(name);
    if (at == json.end()) fail_damaged(file, str("has no number '", name, "'"));
    if (!read_number(*at, value)) fail_damaged(file, str("has no number that a run counts as '", name, "'"));
  };
  each_field(state, read);
  each_rare_number(state, [&](const char* name, auto& value) {
    if (json.contains(name)) read(name, value);
  });
  const StepScalars& done = state.scalars;
  for (const int64_t count : {state.step, state.epoch, state.batch, state.samples, done.applied, done.skipped,
                              done.bad_streak, state.running_images, state.epoch_images, state.replaced,
                              state.optimizer_begun, state.best_step + 1, state.patience_used + 1})
    if (count < 0 || count > kMostCount)
      fail_damaged(file, count < 0 ? "has a count below zero" : str("has the count ", count));
  for (const int64_t part :
       {state.epoch, state.batch, done.applied, done.skipped, done.bad_streak, state.best_step, state.optimizer_begun})
    if (part > state.step) fail_damaged(file, str("counts ", part, " within ", state.step, " steps"));
  if (done.applied + done.skipped != state.step)
    fail_damaged(file, str("counts ", done.applied, " applied and ", done.skipped, " skipped steps of ", state.step));
  if (state.running_images > state.samples || state.epoch_images > state.samples)
    fail_damaged(file, str("counts more images than the ", state.samples, " of its steps"));
  if (!(state.loss_scale.scale > 0)) fail_damaged(file, str("has the loss scale ", state.loss_scale.scale));
  return state;
}

Config saved_config(const Checkpoint& checkpoint) {
  const Path file = checkpoint.state_path();
  const std::string text = provenance_from(checkpoint.state, file).config;
  try {
    return load_config_text(text, file.string());
  } catch (const Error& error) {
    fail(ExitCode::checkpoint, "its configuration cannot be read: ", error.what(), kTakeAnother);
  }
}

void require_state(const Checkpoint& checkpoint) {
  const Path file = checkpoint.state_path();
  const RunState state = run_state_from(checkpoint.state, file);
  if (state.step != checkpoint.manifest.step) refuse_part(file, str("it is of step ", state.step));
  const Config config = saved_config(checkpoint);
  const int64_t ranks = provenance_from(checkpoint.state, file).ranks;
  try {
    batch_for(config.batch, ranks);
  } catch (const Error& error) {
    if (error.code() != ExitCode::usage) throw;
    fail_damaged(file, str("counts ", ranks, " ranks, which its batch sizes do not fit"));
  }
}

}  // namespace ct
