#include "train/breakdown.h"

#include <array>
#include <utility>

#include "metrics/deepspeed_lines.h"

namespace ct {
namespace {

using Named = std::pair<std::string_view, double>;

std::array<Named, 6> named(const Breakdown& b) {
  return {{{"forward", b.phases[StepPhase::forward]},
           {"backward", b.phases[StepPhase::backward]},
           {"communication", b.communication()},
           {"update", b.phases[StepPhase::update]},
           {"data", b.data},
           {"step", b.step}}};
}

}  // namespace

std::string to_line(const Breakdown& breakdown) { return timer_line(named(breakdown)); }

Json to_json(const Breakdown& breakdown) {
  Json json;
  for (const auto& [name, milliseconds] : named(breakdown)) json[std::string(name)] = milliseconds;
  return json;
}

std::string deepspeed_optimizer_line(const DeepSpeedTimes& times) {
  return timer_line(std::array<Named, 3>{{{"optimizer_allgather", times.optimizer_allgather},
                                          {"optimizer_gradients", 0},
                                          {"optimizer_step", times.optimizer_step}}});
}

std::string deepspeed_micro_line(const DeepSpeedTimes& times, int micro_steps) {
  const auto share = [&](double milliseconds) { return milliseconds / micro_steps; };
  return timer_line(std::array<Named, 5>{{{"fwd_microstep", share(times.forward)},
                                          {"bwd_microstep", share(times.backward())},
                                          {"bwd_inner_microstep", share(times.backward_inner)},
                                          {"bwd_allreduce_microstep", share(times.backward_allreduce)},
                                          {"step_microstep", times.step()}}});
}

std::string deepspeed_line(const DeepSpeedTimes& times) {
  return timer_line(std::array<Named, 5>{{{"fwd", times.forward},
                                          {"bwd", times.backward()},
                                          {"bwd_inner", times.backward_inner},
                                          {"bwd_allreduce", times.backward_allreduce},
                                          {"step", times.step()}}});
}

}  // namespace ct
