// comm/reduction/chain_sum.h without vectors: the CPU's sums that tests compare with need no other library then.
#include "comm/reduction/chain_sum.h"

namespace ct {

void chain_sum(std::span<const float* const> terms, float* out, int64_t numel) {
  for (int64_t i = 0; i < numel; ++i) {
    float sum = terms[0][i];
    for (const float* term : terms.subspan(1)) sum = term[i] + sum;
    out[i] = sum;
  }
}

}  // namespace ct
