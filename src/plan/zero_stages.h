// What each ZeRO stage partitions (Rajbhandari et al., arXiv 1910.02054).
#pragma once

namespace ct {

/// What each rank keeps whole in one ZeRO stage, and whether the update ends in gathers: a row of the table.
struct ZeroRow {
  bool whole_params, whole_grads, whole_states, gather_after_update;
};

/// The stages, 0 to 3. Whole states need all gradients (all-reduce), others the owned ones (reduce-scatter: after the
/// step where gradients are whole, else after every micro-step). Parameters that are whole while states are not are
/// gathered after the update.
inline constexpr ZeroRow kZeroStages[] = {
    {true, true, true, false},
    {true, true, false, true},
    {true, false, false, true},
    {false, false, false, false},
};

}  // namespace ct
