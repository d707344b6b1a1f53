#include "comm/watchdog/heartbeat.h"

namespace ct {

std::string_view name_of(Phase phase) {
  switch (phase) {
    case Phase::start:
      return "start";
    case Phase::data:
      return "data";
    case Phase::step:
      return "step";
    case Phase::save:
      return "save";
    case Phase::evaluation:
      return "evaluation";
    case Phase::end:
      return "end";
  }
  return "an unknown phase";
}

}  // namespace ct
