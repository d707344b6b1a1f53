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
  }
}

}  // namespace ct::kernels
