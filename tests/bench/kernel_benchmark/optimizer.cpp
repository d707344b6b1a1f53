#include "bench.h"

namespace ct::kernels {

/// Sizes of ResNet-50's 161 tensors.
std::vector<int64_t> Bench::resnet50() const {
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

StepScalars* Bench::scalars() {
  return arena_.of(std::vector<StepScalars>{
      {.applied = 1, .window_begin = 1, .grad_scale = 1, .lr = 1e-6, .coefficients = {0.9, 0.999, 0.1, 0.001}}});
}

/// The states that a form keeps, and the copy, if there is one.
template <class Rule>
Launch Bench::update_by(const Rule& rule, const std::vector<int64_t>& sizes, bool copy) {
  std::vector<UpdateSlice> slices;
  const auto kept = rules::kept_states<Rule>(rule.form);
  for (const int64_t n : sizes) {
    UpdateSlice& slice = slices.emplace_back(UpdateSlice{.masters = arena_.take<float>(n),
                                                         .grads = arena_.take<float>(n),
                                                         .copy = copy ? arena_.take(Type::bf16, n) : nullptr,
                                                         .copy_type = copy ? Type::bf16 : Type::f32,
                                                         .n = n,
                                                         .weight_decay = 0.01,
                                                         .tensor = static_cast<int32_t>(slices.size())});
    for (size_t k = 0; k < kept.size(); ++k)
      if (kept[k]) slice.states[k] = arena_.zeros<float>(n);
  }
  return [rule, slices, scalars = scalars(),
          ratios = arena_.take<float>(static_cast<int64_t>(sizes.size()))](cudaStream_t s) {
    return update({.rule = rule,
                   .slices = slices.data(),
                   .slice_count = static_cast<int>(slices.size()),
                   .scalars = scalars,
                   .ratios = ratios},
                  s);
  };
}

Launch Bench::of_adam(const std::vector<int64_t>& sizes, bool copy) { return update_by(rules::Adam(), sizes, copy); }

template <class Rule>
constexpr bool kHasTarget =
    std::is_same_v<Rule, rules::Adam> || std::is_same_v<Rule, rules::Lion> || std::is_same_v<Rule, rules::Adagrad>;

/// Every rule, in the form that keeps most.
template <class Rule>
void Bench::update_row(const std::vector<int64_t>& sizes, int64_t n, const std::string& shape) {
  Rule rule;
  if constexpr (Rule::kForms > 1) rule.form = Rule::kForms - 1;
  const int64_t states = rules::kept_count<Rule>(rule.form);
  const int64_t bytes = 4 * ((Rule::kReadsGradients ? 3 : 2) + (Rule::kWritesStates ? 2 : 1) * states);
  large(std::string(Rule::kName), "f32", shape, bytes * n, kHasTarget<Rule> ? kAdamShare : 0,
        update_by(rule, sizes, /*copy=*/false));
}

void Bench::optimizers() {
  const std::vector<int64_t> network = resnet50(), one = {shrunk(int64_t{64} << 20)};
  for (const std::vector<int64_t>& sizes : {network, one}) {
    int64_t n = 0;
    for (const int64_t size : sizes) n += size;
    const std::string shape =
        std::to_string(sizes.size()) + (sizes.size() == 1 ? " tensor, " : " tensors, ") + std::to_string(n);
    [&]<size_t... I>(std::index_sequence<I...>) {
      (update_row<std::variant_alternative_t<I, rules::Any>>(sizes, n, shape), ...);
    }
    (std::make_index_sequence<std::variant_size_v<rules::Any>>());
    large("adam+copy", "f32-bf16", shape, 30 * n, kAdamShare, of_adam(sizes, /*copy=*/true));
    std::vector<BlendSlice> blended;
    std::vector<EmaSlice> averaged;
    std::vector<MuonMomentumSlice> momenta;
    for (const int64_t size : sizes) {
      float *const first = arena_.take<float>(size), *const second = arena_.take<float>(size);
      blended.push_back({.masters = first, .sums = second, .n = size, .momentum = 0.1});
      averaged.push_back({.masters = first, .average = second, .n = size});
      momenta.push_back({.grads = first, .momentum_buffer = second, .n = size});
    }
    const auto count = static_cast<int>(sizes.size());
    large("blend", "f32", shape, 12 * n, 0, [=, scalars = scalars()](cudaStream_t s) {
      return blend({.slices = blended.data(), .slice_count = count, .micro_batches = 1, .scalars = scalars}, s);
    });
    large("ema", "f32", shape, 12 * n, 0, [=, scalars = scalars()](cudaStream_t s) {
      return ema({.slices = averaged.data(), .slice_count = count, .decay = 0.999, .start = 0, .scalars = scalars}, s);
    });
    large("muon_momentum", "f32", shape, 16 * n, 0, [=, scalars = scalars()](cudaStream_t s) {
      return muon_momentum(
          {.slices = momenta.data(), .slice_count = count, .scalars = scalars, .momentum = 0.95, .nesterov = true}, s);
    });
    trust(sizes, n, shape);
  }
  directions();
}

/// LAMB's first pass, and the ratios between it and the second.
void Bench::trust(const std::vector<int64_t>& sizes, int64_t n, const std::string& shape) {
  std::vector<MomentsChunk> chunks;
  std::vector<TrustTensor> tensors;
  for (const int64_t size : sizes) {
    float *const masters = arena_.take<float>(size), *const grads = arena_.take<float>(size);
    float *const exp_avg = arena_.take<float>(size), *const exp_avg_sq = arena_.zeros<float>(size);
    const auto first = static_cast<int64_t>(chunks.size());
    for (int64_t at = 0; at < size; at += kMomentsChunk)
      chunks.push_back({.masters = masters + at,
                        .grads = grads + at,
                        .exp_avg = exp_avg + at,
                        .exp_avg_sq = exp_avg_sq + at,
                        .n = std::min(kMomentsChunk, size - at),
                        .sum = static_cast<int64_t>(chunks.size()),
                        .weight_decay = 0.01});
    tensors.push_back(
        {.begin = first, .end = static_cast<int64_t>(chunks.size()), .weight_decay = 0.01, .lr_scale = 1, .adapts = 1});
  }
  const auto count = static_cast<int64_t>(chunks.size());
  const LambMomentsArgs moments{.chunks = arena_.of(chunks),
                                .count = count,
                                .eps = 1e-6,
                                .scalars = scalars(),
                                .weight_sums = arena_.zeros<double>(count),
                                .update_sums = arena_.zeros<double>(count)};
  const TrustRatiosArgs ratios{.tensors = arena_.of(tensors),
                               .count = static_cast<int64_t>(tensors.size()),
                               .weight_sums = moments.weight_sums,
                               .update_sums = moments.update_sums,
                               .scalars = scalars(),
                               .coefficient = 1,
                               .eps = 0,
                               .least = 0.01,
                               .most = 10,
                               .of_gradients = false,
                               .by_rate = false,
                               .ratios = arena_.take<float>(static_cast<int64_t>(tensors.size()))};
  large("lamb_moments", "f32", shape, 24 * n, 0, [moments](cudaStream_t s) { return lamb_moments(moments, s); });
  small("trust_ratios", "f32", shape, [ratios](cudaStream_t s) { return trust_ratios(ratios, s); });
}

/// What lies between the products of Muon's orthogonalisation, of one of ResNet-18's largest matrices.
void Bench::directions() {
  const int64_t rows = 512, columns = shrunk(4608), stride = (columns + 15) / 16 * 16, n = rows * columns;
  const MuonMatrix m{.rows = rows,
                     .columns = columns,
                     .x_stride = columns,
                     .left_stride = stride,
                     .x = arena_.take<float>(n),
                     .left = arena_.take<float>(rows * stride)};
  auto* const workspace = arena_.take<double>(kMuonNormBlocks);
  const std::string shape = shape_of(rows, columns);
  small("muon_begin", "f32", shape, [=](cudaStream_t s) { return muon_begin(m, 1e-7, workspace, s); });
  small("muon_end", "f32", shape, [=](cudaStream_t s) { return muon_end(m, 1, s); });
  const ScaledSumArgs sum{.a = 1, .from = m.x, .b = 0.5f, .to = m.left, .n = n};
  small("scaled_sum", "f32", shape, [=](cudaStream_t s) { return scaled_sum(sum, s); });
}

}  // namespace ct::kernels
