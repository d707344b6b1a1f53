#include "checkpoint/sealed_json.h"
#include "target.h"
#include "train/run/run_state.h"

namespace ct::fuzz::state {
namespace {

void read(Input input) {
  const Path file = "state.json";
  const nlohmann::json json = parse_strict_json(text_of(input), file.native());
  to_json(run_state_from(json, file), provenance_from(json, file)).dump();
}

const Registered registered({.name = "state", .refusals = {ExitCode::checkpoint}, .read = read});

}  // namespace
}  // namespace ct::fuzz::state
