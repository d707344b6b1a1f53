#include "train/breakdown.h"

#include <array>
#include <utility>

#include "metrics/step_line.h"

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

}  // namespace ct
