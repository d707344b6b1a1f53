// What the rows are made with: memory of the device, a stopwatch, and the table that they go into. The rows themselves
// lie in the files beside this one, by the kernels' families.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "augment.h"
#include "conv_relu_pool.h"
#include "element.h"
#include "grad_norm.h"
#include "muon.h"
#include "optimizer.h"
#include "plan/step_scalars.h"
#include "softmax_cross_entropy.h"
#include "trust.h"

namespace ct::kernels {

inline constexpr double kShare = 0.85, kAdamShare = 0.92;  // of the copy's bandwidth
inline constexpr int64_t kLarge = int64_t{256} << 20;      // bytes of traffic: far beyond the caches

void check(cudaError_t error, const std::string& what);
int64_t size_of(Type type);
const char* name_of(Type type);

/// One piece of device memory, given out from its begin again for every case.
class Arena {
 public:
  explicit Arena(int64_t bytes) : bytes_(bytes) {
    check(cudaMalloc(&base_, static_cast<size_t>(bytes)), "device memory");
    fill();
  }
  ~Arena() { cudaFree(base_); }
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  void rewind() { used_ = 0; }
  template <class T>
  T* take(int64_t n) {
    const int64_t begin = used_;
    used_ += (n * static_cast<int64_t>(sizeof(T)) + 1023) / 1024 * 1024;
    if (used_ > bytes_) throw std::runtime_error("a case needs more memory than there is");
    return reinterpret_cast<T*>(base_ + begin);
  }
  void* take(Type type, int64_t n) { return take<unsigned char>(n * size_of(type)); }
  template <class T>
  T* of(const std::vector<T>& values) {
    T* at = take<T>(static_cast<int64_t>(values.size()));
    check(cudaMemcpy(at, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice), "copying to the device");
    return at;
  }
  template <class T>
  T* zeros(int64_t n) {
    T* at = take<T>(n);
    check(cudaMemset(at, 0, static_cast<size_t>(n) * sizeof(T)), "cudaMemset");
    return at;
  }

 private:
  void fill();
  int64_t bytes_, used_ = 0;
  unsigned char* base_ = nullptr;
};

using Launch = std::function<cudaError_t(cudaStream_t)>;

/// Times launches.
class Stopwatch {
 public:
  Stopwatch();
  ~Stopwatch();
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

  /// Microseconds a launch.
  double time(const Launch& launch);

 private:
  double window(const Launch& launch, int launches, int replays);
  cudaStream_t stream_ = nullptr;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

struct Row {
  std::string kernel, type, shape;
  double us = 0;
  int64_t bytes = 0;  // 0: time alone
  double target = 0;  // share of the copy's bandwidth; 0: none
  double gb_per_s() const { return static_cast<double>(bytes) / us / 1e3; }
};

template <class... Dimensions>
std::string shape_of(Dimensions... dimensions) {
  std::string text;
  ((text += (text.empty() ? "" : " x ") + std::to_string(dimensions)), ...);
  return text;
}

class Bench {
 public:
  Bench(int64_t memory, int64_t shrink) : arena_(memory), shrink_(shrink) {}

  void run();
  const std::vector<Row>& rows() const { return rows_; }
  double copy_gb_per_s() const { return rows_.front().gb_per_s(); }

 private:
  int64_t shrunk(int64_t n) const { return std::max<int64_t>(n / shrink_, 1); }
  /// Against the copy; `target` is the share that it must reach, 0 for none.
  void large(const std::string& kernel, const std::string& type, const std::string& shape, int64_t bytes, double target,
             const Launch& launch);
  /// Time alone.
  void small(const std::string& kernel, const std::string& type, const std::string& shape, const Launch& launch);
  void measure(Row row, const Launch& launch);

  void copies();
  void elementwise();
  void biases();
  void pools();
  void batch_norms();
  void small_batch_norms();
  void layer_norms();
  void augments();
  void tokens_of_images();
  void edits();
  void optimizers();
  void sums();
  void losses();
  void attentions();
  void sequences();
  void fast_feed_forwards();
  void mixtures_of_experts();
  void at_the_tutorials_sizes();

  // Arguments that more than one file launches with.
  AugmentArgs of_images(int64_t n, int64_t count, Type type, int64_t stride, bool planar, bool draws);
  StepScalars* scalars();
  Launch of_adam(const std::vector<int64_t>& sizes, bool copy);
  SquareSumsArgs of_squares(int64_t n);
  SoftmaxCrossEntropyArgs of_loss(int64_t rows, int64_t classes, int64_t stride);

  // Of their own files.
  std::vector<int64_t> resnet50() const;
  template <class Rule>
  Launch update_by(const Rule& rule, const std::vector<int64_t>& sizes, bool copy);
  template <class Rule>
  void update_row(const std::vector<int64_t>& sizes, int64_t n, const std::string& shape);
  void trust(const std::vector<int64_t>& sizes, int64_t n, const std::string& shape);
  void directions();
  std::vector<SquareChunk> chunks(int64_t n) const;
  void convolutions(const ConvReluPoolShape& shape);
  void layer(int64_t n, int64_t in, int64_t out);

  Arena arena_;
  Stopwatch watch_;
  const int64_t shrink_;
  std::vector<Row> rows_;
};

}  // namespace ct::kernels
