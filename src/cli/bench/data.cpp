// bench data: what the pipeline delivers when nobody computes.
#include <fmt/format.h>

#include "base/error.h"
#include "cli/bench/bench.h"
#include "data/description.h"
#include "train/agree.h"
#include "train/class_balance.h"
#include "train/session.h"

namespace ct {

int bench_data(const BenchFlags& f, const Config& config, Communicator& comm) {
  Datasets data = open_datasets(config, comm, IfAbsent::write_later);
  const BatchSizes batch = batch_for(config.batch, comm.size());
  check_augmentation(config, batch.micro, data.spec());
  const Distribution d = distribution(config, batch, {comm.rank(), comm.size()});
  PipelineOptions options = pipeline_options(config, batch, d, comm.rank());
  options.class_weights =
      class_weights(config, data.train->class_names(), class_counts(*data.train, data.parts.training));
  Pipeline pipeline(*data.train, data.parts.training, options);
  make_late_datasets(data, config, comm);
  const auto micro = static_cast<size_t>(batch.micro);
  std::vector<uint8_t> images(micro * data.train->shape().bytes());
  std::vector<Draw> draws(micro);
  std::vector<int32_t> labels(micro);
  const bool mixes = mixes_labels(config.data.augment);
  std::vector<EditDraw> edits(micro * static_cast<size_t>(edits_of(config.data.augment, data.train->cropped())));
  std::vector<int32_t> second_labels(mixes ? micro : 0);
  std::vector<float> second_shares(second_labels.size());
  std::vector<float> weights(options.class_weights.size());
  int64_t step = 0;
  const Spread time = time_windows(comm, f, "steps of data", [&](int64_t count) {
    for (const int64_t end = step + count; step < end; ++step)
      for (int j = 0; j < d.accumulation; ++j) {
        comm.heartbeat().advance(Phase::data);
        pipeline.fill(step / pipeline.steps_per_epoch(), step % pipeline.steps_per_epoch(),
                      d.micro_batch(comm.rank(), j),
                      {images, draws, labels, edits, second_labels, second_shares, weights});
      }
  });
  if (comm.rank() != 0) return 0;
  const double rate = static_cast<double>(batch.train) / time.median;
  const std::string text = fmt::format("{:.0f} images/s, {:.1f} us per step", rate, 1e6 * time.median);
  print(f,
        {{"bench", "data"},
         {"dataset", data.train->name()},
         {"ranks", comm.size()},
         {"workers", pipeline.workers()},
         {"samples_per_sec", rate},
         {"step_us", 1e6 * time.median}},
        str(data.train->name(), ", images of ", to_string(data.train->shape()), ", ", comm.size(), " ranks with ",
            pipeline.workers(), " workers each: ", text));
  return 0;
}

}  // namespace ct
