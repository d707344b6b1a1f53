// The warm-up that DeepSpeed's schedules have in common.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "base/choice.h"

namespace ct::optim {

enum class WarmupType : uint8_t { log, linear };
constexpr auto words_of(WarmupType) { return std::to_array<std::string_view>({"log", "linear"}); }

/// warmup_num_steps as it is used: at least 2, unless it is 0, which is no warm-up (DeepSpeed took 0 for 2, and refuses
/// it since 0.19).
inline int64_t warmup_steps(int64_t given) { return given == 0 ? 0 : std::max<int64_t>(2, given); }

/// Is the warm-up over at iteration `it`? Where there is none, before the first.
inline bool is_warm(int64_t it, int64_t steps) { return it >= steps || steps == 0; }

/// DeepSpeed's count: the k-th applied step, k from 1, uses the value at k - 2; -1 is before its schedules have begun.
inline int64_t deepspeed_iteration(int64_t step) { return step - 1; }

/// How far the warm-up has come at iteration `it`, 0 <= it < steps: ln(it+1)/ln(steps) or it/steps.
inline double warmup_share(WarmupType type, int64_t it, int64_t steps) {
  const auto w = static_cast<double>(steps);
  return type == WarmupType::linear ? static_cast<double>(it) / w
                                    : std::log(static_cast<double>(it + 1)) * (1.0 / std::log(w));
}

}  // namespace ct::optim
