// kernel_benchmark [--json FILE] [--shrink N]: what each kernel reaches on this GPU.
//
// At large sizes its bytes, by its header's formula, over its time, against the copy kernel (1 GiB read, 1 GiB
// written); with the share that is the target, where there is one. At the tutorial's sizes its time alone. Launches are
// replayed from a CUDA graph, so that their cost does not count: medians of windows of some milliseconds. --shrink
// divides the large sizes, for a try. Exit code 77: no GPU.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "augment.h"
#include "batch_norm.h"
#include "bias.h"
#include "conv_relu_pool.h"
#include "copy.h"
#include "elementwise.h"
#include "linear.h"
#include "norm.h"
#include "optimizer.h"
#include "pool.h"
#include "softmax_cross_entropy.h"
#include "step_control.h"
#include "tree_sum.h"

namespace ct::kernels {
namespace {

constexpr double kShare = 0.85, kAdamShare = 0.92;  // of the copy's bandwidth
constexpr int64_t kLarge = int64_t{256} << 20;      // bytes of traffic: far beyond the caches

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
  /// Numbers of both signs in every element type, none of them large.
  void fill() {
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
  int64_t bytes_, used_ = 0;
  unsigned char* base_ = nullptr;
};

using Launch = std::function<cudaError_t(cudaStream_t)>;

/// Times launches.
class Stopwatch {
 public:
  Stopwatch() {
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    check(cudaEventCreate(&begin_), "cudaEventCreate");
    check(cudaEventCreate(&end_), "cudaEventCreate");
  }
  ~Stopwatch() {
    cudaEventDestroy(begin_);
    cudaEventDestroy(end_);
    cudaStreamDestroy(stream_);
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

  /// Microseconds a launch.
  double time(const Launch& launch) {
    check(cudaDeviceSynchronize(), "preparing a case");  // copies are of the null stream, which this one does not await
    check(launch(stream_), "a launch");
    check(cudaStreamSynchronize(stream_), "a kernel");
    constexpr int kFirst = 4, kMost = 1000, kWindows = 7;
    constexpr double kWindowUs = 4000;
    const double once = std::max(window(launch, kFirst, 1), 0.01);
    return window(launch, std::clamp(static_cast<int>(kWindowUs / once), 1, kMost), kWindows);
  }

 private:
  /// Of `launches` in one graph, the median of so many replays; one more warms up.
  double window(const Launch& launch, int launches, int replays) {
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

  void run() {
    copies();
    elementwise();
    biases();
    pools();
    batch_norms();
    augments();
    optimizers();
    sums();
    at_the_tutorials_sizes();
  }
  const std::vector<Row>& rows() const { return rows_; }
  double copy_gb_per_s() const { return rows_.front().gb_per_s(); }

 private:
  int64_t shrunk(int64_t n) const { return std::max<int64_t>(n / shrink_, 1); }
  void large(const std::string& kernel, const std::string& type, const std::string& shape, int64_t bytes, double target,
             const Launch& launch) {
    measure({kernel, type, shape, 0, bytes, bytes >= kLarge / shrink_ ? target : 0}, launch);
  }
  void small(const std::string& kernel, const std::string& type, const std::string& shape, const Launch& launch) {
    measure({kernel, type, shape}, launch);
  }
  void measure(Row row, const Launch& launch) {
    try {
      row.us = watch_.time(launch);
    } catch (const std::exception& error) {
      throw std::runtime_error(row.kernel + " " + row.type + " " + row.shape + ": " + error.what());
    }
    rows_.push_back(row);
    arena_.rewind();
  }

  void copies() {
    const int64_t bytes = shrunk(int64_t{1} << 30);
    const CopyArgs args{
        .from = arena_.take<unsigned char>(bytes), .to = arena_.take<unsigned char>(bytes), .bytes = bytes};
    large("copy", "bytes", shape_of(bytes), 2 * bytes, 0, [=](cudaStream_t s) { return copy(args, s); });
  }

  void elementwise() {
    for (const Type type : {Type::f32, Type::bf16}) {
      const int64_t e = size_of(type), n = shrunk((int64_t{512} << 20) / e);
      const std::string name = name_of(type), shape = shape_of(n);
      const ReluArgs of_relu{.type = type, .n = n, .x = arena_.take(type, n), .y = arena_.take(type, n)};
      large("relu", name, shape, 2 * n * e, kShare, [=](cudaStream_t s) { return relu(of_relu, s); });
      const ReluGradArgs of_grad{
          .type = type, .n = n, .y = arena_.take(type, n), .dy = arena_.take(type, n), .dx = arena_.take(type, n)};
      large("relu_grad", name, shape, 3 * n * e, kShare, [=](cudaStream_t s) { return relu_grad(of_grad, s); });
      const AddArgs of_add{
          .type = type, .n = n, .a = arena_.take(type, n), .b = arena_.take(type, n), .y = arena_.take(type, n)};
      large("add", name, shape, 3 * n * e, kShare, [=](cudaStream_t s) { return add(of_add, s); });
      large("add_relu", name, shape, 3 * n * e, kShare, [=](cudaStream_t s) { return add_relu(of_add, s); });
      const FillArgs of_fill{.type = type, .n = n, .value = 0.5f, .y = arena_.take(type, n)};
      large("fill", name, shape, n * e, kShare, [=](cudaStream_t s) { return fill(of_fill, s); });
      const int64_t rows = shrunk((int64_t{512} << 20) / e / 1008);
      const CopyRowsArgs of_rows{.type = type,
                                 .rows = rows,
                                 .features = 1000,
                                 .x_stride = 1000,
                                 .y_stride = 1008,
                                 .x = arena_.take(type, rows * 1000),
                                 .y = arena_.take(type, rows * 1008)};
      large("copy_rows", name, shape_of(rows, 1000, 1008), rows * 2008 * e, 0,
            [=](cudaStream_t s) { return copy_rows(of_rows, s); });
    }
    const int64_t n = shrunk(int64_t{128} << 20);
    const Type pairs[][2] = {{Type::f32, Type::bf16}, {Type::bf16, Type::f32}, {Type::f32, Type::f16}};
    for (const auto& [from, to] : pairs) {
      const CastArgs args{.from = from, .to = to, .n = n, .x = arena_.take(from, n), .y = arena_.take(to, n)};
      large("cast", std::string(name_of(from)) + "-" + name_of(to), shape_of(n), n * (size_of(from) + size_of(to)),
            kShare, [=](cudaStream_t s) { return cast(args, s); });
    }
    const ZeroArgs args{.bytes = 4 * n, .y = arena_.take<float>(n)};
    large("zero", "bytes", shape_of(4 * n), 4 * n, kShare, [=](cudaStream_t s) { return zero(args, s); });
  }

  void biases() {
    for (const Type type : {Type::f32, Type::bf16}) {
      const int64_t e = size_of(type), rows = shrunk(802816), channels = 256, n = rows * channels;
      const std::string name = name_of(type), shape = shape_of(rows, channels);
      const BiasArgs args{.type = type,
                          .rows = rows,
                          .channels = channels,
                          .stride = channels,
                          .relu = true,
                          .x = arena_.take(type, n),
                          .b = arena_.take<float>(channels),
                          .y = arena_.take(type, n)};
      large("bias+relu", name, shape, 2 * n * e + 4 * channels, kShare, [=](cudaStream_t s) { return bias(args, s); });
      for (const bool masked : {false, true}) {
        const auto workspace = static_cast<int64_t>(bias_grad_workspace_bytes(rows, channels));
        const BiasGradArgs grad{.type = type,
                                .rows = rows,
                                .channels = channels,
                                .stride = channels,
                                .dy = arena_.take(type, n),
                                .y = masked ? arena_.take(type, n) : nullptr,
                                .db = arena_.take<float>(channels),
                                .workspace = workspace > 0 ? arena_.take<float>(workspace / 4) : nullptr};
        large(masked ? "bias_grad, masked" : "bias_grad", name, shape,
              (masked ? 2 : 1) * n * e + 4 * channels + 2 * workspace, kShare,
              [=](cudaStream_t s) { return bias_grad(grad, s); });
      }
    }
  }

  void pools() {
    for (const Type type : {Type::f32, Type::bf16}) {
      const int64_t e = size_of(type), n = shrunk(256), side = 112, channels = 64;
      const int64_t x = n * side * side * channels, p = x / 4;
      const std::string name = name_of(type), shape = shape_of(n, side, side, channels);
      void *const image = arena_.take(type, x), *const pooled = arena_.take(type, p);
      auto* const winner = arena_.take<uint8_t>(p);
      const MaxPoolArgs args{.type = type,
                             .n = n,
                             .height = side,
                             .width = side,
                             .channels = channels,
                             .size = 2,
                             .x = image,
                             .y = pooled,
                             .winner = winner};
      large("max_pool", name, shape, 5 * p * e + p, kShare, [=](cudaStream_t s) { return max_pool(args, s); });
      // The winners that it wrote are still there.
      const MaxPoolGradArgs grad{.type = type,
                                 .n = n,
                                 .height = side,
                                 .width = side,
                                 .channels = channels,
                                 .size = 2,
                                 .dy = pooled,
                                 .winner = winner,
                                 .dx = image};
      large("max_pool_grad", name, shape, (x + p) * e + p, kShare,
            [=](cudaStream_t s) { return max_pool_grad(grad, s); });
      const ReluPoolArgs of_relu{.type = type,
                                 .n = n,
                                 .height = side,
                                 .width = side,
                                 .channels = channels,
                                 .x = arena_.take(type, x),
                                 .b = arena_.take<float>(channels),
                                 .y = arena_.take(type, p),
                                 .winner = arena_.take<uint8_t>(p)};
      large("relu_pool", name, shape, 5 * p * e + p + 4 * channels, kShare,
            [=](cudaStream_t s) { return relu_pool(of_relu, s); });

      const int64_t images = shrunk(2048), pixels = 49, features = 2048, all = images * pixels * features;
      const AveragePoolArgs average{.type = type,
                                    .n = images,
                                    .pixels = pixels,
                                    .channels = features,
                                    .y_stride = features,
                                    .x = arena_.take(type, all),
                                    .y = arena_.take(type, images * features)};
      const std::string of_images = shape_of(images, pixels, features);
      large("average_pool", name, of_images, (all + images * features) * e, kShare,
            [=](cudaStream_t s) { return average_pool(average, s); });
      const AveragePoolGradArgs spread{.type = type,
                                       .n = images,
                                       .pixels = pixels,
                                       .channels = features,
                                       .dy_stride = features,
                                       .dy = arena_.take(type, images * features),
                                       .dx = arena_.take(type, all)};
      large("average_pool_grad", name, of_images, (all + images * features) * e, kShare,
            [=](cudaStream_t s) { return average_pool_grad(spread, s); });
    }
  }

  /// ResNet-50's, of a batch of 256.
  void batch_norms() {
    const int64_t shapes[][2] = {{3211264, 64}, {802816, 256}, {200704, 512}, {50176, 1024}};
    for (const Type type : {Type::f32, Type::bf16})
      for (const auto& [all_rows, channels] : shapes) {
        const int64_t rows = shrunk(all_rows), n = rows * channels, tensor = n * size_of(type);
        const BatchNormShape shape{rows, channels, type};
        const auto workspace = static_cast<int64_t>(batch_norm_workspace(shape));
        const std::string name = name_of(type), text = shape_of(rows, channels);
        const auto args = [&](bool residual) {
          return BatchNormArgs{.shape = shape,
                               .eps = 1e-5,
                               .relu = true,
                               .x = arena_.take(type, n),
                               .residual = residual ? arena_.take(type, n) : nullptr,
                               .w = arena_.take<float>(channels),
                               .b = arena_.take<float>(channels),
                               .y = arena_.take(type, n),
                               .mean = arena_.zeros<float>(channels),
                               .var = arena_.zeros<float>(channels),
                               .workspace = arena_.take<double>(workspace / 8 + 1)};
        };
        const auto forward = [&](const char* kernel, bool residual, int64_t tensors, auto&& launcher) {
          const BatchNormArgs a = args(residual);
          large(kernel, name, text, tensors * tensor + 2 * workspace, kShare,
                [=](cudaStream_t s) { return launcher(a, s); });
        };
        forward("batch_norm+relu", false, 3, batch_norm);
        forward("batch_norm+add+relu", true, 4, batch_norm);
        forward("batch_norm_result+relu", false, 2, batch_norm_result);
        for (const bool residual : {false, true}) {
          const BatchNormGradArgs grad{.shape = shape,
                                       .eps = 1e-5,
                                       .x = arena_.take(type, n),
                                       .y = arena_.take(type, n),
                                       .dy = arena_.take(type, n),
                                       .w = arena_.take<float>(channels),
                                       .mean = arena_.zeros<float>(channels),
                                       .var = arena_.zeros<float>(channels),
                                       .dx = arena_.take(type, n),
                                       .dresidual = residual ? arena_.take(type, n) : nullptr,
                                       .dw = arena_.take<float>(channels),
                                       .db = arena_.take<float>(channels),
                                       .batch_mean = arena_.take<float>(channels),
                                       .batch_var = arena_.take<float>(channels),
                                       .workspace = arena_.take<double>(workspace / 8 + 1)};
          large(residual ? "batch_norm_grad+add" : "batch_norm_grad", name, text, 7 * tensor + 2 * workspace, kShare,
                [=](cudaStream_t s) { return batch_norm_grad(grad, s); });
        }
      }
  }

  AugmentArgs of_images(int64_t n, int64_t count, Type type, int64_t stride, bool planar, bool draws) {
    std::vector<int32_t> index, moves;
    for (int64_t i = 0; i < n; ++i) {
      index.push_back(static_cast<int32_t>(i * 7919 % count));
      for (const int64_t draw : {i % 9 - 4, i / 9 % 9 - 4, i % 2, int64_t{0}})
        moves.push_back(static_cast<int32_t>(draw));
    }
    return {.n = n,
            .channels = 3,
            .height = 32,
            .width = 32,
            .stride = planar ? 0 : stride,
            .planar = planar,
            .type = type,
            .count = count,
            .images = arena_.take<uint8_t>(count * 3072),
            .index = arena_.of(index),
            .draws = draws ? arena_.of(moves) : nullptr,
            .scale = arena_.of(std::vector<float>(3, 1 / 127.5f)),
            .shift = arena_.of(std::vector<float>(3, -1)),
            .out = arena_.take(type, n * 1024 * (planar ? 3 : stride))};
  }
  void augments() {
    const int64_t n = shrunk(65536);
    for (const Type type : {Type::f32, Type::bf16})
      for (const bool draws : {false, true})
        for (const bool planar : {false, true}) {
          const AugmentArgs args = of_images(n, n, type, /*stride=*/4, planar, draws);
          large(draws ? "augment" : "normalise", name_of(type), shape_of(n, 3, 32, 32) + (planar ? ", planar" : ""),
                n * (3072 + 4 + (draws ? 16 : 0) + 1024 * (planar ? 3 : 4) * size_of(type)), draws ? 0 : kShare,
                [=](cudaStream_t s) { return augment(args, s); });
        }
  }

  /// Sizes of ResNet-50's 161 tensors.
  std::vector<int64_t> resnet50() const {
    std::vector<int64_t> sizes;
    const auto convolution = [&](int64_t out, int64_t in, int64_t kernel) {
      sizes.insert(sizes.end(), {out * in * kernel * kernel, out, out});  // with its batch norm
    };
    convolution(64, 3, 7);
    int64_t in = 64, planes = 64;
    for (const int blocks : {3, 4, 6, 3}) {
      for (int block = 0; block < blocks; ++block, in = 4 * planes) {
        convolution(planes, in, 1);
        convolution(planes, planes, 3);
        convolution(4 * planes, planes, 1);
        if (block == 0) convolution(4 * planes, in, 1);
      }
      planes *= 2;
    }
    sizes.insert(sizes.end(), {2048 * 1000, 1000});
    for (int64_t& n : sizes) n = shrunk(n);
    return sizes;
  }
  StepScalars* scalars() {
    return arena_.of(std::vector<StepScalars>{
        {.applied = 1, .window_begin = 1, .grad_scale = 1, .lr = 1e-6, .coefficients = {0.9, 0.999, 0.1, 0.001}}});
  }
  std::vector<AdamSlice> adam_slices(const std::vector<int64_t>& sizes, bool copy) {
    std::vector<AdamSlice> slices;
    for (const int64_t n : sizes)
      slices.push_back({{.masters = arena_.take<float>(n),
                         .grads = arena_.take<float>(n),
                         .copy = copy ? arena_.take(Type::bf16, n) : nullptr,
                         .copy_type = copy ? Type::bf16 : Type::f32,
                         .n = n,
                         .weight_decay = 0.01},
                        /*exp_avg=*/arena_.take<float>(n),
                        /*exp_avg_sq=*/arena_.zeros<float>(n)});
    return slices;
  }
  Launch of_adam(const std::vector<int64_t>& sizes, bool copy) {
    return [slices = adam_slices(sizes, copy), scalars = scalars()](cudaStream_t s) {
      return adam({.all = {slices.data(), static_cast<int>(slices.size()), scalars}, .eps = 1e-8, .decoupled = true},
                  s);
    };
  }
  void optimizers() {
    const std::vector<int64_t> network = resnet50(), one = {shrunk(int64_t{64} << 20)};
    for (const std::vector<int64_t>& sizes : {network, one}) {
      int64_t n = 0;
      for (const int64_t size : sizes) n += size;
      const std::string shape =
          std::to_string(sizes.size()) + (sizes.size() == 1 ? " tensor, " : " tensors, ") + std::to_string(n);
      large("adam", "f32", shape, 28 * n, kAdamShare, of_adam(sizes, /*copy=*/false));
      large("adam+copy", "f32-bf16", shape, 30 * n, kAdamShare, of_adam(sizes, /*copy=*/true));
      std::vector<SgdSlice> slices;
      for (const int64_t size : sizes)
        slices.push_back(
            {{.masters = arena_.take<float>(size), .grads = arena_.take<float>(size), .n = size, .weight_decay = 0.01},
             /*momentum_buffer=*/arena_.take<float>(size)});
      std::vector<BlendSlice> blended;
      for (const SgdSlice& slice : slices)
        blended.push_back({.masters = slice.masters, .sums = slice.grads, .n = slice.n, .momentum = 0.1});
      large("blend", "f32", shape, 12 * n, 0, [blended, scalars = scalars()](cudaStream_t s) {
        return blend({.slices = blended.data(),
                      .slice_count = static_cast<int>(blended.size()),
                      .micro_batches = 1,
                      .scalars = scalars},
                     s);
      });
      large("sgd", "f32", shape, 20 * n, 0, [slices, scalars = scalars()](cudaStream_t s) {
        return sgd({.all = {slices.data(), static_cast<int>(slices.size()), scalars}, .nesterov = false}, s);
      });
      std::vector<RmsPropSlice> centered;
      for (const int64_t size : sizes)
        centered.push_back({{.masters = arena_.take<float>(size), .grads = arena_.take<float>(size), .n = size},
                            /*square_avg=*/arena_.zeros<float>(size),
                            /*momentum_buffer=*/arena_.take<float>(size),
                            /*grad_avg=*/arena_.zeros<float>(size)});
      large("rmsprop", "f32", shape, 36 * n, 0, [centered, scalars = scalars()](cudaStream_t s) {
        return rmsprop(
            {.all = {centered.data(), static_cast<int>(centered.size()), scalars}, .alpha = 0.99, .eps = 1e-8}, s);
      });
    }
  }

  std::vector<SquareChunk> chunks(int64_t n) const {
    std::vector<SquareChunk> all;
    for (int64_t at = 0; at < n; at += kSquareChunk)
      all.push_back({at, std::min(at + kSquareChunk, n), static_cast<int64_t>(all.size())});
    return all;
  }
  SquareSumsArgs of_squares(int64_t n) {
    const std::vector<SquareChunk> table = chunks(n);
    const auto count = static_cast<int64_t>(table.size());
    return {.grads = arena_.take<float>(n),
            .chunks = arena_.of(table),
            .count = count,
            .sums = arena_.zeros<double>(count)};
  }
  void sums() {
    const int64_t n = shrunk(int64_t{128} << 20);
    const SquareSumsArgs squares = of_squares(n);
    large("square_sums", "f32", shape_of(n), 4 * n + 32 * squares.count, 0,
          [=](cudaStream_t s) { return square_sums(squares, s); });

    const std::vector<const float*> terms = {arena_.take<float>(n), arena_.take<float>(n), arena_.take<float>(n)};
    float* const out = arena_.take<float>(n);
    large("sum_in_order", "f32", shape_of(n) + ", 3 terms", 16 * n, 0, [=](cudaStream_t s) {
      return sum_in_order({.terms = terms.data(), .count = static_cast<int>(terms.size()), .out = out, .n = n}, s);
    });

    const float* const leaf = arena_.take<float>(n);
    const int32_t* const counter = arena_.of(std::vector<int32_t>{1});  // it meets leaf 0
    const std::vector<float*> levels = {arena_.take<float>(n), arena_.take<float>(n)};
    large("tree_push", "f32", shape_of(n) + ", 1 merge", 12 * n, 0, [=](cudaStream_t s) {
      return tree_push({.values = leaf,
                        .counter = counter,
                        .last = false,
                        .levels = levels.data(),
                        .level_count = static_cast<int>(levels.size()),
                        .n = n},
                       s);
    });

    const int64_t rows = shrunk(65536);
    const SoftmaxCrossEntropyArgs loss = of_loss(rows, 1000, 1008);
    large("softmax_cross_entropy", "f32", shape_of(rows, 1000), rows * (4 * 1000 + 4 * 1008 + 16), 0,
          [=](cudaStream_t s) { return softmax_cross_entropy(loss, s); });
  }
  SoftmaxCrossEntropyArgs of_loss(int64_t rows, int64_t classes, int64_t stride) {
    return {.n = rows,
            .classes = classes,
            .stride = stride,
            .logits = arena_.take<float>(rows * stride),
            .labels = arena_.zeros<int32_t>(rows),
            .label_smoothing = 0,
            .loss_scale = nullptr,
            .losses = arena_.take<float>(rows),
            .predicted = arena_.take<int32_t>(rows),
            .larger = arena_.take<int32_t>(rows),
            .dlogits = arena_.take<float>(rows * stride)};
  }

  // ---- the tutorial's network, four images (and many, for its convolutions): time alone

  void convolutions(const ConvReluPoolShape& shape) {
    const std::string name = name_of(shape.type), text = shape_of(shape.n, shape.in_channels, shape.height, shape.width,
                                                                  shape.out_channels, shape.kernel);
    const int64_t x = shape.n * shape.in_channels * shape.height * shape.width;
    const int64_t w = shape.out_channels * shape.kernel * shape.kernel * shape.in_channels;
    const int64_t y = shape.n * shape.pooled_height() * shape.pooled_width() * shape.out_channels;
    const ConvReluPoolArgs forward{.shape = shape,
                                   .x = arena_.take(shape.type, x),
                                   .w = arena_.take(shape.type, w),
                                   .b = arena_.take<float>(shape.out_channels),
                                   .y = arena_.take(shape.type, y),
                                   .winner = arena_.take<uint8_t>(y)};
    const ConvReluPoolGradWArgs of_weights{
        .shape = shape,
        .x = forward.x,
        .dy = arena_.take(shape.type, y),
        .winner = forward.winner,
        .dw = arena_.take<float>(w),
        .db = arena_.take<float>(shape.out_channels),
        .workspace = arena_.take<float>(static_cast<int64_t>(conv_relu_pool_grad_weights_workspace(shape) / 4) + 1)};
    const ConvReluPoolGradXArgs of_input{.shape = shape,
                                         .w = forward.w,
                                         .dy = of_weights.dy,
                                         .winner = forward.winner,
                                         .dx = arena_.take(shape.type, x)};
    small("conv_relu_pool", name, text, [=](cudaStream_t s) { return conv_relu_pool(forward, s); });
    small("conv_relu_pool_grad_w", name, text,
          [=](cudaStream_t s) { return conv_relu_pool_grad_weights(of_weights, s); });
    if (!shape.planar)
      small("conv_relu_pool_grad_x", name, text,
            [=](cudaStream_t s) { return conv_relu_pool_grad_input(of_input, s); });
  }
  void layer(int64_t n, int64_t in, int64_t out) {
    const auto padded = [](int64_t features) { return (features + 15) / 16 * 16; };
    const int64_t in_stride = padded(in), out_stride = padded(out);
    const std::string text = shape_of(n, in, out);
    const LinearArgs forward{.type = Type::f32,
                             .y_type = Type::f32,
                             .n = n,
                             .in = in,
                             .out = out,
                             .x_stride = in_stride,
                             .w_stride = in_stride,
                             .y_stride = out_stride,
                             .relu = true,
                             .x = arena_.take<float>(n * in_stride),
                             .w = arena_.take<float>(out * in_stride),
                             .b = arena_.take<float>(out),
                             .y = arena_.take<float>(n * out_stride)};
    const LinearGradXArgs of_input{.type = Type::f32,
                                   .y_type = Type::f32,
                                   .n = n,
                                   .in = in,
                                   .out = out,
                                   .w_stride = in_stride,
                                   .dy_stride = out_stride,
                                   .dx_stride = in_stride,
                                   .w = forward.w,
                                   .dy = forward.y,
                                   .dx = arena_.take<float>(n * in_stride)};
    const LinearGradWArgs of_weights{.type = Type::f32,
                                     .y_type = Type::f32,
                                     .n = n,
                                     .in = in,
                                     .out = out,
                                     .x_stride = in_stride,
                                     .dy_stride = out_stride,
                                     .dw_stride = in_stride,
                                     .x = forward.x,
                                     .dy = forward.y,
                                     .dw = arena_.take<float>(out * in_stride),
                                     .db = arena_.take<float>(out)};
    small("linear", "f32", text, [=](cudaStream_t s) { return linear(forward, s); });
    small("linear_grad_x", "f32", text, [=](cudaStream_t s) { return linear_grad_input(of_input, s); });
    small("linear_grad_w", "f32", text, [=](cudaStream_t s) { return linear_grad_weights(of_weights, s); });
  }
  void at_the_tutorials_sizes() {
    for (const int64_t n : {int64_t{4}, shrunk(512)}) {
      convolutions({n, 3, 32, 32, 6, 5, /*planar=*/true, Type::f32});
      convolutions({n, 6, 14, 14, 16, 5, /*planar=*/false, Type::f32});
    }
    layer(4, 400, 120);
    layer(4, 120, 84);
    layer(4, 84, 10);
    const SoftmaxCrossEntropyArgs loss = of_loss(4, 10, 16);
    small("softmax_cross_entropy", "f32", shape_of(4, 10),
          [=](cudaStream_t s) { return softmax_cross_entropy(loss, s); });
    const std::vector<int64_t> sizes = {6 * 75, 6, 16 * 150, 16, 120 * 400, 120, 84 * 120, 84, 10 * 84, 10};
    small("adam", "f32", "10 tensors, 62006", of_adam(sizes, /*copy=*/false));
    const SquareSumsArgs squares = of_squares(62006);
    small("square_sums", "f32", shape_of(62006), [=](cudaStream_t s) { return square_sums(squares, s); });
    const StepControlArgs control{.sums = arena_.zeros<double>(24),
                                  .count = 24,
                                  .schedule = arena_.of(std::vector<ScheduleRow>(1)),
                                  .scalars = scalars(),
                                  .clip = 1,
                                  .micro_batches = 1};
    // It counts steps, and each reads its row of the schedule: here all read the first.
    StepControlArgs still = control;
    still.sums = arena_.of(std::vector<double>(24, 1e308));
    small("step_control", "f64", "24 chunks", [=](cudaStream_t s) { return step_control(still, s); });
    const AugmentArgs images = of_images(4, 1024, Type::f32, /*stride=*/0, /*planar=*/true, /*draws=*/false);
    small("normalise", "f32", "4 x 3 x 32 x 32, planar", [=](cudaStream_t s) { return augment(images, s); });
  }

  Arena arena_;
  Stopwatch watch_;
  const int64_t shrink_;
  std::vector<Row> rows_;
};

// ---- what is printed

const char* verdict(const Row& row, double copy) {
  if (row.target == 0) return "";
  return row.gb_per_s() >= row.target * copy ? "met" : "MISSED";
}

void print(const std::vector<Row>& rows, double copy) {
  std::printf("%-28s %-9s %-30s %10s %12s %8s %7s %7s\n", "kernel", "type", "shape", "us", "bytes", "GB/s", "share",
              "target");
  for (const Row& r : rows) {
    std::printf("%-28s %-9s %-30s %10.2f", r.kernel.c_str(), r.type.c_str(), r.shape.c_str(), r.us);
    if (r.bytes > 0)
      std::printf(" %12lld %8.0f %6.1f%%", static_cast<long long>(r.bytes), r.gb_per_s(), 100 * r.gb_per_s() / copy);
    if (r.target > 0) std::printf(" %6.0f%% %s", 100 * r.target, verdict(r, copy));
    std::printf("\n");
  }
}

void write_json(const char* file, const cudaDeviceProp& device, const std::vector<Row>& rows, double copy) {
  std::FILE* const out = std::fopen(file, "w");
  if (!out) throw std::runtime_error(std::string("cannot write ") + file);
  std::fprintf(out, "{\"device\": \"%s\", \"copy_gb_per_s\": %.1f, \"kernels\": [", device.name, copy);
  for (const Row& r : rows) {
    std::fprintf(out, "%s\n  {\"kernel\": \"%s\", \"type\": \"%s\", \"shape\": \"%s\", \"us\": %.3f",
                 &r == rows.data() ? "" : ",", r.kernel.c_str(), r.type.c_str(), r.shape.c_str(), r.us);
    if (r.bytes > 0)
      std::fprintf(out, ", \"bytes\": %lld, \"gb_per_s\": %.1f, \"share\": %.4f", static_cast<long long>(r.bytes),
                   r.gb_per_s(), r.gb_per_s() / copy);
    if (r.target > 0) std::fprintf(out, ", \"target\": %.2f, \"verdict\": \"%s\"", r.target, verdict(r, copy));
    std::fprintf(out, "}");
  }
  std::fprintf(out, "]}\n");
  if (std::fclose(out) != 0) throw std::runtime_error(std::string("cannot write ") + file);
}

int run(int argc, char** argv) {
  const char* json = nullptr;
  int64_t shrink = 1;
  for (int i = 1; i < argc; i += 2)
    if (i + 1 < argc && std::strcmp(argv[i], "--json") == 0)
      json = argv[i + 1];
    else if (i + 1 < argc && std::strcmp(argv[i], "--shrink") == 0 && std::atoll(argv[i + 1]) > 0)
      shrink = std::atoll(argv[i + 1]);
    else
      throw std::runtime_error("usage: kernel_benchmark [--json FILE] [--shrink N]");
  cudaDeviceProp device = {};
  if (const cudaError_t error = cudaGetDeviceProperties(&device, 0); error != cudaSuccess) {
    std::printf("there is no GPU: %s\n", cudaGetErrorString(error));
    return 77;
  }
  std::printf("%s, sm_%d%d\n", device.name, device.major, device.minor);
  constexpr int64_t kMemory = int64_t{5} << 30, kLeast = int64_t{8} << 20;  // the least: the tutorial's sizes
  Bench bench(std::max(kMemory / shrink, kLeast), shrink);
  bench.run();
  const double copy = bench.copy_gb_per_s();
  print(bench.rows(), copy);
  int targets = 0, met = 0;
  for (const Row& row : bench.rows()) {
    targets += row.target > 0;
    met += row.target > 0 && row.gb_per_s() >= row.target * copy;
  }
  std::printf("copy: %.0f GB/s; %d of %d targets met\n", copy, met, targets);
  if (json) write_json(json, device, bench.rows(), copy);
  return 0;
}

}  // namespace
}  // namespace ct::kernels

int main(int argc, char** argv) {
  try {
    return ct::kernels::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: kernel_benchmark: %s\n", error.what());
    return 1;
  }
}
