#include "attention.h"

#include "bench.h"
#include "dropout.h"
#include "sequence_pool.h"

namespace ct::kernels {

/// Time alone of attention, which multiplies more than it moves.
void Bench::attentions() {
  const int64_t n = shrunk(256), tokens = 65, heads = 6, width = 64, all = heads * width;
  const std::string shape = shape_of(n, tokens, heads, width);
  for (const Type type : {Type::f32, Type::bf16}) {
    const AttentionShape s{type, n, tokens, heads, width, /*mask_diagonal=*/true, 3 * all, all};
    const AttentionArgs forward{.shape = s,
                                .qkv = arena_.take(type, n * tokens * 3 * all),
                                .scale = 0.125f,
                                .temperature = nullptr,
                                .y = arena_.take(type, n * tokens * all),
                                .log_sum_exp = arena_.take<float>(n * heads * tokens)};
    small("attention", name_of(type), shape, [=](cudaStream_t stream) { return attention(forward, stream); });
    const AttentionGradArgs grad{
        .shape = s,
        .qkv = arena_.take(type, n * tokens * 3 * all),
        .scale = 0.125f,
        .temperature = arena_.zeros<float>(1),
        .log_sum_exp = arena_.zeros<float>(n * heads * tokens),
        .dy = arena_.take(type, n * tokens * all),
        .dqkv = arena_.take(type, n * tokens * 3 * all),
        .dtemperature = arena_.take<float>(1),
        .workspace = arena_.take<float>(static_cast<int64_t>(attention_grad_workspace_bytes(s)) / 4)};
    small("attention_grad", name_of(type), shape, [=](cudaStream_t stream) { return attention_grad(grad, stream); });
  }
}

void Bench::sequences() {
  for (const Type type : {Type::f32, Type::bf16}) {
    const int64_t e = size_of(type), n = shrunk((int64_t{256} << 20) / e / (256 * 256)), tokens = 256, channels = 256;
    const SequencePoolShape s{type, n, tokens, channels, channels, 16};
    const std::string shape = shape_of(n, tokens, channels);
    const int64_t elements = n * tokens * channels, scores = n * tokens * 16;
    const SequencePoolArgs pool{.shape = s,
                                .x = arena_.take(type, elements),
                                .score = arena_.take(type, scores),
                                .y = arena_.take(type, n * channels)};
    large("sequence_pool", name_of(type), shape, elements * e, 0,
          [=](cudaStream_t stream) { return sequence_pool(pool, stream); });
    const SequencePoolGradArgs grad{.shape = s,
                                    .x = arena_.take(type, elements),
                                    .score = arena_.take(type, scores),
                                    .dy = arena_.take(type, n * channels),
                                    .dx = arena_.take(type, elements),
                                    .dscore = arena_.take(type, scores)};
    large("sequence_pool_grad", name_of(type), shape, (2 * elements + scores) * e, 0,
          [=](cudaStream_t stream) { return sequence_pool_grad(grad, stream); });

    const int64_t dropped = shrunk((int64_t{512} << 20) / e);
    DropoutArgs drop{.type = type,
                     .n = dropped,
                     .key = arena_.zeros<DropoutKey>(1),
                     .number = 0,
                     .below = 58982,
                     .scale = 1 / 0.9f,
                     .x = arena_.take(type, dropped),
                     .y = arena_.take(type, dropped)};
    large("dropout", name_of(type), shape_of(dropped), 2 * dropped * e, 0,
          [=](cudaStream_t stream) { return dropout(drop, stream); });
    drop.activation = Activation::gelu;
    large("gelu, dropout", name_of(type), shape_of(dropped), 2 * dropped * e, 0,
          [=](cudaStream_t stream) { return dropout(drop, stream); });
    drop.at = arena_.take(type, dropped);
    large("dropout, gelu_grad", name_of(type), shape_of(dropped), 3 * dropped * e, 0,
          [=](cudaStream_t stream) { return dropout(drop, stream); });
  }
}

}  // namespace ct::kernels
