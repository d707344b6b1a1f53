// Applies recorded gradients to the tutorial's network by the program's own update, for torch_optimizers.py:
//   optimizer_steps WEIGHTS GRADIENTS RESULT 'optimizer: {type: Lion, params: {lr: 0.001}}'
// Files hold f32 numbers in the machine's byte order: all parameters one after the other in PyTorch's order, the
// gradients step by step.
#include <algorithm>
#include <cstdio>
#include <fstream>

#include "base/error.h"
#include "bench/recorded_run.h"
#include "model/models.h"
#include "train/config/load.h"

namespace {

using ct::RecordedRun;

void read(std::ifstream& from, RecordedRun::Values& values) {
  for (auto& v : values) from.read(reinterpret_cast<char*>(v.data()), static_cast<std::streamsize>(v.size() * 4));
}

void run(const char* weights, const char* gradients, const char* result, const char* yaml) {
  const ct::Config config = ct::load_config_text(yaml, "the optimizer");
  const ct::Graph graph =
      ct::build_graph(ct::find_model({.name = "cnn"}), {.batch = 1, .scale = {1, 1, 1}, .shift = {0, 0, 0}});
  RecordedRun recorded(graph, config.optimizer.value());
  RecordedRun::Values values;
  int64_t count = 0;
  for (const ct::Parameter& p : graph.parameters()) {
    values.emplace_back(static_cast<size_t>(p.layout.numel()));
    count += p.layout.numel();
  }
  std::ifstream from(weights, std::ios::binary), steps(gradients, std::ios::binary | std::ios::ate);
  const auto step_bytes = static_cast<std::streamoff>(count * 4);
  const std::streamoff number = steps.tellg() / step_bytes;
  if (number < 1 || steps.tellg() % step_bytes != 0)
    ct::fail(ct::ExitCode::data, gradients, ": not a whole number of steps of ", count, " gradients");
  steps.seekg(0);
  read(from, values);
  if (!from) ct::fail(ct::ExitCode::data, weights, ": fewer than ", count, " weights");
  recorded.set_weights(values);
  for (std::streamoff step = 0; step < number; ++step) {
    read(steps, values);
    recorded.step(values);
  }
  std::ofstream to(result, std::ios::binary);
  for (const auto& v : recorded.weights())
    to.write(reinterpret_cast<const char*>(v.data()), static_cast<std::streamsize>(v.size() * 4));
  if (!to.flush()) ct::fail(ct::ExitCode::io, result, ": cannot be written");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: optimizer_steps WEIGHTS GRADIENTS RESULT OPTIMIZER\n");
    return 2;
  }
  try {
    run(argv[1], argv[2], argv[3], argv[4]);
  } catch (const ct::Error& e) {
    std::fprintf(stderr, "error: %s\n", e.what());
    return static_cast<int>(e.code());
  }
  return 0;
}
