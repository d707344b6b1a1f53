#include "cli/compare/ways.h"

#include "base/error.h"
#include "base/text.h"
#include "train/device.h"

namespace ct {

std::vector<Way> ways_to_train(const Config& config, int64_t ranks, std::vector<std::string>* left_out) {
  const int gpus = gpu_count(config);
  std::vector<Way> ways;
  const auto add = [&](const std::string& name, const std::string& folder, const std::string& device, int64_t of,
                       bool processes, int stage) {
    ways.push_back(
        {.name = name, .folder = folder, .device = device, .ranks = of, .processes = processes, .stage = stage});
  };
  const std::string gpu = str("cuda:", gpus > 0 ? first_gpu(config) : 0);
  add("1 CPU rank", "cpu", "cpu", 1, false, 0);
  if (gpus > 0)
    add("1 GPU", "gpu", gpu, 1, false, 0);
  else
    left_out->push_back(config.device == "cpu" ? "1 GPU: left out, because the device is cpu"
                                               : "1 GPU: left out, because this program finds no GPU");
  if (ranks == 1) return ways;
  const bool on_gpus = gpus >= ranks;
  const std::string of = str(ranks, on_gpus ? " GPUs, " : " CPU ranks, "), device = on_gpus ? gpu : "cpu";
  if (gpus > 0 && !on_gpus)
    left_out->push_back(
        str(counted(ranks, "rank"), " use CPUs, because there ", gpus == 1 ? "is " : "are ", counted(gpus, "GPU")));
  add(of + "1 process", "threads", device, ranks, false, 0);
  add(str(of, ranks, " processes"), "processes", device, ranks, true, 0);
  for (const int stage : {1, 2, 3}) add(str(of, "ZeRO ", stage), str("zero-", stage), device, ranks, true, stage);
  return ways;
}

std::vector<std::string> words_of_way(const Way& way, const std::vector<std::string>& train, const Config& config,
                                      int64_t ranks, const Path& out) {
  std::vector<std::string> words;
  if (way.processes) words = {"launch", "--no_ssh", "--num_nodes", "1", "--num_gpus", str(way.ranks)};
  words.insert(words.end(), train.begin(), train.end());
  const auto set = [&](std::string_view key, const auto& value) {
    words.insert(words.end(), {"--set", str(key, "=", value)});
  };
  const BatchSizes batch = batch_for(config.batch, 1);
  if (batch.train % ranks != 0)
    fail(ExitCode::usage, "--ranks ", ranks, " does not divide the batch of ", counted(batch.train, "image"),
         ": give another number of ranks, or --set train_batch_size=N");
  const int64_t micro = batch.train % (batch.micro * ranks) == 0 ? batch.micro : batch.train / ranks;
  set("train_batch_size", batch.train);
  set("train_micro_batch_size_per_gpu", micro);
  set("gradient_accumulation_steps", batch.train / (micro * way.ranks));
  set("zero_optimization.stage", way.stage);
  set("device", way.device);
  if (!way.processes) words.insert(words.end(), {"--ranks", str(way.ranks)});
  words.insert(words.end(), {"--output", (out / way.folder).string()});
  return words;
}

}  // namespace ct
