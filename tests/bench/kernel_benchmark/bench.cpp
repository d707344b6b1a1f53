#include "bench.h"

namespace ct::kernels {

void check(cudaError_t error, const std::string& what) {
  if (error != cudaSuccess) throw std::runtime_error(what + ": " + cudaGetErrorString(error));
}

int64_t size_of(Type type) { return type == Type::f32 ? 4 : 2; }

const char* name_of(Type type) {
  switch (type) {
    case Type::f32:
      return "f32";
    case Type::bf16:
      return "bf16";
    case Type::f16:
      return "f16";
  }
  return "?";
}

/// Numbers of both signs in every element type, none of them large.
void Arena::fill() {
  std::vector<uint16_t> numbers(size_t{1} << 22);
  uint32_t state = 2463534242u;
  for (uint16_t& x : numbers) {
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    x = static_cast<uint16_t>((state & 0x83ff) | 0x3c00);
  }
  const auto piece = static_cast<int64_t>(numbers.size() * sizeof numbers[0]);
  for (int64_t at = 0; at < bytes_; at += piece)
    check(cudaMemcpy(base_ + at, numbers.data(), static_cast<size_t>(std::min(piece, bytes_ - at)),
                     cudaMemcpyHostToDevice),
          "copying to the device");
}

Stopwatch::Stopwatch() {
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  check(cudaEventCreate(&begin_), "cudaEventCreate");
  check(cudaEventCreate(&end_), "cudaEventCreate");
}

Stopwatch::~Stopwatch() {
  cudaEventDestroy(begin_);
  cudaEventDestroy(end_);
  cudaStreamDestroy(stream_);
}

double Stopwatch::time(const Launch& launch) {
  check(cudaDeviceSynchronize(), "preparing a case");  // copies are of the null stream, which this one does not await
  check(launch(stream_), "a launch");
  check(cudaStreamSynchronize(stream_), "a kernel");
  constexpr int kFirst = 4, kMost = 1000, kWindows = 7;
  constexpr double kWindowUs = 4000;
  const double once = std::max(window(launch, kFirst, 1), 0.01);
  return window(launch, std::clamp(static_cast<int>(kWindowUs / once), 1, kMost), kWindows);
}

/// Of `launches` in one graph, the median of so many replays; one more warms up.
double Stopwatch::window(const Launch& launch, int launches, int replays) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  for (int i = 0; i < launches; ++i) check(launch(stream_), "a captured launch");
  check(cudaStreamEndCapture(stream_, &graph), "cudaStreamEndCapture");
  check(cudaGraphInstantiate(&executable, graph, 0), "cudaGraphInstantiate");
  std::vector<double> times;
  for (int i = 0; i <= replays; ++i) {
    float ms = 0;
    check(cudaEventRecord(begin_, stream_), "cudaEventRecord");
    check(cudaGraphLaunch(executable, stream_), "cudaGraphLaunch");
    check(cudaEventRecord(end_, stream_), "cudaEventRecord");
    check(cudaEventSynchronize(end_), "a kernel");
    check(cudaEventElapsedTime(&ms, begin_, end_), "cudaEventElapsedTime");
    if (i > 0) times.push_back(1e3 * static_cast<double>(ms) / launches);
  }
  check(cudaGraphExecDestroy(executable), "cudaGraphExecDestroy");
  check(cudaGraphDestroy(graph), "cudaGraphDestroy");
  std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
  return times[times.size() / 2];
}

void Bench::run() {
  copies();
  elementwise();
  biases();
  pools();
  batch_norms();
  small_batch_norms();
  layer_norms();
  augments();
  tokens_of_images();
  edits();
  optimizers();
  sums();
  losses();
  attentions();
  sequences();
  fast_feed_forwards();
  mixtures_of_experts();
  at_the_tutorials_sizes();
}

void Bench::large(const std::string& kernel, const std::string& type, const std::string& shape, int64_t bytes,
                  double target, const Launch& launch) {
  measure({kernel, type, shape, 0, bytes, bytes >= kLarge / shrink_ ? target : 0}, launch);
}

void Bench::small(const std::string& kernel, const std::string& type, const std::string& shape, const Launch& launch) {
  measure({kernel, type, shape}, launch);
}

void Bench::measure(Row row, const Launch& launch) {
  try {
    row.us = watch_.time(launch);
  } catch (const std::exception& error) {
    throw std::runtime_error(row.kernel + " " + row.type + " " + row.shape + ": " + error.what());
  }
  rows_.push_back(row);
  arena_.rewind();
}

}  // namespace ct::kernels
