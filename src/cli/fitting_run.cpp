#include "cli/fitting_run.h"

#include "base/error.h"
#include "comm/host/threads.h"
#include "data/pipeline.h"
#include "train/host_lacks.h"
#include "train/initial_weights.h"
#include "train/setup.h"
#include "train/weights.h"

namespace ct {

void require_fitting_initial_weights(const TrainingWords& words, const Graph& graph) {
  if (const std::string& file = words.initial_file(); !file.empty())
    require_fitting_weights(SafetensorsFile(weights_file(file), SafetensorsFile::Check::header), words.init_options(),
                            graph);
}

void require_fitting_run(const Config& config, int64_t ranks, const TrainingWords& words) {
  const auto comm = make_solo();
  const BatchSizes batch = batch_sizes(config, ranks);
  for (const Error& lack : host_lacks(config, ranks)) throw lack;
  const Datasets data = open_datasets(config, *comm, IfAbsent::write_later, data_kinds(), /*keeps_run=*/true);
  const Programs programs = lower_programs(config, batch, {0, static_cast<int>(ranks)}, data.spec());
  require_fitting_initial_weights(words, programs.graph);
  const Pipeline pipeline(*data.train, data.parts.training, {.train_batch = batch.train, .micro_batch = batch.micro});
}

}  // namespace ct
