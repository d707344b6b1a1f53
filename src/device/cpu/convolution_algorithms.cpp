#include "device/cpu/convolution_algorithms.h"

#include <fmt/format.h>

#include <algorithm>
#include <concepts>
#include <cstring>
#include <limits>
#include <map>

#include "base/error.h"
#include "base/files.h"
#include "base/seconds.h"

namespace ct::cpu {
namespace {

/// One or more of an enumeration's values.
template <class Enum>
class Any {
 public:
  template <std::same_as<Enum>... Values>
  constexpr Any(Values... values) : bits_(((1u << static_cast<unsigned>(values)) | ...)) {}
  constexpr bool has(Enum value) const { return (bits_ >> static_cast<unsigned>(value) & 1) != 0; }

 private:
  unsigned bits_;
};
using Units = Any<ConvUnit>;
using Passes = Any<ConvPass>;

constexpr Units kF32(ConvUnit::vector, ConvUnit::avx512);
constexpr Units kAll(ConvUnit::vector, ConvUnit::avx512, ConvUnit::bf16_avx512, ConvUnit::bf16_amx);
constexpr Passes kEvery(ConvPass::forward, ConvPass::grad_x, ConvPass::grad_w);
constexpr Passes kGradients(ConvPass::grad_x, ConvPass::grad_w);

// Classes of shapes.

bool any_shape(const ConvDims&) { return true; }
bool planar(const ConvDims& d) { return d.planar; }
bool pointwise(const ConvDims& d) { return d.kernel == 1 && d.stride == 1; }
bool small_pointwise(const ConvDims& d) { return pointwise(d) && d.out_w <= 16; }
bool strided(const ConvDims& d) { return d.kernel > 1 && d.stride > 1; }
bool strided_pointwise(const ConvDims& d) { return d.kernel == 1 && d.stride > 1; }
bool small_strided_pointwise(const ConvDims& d) { return strided_pointwise(d) && d.out_w <= 8; }
/// Of these the library's kernel for AVX2 (oneDNN 2.6.3), where the image's sides are whole strides, computes wrong
/// gradients of weights, and writes behind them.
bool ragged_strided_pointwise(const ConvDims& d) {
  return strided_pointwise(d) && (d.in_channels % 8 != 0 || d.out_channels % 8 != 0);
}
/// Of what the library may write behind the result: of strided pointwise gradients of weights in f32 it takes that
/// kernel with AVX-512 too where channels are few. The table has `product` for all of them.
bool may_write_behind(const ConvTask& task, ConvAlgorithm algorithm) {
  return task.type == DType::f32 && task.pass == ConvPass::grad_w && strided_pointwise(task.dims) &&
         (algorithm == ConvAlgorithm::direct || algorithm == ConvAlgorithm::blocked);
}
/// Rows so short that the kernels which work on our own order of activations are slow.
bool short_rows(const ConvDims& d) { return d.out_w <= 4 && d.in_channels >= 64; }
bool long_rows(const ConvDims& d) { return d.kernel > 1 && d.out_w > 4; }
/// A quarter of the multiplications, but weights are transformed, which takes some tiles to pay.
bool tiles_at_least(int64_t count, const ConvDims& d) {
  return d.kernel == 3 && d.stride == 1 && d.n * ((d.out_h + 3) / 4) * ((d.out_w + 3) / 4) >= count;
}
bool enough_tiles(const ConvDims& d) { return tiles_at_least(32, d); }
bool many_tiles(const ConvDims& d) { return tiles_at_least(64, d); }

struct Row {
  Units units;
  Passes passes;
  bool (*fits)(const ConvDims&);
  ConvAlgorithm algorithm;
};

/// The first row that fits decides.
constexpr Row kTable[] = {
    // Timed with AVX-512, and with the library held to AVX2.
    {kF32, kEvery, enough_tiles, ConvAlgorithm::winograd},
    {ConvUnit::vector, ConvPass::grad_w, ragged_strided_pointwise, ConvAlgorithm::product},
    {kF32, ConvPass::grad_w, planar, ConvAlgorithm::direct},
    {kF32, kGradients, strided, ConvAlgorithm::product},
    {kF32, kEvery, small_strided_pointwise, ConvAlgorithm::product},
    {kF32, ConvPass::grad_w, pointwise, ConvAlgorithm::product},
    {ConvUnit::avx512, ConvPass::grad_x, long_rows, ConvAlgorithm::product},
    {ConvUnit::avx512, ConvPass::grad_x, short_rows, ConvAlgorithm::blocked},
    {kF32, kEvery, short_rows, ConvAlgorithm::product},
    // Timed with AVX512-BF16.
    {ConvUnit::bf16_avx512, ConvPass::forward, many_tiles, ConvAlgorithm::winograd},
    {ConvUnit::bf16_avx512, kGradients, enough_tiles, ConvAlgorithm::winograd},
    {ConvUnit::bf16_avx512, ConvPass::grad_w, planar, ConvAlgorithm::direct},
    {ConvUnit::bf16_avx512, ConvPass::grad_w, strided, ConvAlgorithm::product},
    {ConvUnit::bf16_avx512, ConvPass::grad_w, strided_pointwise, ConvAlgorithm::product},
    {ConvUnit::bf16_avx512, ConvPass::forward, strided_pointwise, ConvAlgorithm::product},
    {ConvUnit::bf16_avx512, Passes(ConvPass::forward, ConvPass::grad_w), small_pointwise, ConvAlgorithm::product},
    // Not timed: followed from what direct kernels and products were seen to reach with AMX.
    {ConvUnit::bf16_amx, ConvPass::grad_w, any_shape, ConvAlgorithm::product},
    {ConvUnit::bf16_amx, kEvery, short_rows, ConvAlgorithm::product},
    {ConvUnit::bf16_amx, kEvery, strided_pointwise, ConvAlgorithm::product},
    {kAll, kEvery, any_shape, ConvAlgorithm::direct},
};

std::string key_of(const std::string& machine, const ConvTask& task) {
  constexpr const char* kPasses[] = {"forward", "grad_x", "grad_w"};
  const ConvDims& d = task.dims;
  return str(machine, ": convolution ", kPasses[static_cast<size_t>(task.pass)], " ", name_of(task.type), " ", d.n, "x",
             d.in_h, "x", d.in_w, "x", d.in_channels, d.planar ? " planar" : "", " ", d.out_h, "x", d.out_w, "x",
             d.out_channels, " kernel ", d.kernel, " stride ", d.stride, " pad ", d.pad,
             task.bias == kNone ? "" : " bias");
}

/// Milliseconds of a launch on memory of its own: the least of several.
double milliseconds(Kernel& kernel, const ConvTask& task, const std::vector<Value>& values) {
  constexpr int kMostRuns = 8;
  constexpr double kSeconds = 0.3;
  constexpr size_t kSlack = 64;  // vector loads may touch the line after the end
  std::map<ValueId, std::vector<std::byte>> memory;
  const auto allocate = [](size_t bytes) {  // numbers of ordinary size, in either type
    return std::vector<std::byte>(bytes + 2 * kSlack, std::byte{0x3c});
  };
  const auto begin = [](std::vector<std::byte>& bytes) {
    const auto address = reinterpret_cast<uintptr_t>(bytes.data());
    return bytes.data() + (kSlack - address % kSlack) % kSlack;
  };
  for (const ValueId id : {task.image, task.weights, task.result, task.bias})
    if (id != kNone) {
      const Value& value = values[static_cast<size_t>(id)];
      memory[id] = allocate(static_cast<size_t>(value.shape.stored()) * size_of(value.dtype));
    }
  std::vector<std::byte> workspace = allocate(kernel.workspace_bytes());
  const Resolve operands = [&](ValueId id) {
    const Value& value = values[static_cast<size_t>(id)];
    return Tensor{begin(memory.at(id)), value.dtype, value.shape};
  };
  kernel.bind(operands, begin(workspace));
  kernel.launch();
  double least = std::numeric_limits<double>::infinity(), sum = 0;
  for (int run = 0; run < kMostRuns && sum < kSeconds; ++run) {
    const double seconds = seconds_of([&] { kernel.launch(); });
    least = std::min(least, seconds);
    sum += seconds;
  }
  return 1e3 * least;
}

}  // namespace

ConvUnit conv_unit(DType type) {
  if (type == DType::bf16) return bf16_unit() == Bf16Unit::amx ? ConvUnit::bf16_amx : ConvUnit::bf16_avx512;
  return convolution_has_avx512() ? ConvUnit::avx512 : ConvUnit::vector;
}

ConvAlgorithm table_algorithm(const ConvTask& task, ConvUnit unit, bool winograd) {
  const auto fits = [&](const Row& row) {
    return row.units.has(unit) && row.passes.has(task.pass) && row.fits(task.dims) &&
           (winograd || row.algorithm != ConvAlgorithm::winograd);
  };
  return std::find_if(std::begin(kTable), std::end(kTable), fits)->algorithm;
}

std::unique_ptr<Kernel> ConvolutionAlgorithms::prepare(const ConvTask& task, const std::vector<Value>& values) {
  const std::string key = key_of(machine_, task);
  std::string& plan = plans_[key];
  if (!plan.empty()) {
    const std::string word = plan.substr(0, plan.find(' '));
    for (const ConvAlgorithm algorithm : kConvAlgorithms)
      if (name_of(algorithm) == word)
        if (auto kernel = prepare_convolution(task, algorithm)) return kernel;
    plans_.miss(str("the stored plan ", in_quotes(word), " is none of ", key));
    plan.clear();
  }
  if (options_.autotune) {
    plan = fastest(task, values);
    return prepare(task, values);
  }
  // The library may lack the table's algorithm for this shape, or in this version.
  for (const ConvAlgorithm algorithm :
       {table_algorithm(task, conv_unit(task.type), options_.winograd), ConvAlgorithm::direct, ConvAlgorithm::product})
    if (auto kernel = prepare_convolution(task, algorithm)) return kernel;
  fail(ExitCode::bug, "no algorithm for ", key);
}

/// The fastest algorithm, and in brackets what each took.
std::string ConvolutionAlgorithms::fastest(const ConvTask& task, const std::vector<Value>& values) const {
  double least = std::numeric_limits<double>::infinity();
  std::string best, times;
  for (const ConvAlgorithm algorithm : kConvAlgorithms) {
    if ((algorithm == ConvAlgorithm::winograd && !options_.winograd) || may_write_behind(task, algorithm)) continue;
    const auto kernel = prepare_convolution(task, algorithm);
    if (!kernel) continue;
    const double time = milliseconds(*kernel, task, values);
    times += fmt::format("{}{} {:.3f} ms", times.empty() ? "" : ", ", name_of(algorithm), time);
    if (time < least) best = name_of(algorithm);
    least = std::min(least, time);
  }
  return str(best, " (", times, ")");
}

}  // namespace ct::cpu
