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

std::vector<AdamSlice> Bench::adam_slices(const std::vector<int64_t>& sizes, bool copy) {
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

Launch Bench::of_adam(const std::vector<int64_t>& sizes, bool copy) {
  return [slices = adam_slices(sizes, copy), scalars = scalars()](cudaStream_t s) {
    return adam({.all = {slices.data(), static_cast<int>(slices.size()), scalars}, .eps = 1e-8, .decoupled = true}, s);
  };
}

void Bench::optimizers() {
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
    std::vector<EmaSlice> averaged;
    for (const SgdSlice& slice : slices)
      averaged.push_back({.masters = slice.masters, .average = slice.momentum_buffer, .n = slice.n});
    large("ema", "f32", shape, 12 * n, 0, [averaged, scalars = scalars()](cudaStream_t s) {
      return ema({.slices = averaged.data(),
                  .slice_count = static_cast<int>(averaged.size()),
                  .decay = 0.999,
                  .start = 0,
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
      return rmsprop({.all = {centered.data(), static_cast<int>(centered.size()), scalars}, .alpha = 0.99, .eps = 1e-8},
                     s);
    });
    updates_by_elements(sizes, shape);
    updates_by_tensors(sizes, shape);
  }
  directions();
}

/// Lion, Adagrad and Muon's passes over memory.
void Bench::updates_by_elements(const std::vector<int64_t>& sizes, const std::string& shape) {
  int64_t n = 0;
  std::vector<LionSlice> lions;
  std::vector<AdagradSlice> sums;
  std::vector<MuonMomentumSlice> momenta;
  std::vector<UpdateSlice> plain;
  for (const int64_t size : sizes) {
    n += size;
    const UpdateSlice slice{
        .masters = arena_.take<float>(size), .grads = arena_.take<float>(size), .n = size, .weight_decay = 0.01};
    lions.push_back({slice, /*exp_avg=*/arena_.take<float>(size)});
    sums.push_back({slice, /*sum=*/arena_.zeros<float>(size)});
    momenta.push_back({.grads = lions.back().exp_avg, .momentum_buffer = sums.back().sum, .n = size});
    plain.push_back(slice);
  }
  large("lion", "f32", shape, 20 * n, kAdamShare, [lions, scalars = scalars()](cudaStream_t s) {
    return lion({.all = {lions.data(), static_cast<int>(lions.size()), scalars}}, s);
  });
  large("adagrad", "f32", shape, 20 * n, kAdamShare, [sums, scalars = scalars()](cudaStream_t s) {
    return adagrad({.all = {sums.data(), static_cast<int>(sums.size()), scalars}, .eps = 1e-8}, s);
  });
  large("muon_momentum", "f32", shape, 16 * n, 0, [momenta, scalars = scalars()](cudaStream_t s) {
    return muon_momentum({.slices = momenta.data(),
                          .slice_count = static_cast<int>(momenta.size()),
                          .scalars = scalars,
                          .momentum = 0.95,
                          .nesterov = true},
                         s);
  });
  large("muon", "f32", shape, 12 * n, 0, [plain, scalars = scalars()](cudaStream_t s) {
    return muon({.all = {plain.data(), static_cast<int>(plain.size()), scalars}}, s);
  });
}

/// LARS and both passes of LAMB, and the ratios between them.
void Bench::updates_by_tensors(const std::vector<int64_t>& sizes, const std::string& shape) {
  int64_t n = 0;
  std::vector<LarsSlice> with_buffer;
  std::vector<LambSlice> with_moments;
  std::vector<MomentsChunk> chunks;
  std::vector<TrustTensor> tensors;
  for (const int64_t size : sizes) {
    n += size;
    const auto tensor = static_cast<int32_t>(tensors.size());
    const UpdateSlice slice{
        .masters = arena_.take<float>(size), .grads = arena_.take<float>(size), .n = size, .weight_decay = 0.01};
    with_buffer.push_back({slice, tensor, /*momentum_buffer=*/arena_.take<float>(size)});
    with_moments.push_back(
        {slice, tensor, with_buffer.back().momentum_buffer, /*exp_avg_sq=*/arena_.zeros<float>(size)});
    const LambSlice& m = with_moments.back();
    const auto first = static_cast<int64_t>(chunks.size());
    for (int64_t at = 0; at < size; at += kMomentsChunk)
      chunks.push_back({.masters = m.masters + at,
                        .grads = m.grads + at,
                        .exp_avg = m.exp_avg + at,
                        .exp_avg_sq = m.exp_avg_sq + at,
                        .n = std::min(kMomentsChunk, size - at),
                        .sum = static_cast<int64_t>(chunks.size()),
                        .weight_decay = 0.01});
    tensors.push_back(
        {.begin = first, .end = static_cast<int64_t>(chunks.size()), .weight_decay = 0.01, .lr_scale = 1, .adapts = 1});
  }
  const auto count = static_cast<int64_t>(chunks.size());
  float* const ratios = arena_.take<float>(static_cast<int64_t>(tensors.size()));
  const LambMomentsArgs moments{.chunks = arena_.of(chunks),
                                .count = count,
                                .eps = 1e-6,
                                .scalars = scalars(),
                                .weight_sums = arena_.zeros<double>(count),
                                .update_sums = arena_.zeros<double>(count)};
  const TrustRatiosArgs trust{.tensors = arena_.of(tensors),
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
                              .ratios = ratios};
  large("lamb_moments", "f32", shape, 24 * n, 0, [moments](cudaStream_t s) { return lamb_moments(moments, s); });
  small("trust_ratios", "f32", shape, [trust](cudaStream_t s) { return trust_ratios(trust, s); });
  large("lamb", "f32", shape, 16 * n, 0, [with_moments, ratios, scalars = scalars()](cudaStream_t s) {
    return lamb(
        {.all = {with_moments.data(), static_cast<int>(with_moments.size()), scalars}, .ratios = ratios, .eps = 1e-6},
        s);
  });
  large("lars", "f32", shape, 20 * n, 0, [with_buffer, ratios, scalars = scalars()](cudaStream_t s) {
    return lars({.all = {with_buffer.data(), static_cast<int>(with_buffer.size()), scalars},
                 .ratios = ratios,
                 .nesterov = false},
                s);
  });
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
