#include <climits>

#include "attention.h"
#include "attention_paths.h"

namespace ct::kernels {
namespace {

__global__ void sum_parts(const float* parts, int count, float* result) {
  if (threadIdx.x != 0) return;
  double sum = 0;
  for (int i = 0; i < count; ++i) sum += parts[i];
  *result = static_cast<float>(sum);
}

/// In 16 bits, wider heads are left to the kernels of f32.
bool on_tensor_cores(const AttentionShape& s) { return s.type != Type::f32 && s.width <= 128; }

int64_t tiles_of(const AttentionShape& s) { return on_tensor_cores(s) ? tensor_core_tiles(s) : f32_tiles(s); }

bool sensible(const AttentionShape& s) {
  if (s.type != Type::f32 && s.type != Type::bf16 && s.type != Type::f16) return false;
  if (s.n < 0 || s.tokens < 1 || s.heads < 1 || s.width < 1 || s.width > kMostAttentionWidth) return false;
  if (s.mask_diagonal && s.tokens < 2) return false;
  const int64_t all = s.heads * s.width;
  return s.qkv_stride >= 3 * all && s.y_stride >= all && s.n * s.heads * tiles_of(s) <= INT_MAX;
}

}  // namespace

cudaError_t attention(const AttentionArgs& a, cudaStream_t stream) {
  if (!sensible(a.shape)) return cudaErrorInvalidValue;
  return (on_tensor_cores(a.shape) ? attention_on_tensor_cores : attention_in_f32)(a, stream);
}

size_t attention_grad_workspace_bytes(const AttentionShape& s) {
  if (!sensible(s)) return 0;
  return static_cast<size_t>(s.n * s.heads * (s.tokens + tiles_of(s))) * sizeof(float);
}

cudaError_t attention_grad(const AttentionGradArgs& a, cudaStream_t stream) {
  const AttentionShape& s = a.shape;
  if (!sensible(s)) return cudaErrorInvalidValue;
  float *sums = a.workspace, *parts = a.dtemperature == nullptr ? nullptr : sums + s.n * s.heads * s.tokens;
  const cudaError_t error =
      (on_tensor_cores(s) ? attention_grad_on_tensor_cores : attention_grad_in_f32)(a, sums, parts, stream);
  if (error != cudaSuccess || parts == nullptr) return error;
  const Grid one{.blocks = 1, .threads = kWarp};
  return launch(sum_parts, one, stream, parts, static_cast<int>(s.n * s.heads * tiles_of(s)), a.dtemperature);
}

}  // namespace ct::kernels
