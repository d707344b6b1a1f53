#include "cli/weight_set.h"

#include <CLI/CLI.hpp>

#include "base/error.h"

namespace ct {

void WeightSetOptions::add_to(CLI::App& app) {
  CLI::Option* ema =
      app.add_flag("--ema", ema_, "use the moving average of the weights (the default if the run evaluated it)");
  app.add_flag("--no-ema", no_ema_, "use the weights, not their moving average")->excludes(ema);
}

WeightSet WeightSetOptions::of(const SafetensorsFile& file) const {
  if (no_ema_) return WeightSet::weights;
  if (!ema_) return evaluated_set(file);
  if (!has_ema(file))
    fail(ExitCode::checkpoint, "--ema: ", in_quotes(file.path().native()),
         " has no moving average of its weights, because its run kept none (train.ema.decay); leave --ema out");
  return WeightSet::ema;
}

std::string weight_set_note(const SafetensorsFile& file, WeightSet taken) {
  if (!has_ema(file)) return "";
  const bool ema = taken == WeightSet::ema;
  return str(ema ? "the moving average of the weights" : "the weights, not their moving average",
             taken == evaluated_set(file) ? ", as its run evaluated" : "", ema ? " (--no-ema" : " (--ema",
             " takes the other)");
}

}  // namespace ct
