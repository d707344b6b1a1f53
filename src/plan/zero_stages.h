// What each ZeRO stage partitions (Rajbhandari et al., arXiv 1910.02054).
#pragma once

namespace ct {

/// A row of the table: what each rank keeps whole in a ZeRO stage, and whether the update ends with gathers.
struct ZeroRow {
  bool whole_params, whole_grads, whole_states, gather_after_update;
};

/// Stages 0 to 3. Whole states need all gradients (all-reduce); partitioned states need the owned gradients
/// (reduce-scatter: once a step if gradients are whole, otherwise after every micro-step). With Assignment::in_turn
/// every stage reduce-scatters after every micro-step, and stage 0 then gathers the gradients. If parameters are whole
/// and states are partitioned, parameters are gathered after the update.
inline constexpr ZeroRow kZeroStages[] = {
    {true, true, true, false},
    {true, true, false, true},
    {true, false, false, true},
    {false, false, false, false},
};

}  // namespace ct
