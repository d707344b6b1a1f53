// The common keys of transformers.
#pragma once

#include <optional>

#include "base/config_key.h"
#include "base/error.h"

namespace ct {

inline ConfigKey patch_key(int64_t& patch) {
  return {"patch", &patch, "side of a token in pixels, a divisor of the images' sides", {.min = 1, .max = 256}};
}
inline ConfigKey dim_key(int64_t& dim) { return {"dim", &dim, "width of a token", {.min = 1, .max = 4096}}; }
inline ConfigKey depth_key(int64_t& depth) { return {"depth", &depth, "layers", {.min = 1, .max = 256}}; }
inline ConfigKey heads_key(int64_t& heads) {
  return {"heads", &heads, "number of attention heads", {.min = 1, .max = 256}};
}
inline ConfigKey mlp_dim_key(int64_t& mlp_dim) {
  return {"mlp_dim", &mlp_dim, "width inside a feed-forward layer", {.min = 1, .max = 16384}};
}
/// The share of elements that a mask keeps is rounded to a multiple of 1/65,536 (graph/dropout_key.h): above this limit
/// the rounding error would exceed a hundredth of that share.
inline const ConfigRule kDropout{.min = 0, .max = 0.999};
inline ConfigKey dropout_key(double& dropout) {
  return {"dropout", &dropout, "dropout rate in attention and feed-forward branches", kDropout};
}
inline ConfigKey emb_dropout_key(double& dropout) {
  return {"emb_dropout", &dropout, "dropout rate of the embedded tokens", kDropout};
}

/// The number of heads must divide the width of a token.
inline std::optional<ConfigFault> heads_fault(int64_t dim, int64_t heads) {
  if (dim % heads == 0) return {};
  return ConfigFault{"heads",
                     str("must divide model.dim, which the heads share: ", dim, " is not a multiple of ", heads)};
}

}  // namespace ct
