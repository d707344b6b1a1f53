// The parts of lines about steps.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace ct {

/// A number in the format of Python's repr(): "0.001", "1e-05", "65536.0", "nan".
std::string python_number(double value);

/// The momentum of a parameter group: one number, or two betas.
struct GroupMomentum {
  double first = 0;
  std::optional<double> second;
};
/// "0.9", "[0.8, 0.999]".
std::string momentum_text(const GroupMomentum& momentum);

/// "step=10, skipped=0, lr=[0.001], mom=[[0.8, 0.999]]": rates and momenta by parameter group.
std::string step_line(int64_t step, int64_t skipped, std::span<const double> lr, std::span<const GroupMomentum> momenta,
                      std::string (*text_of)(const GroupMomentum&) = momentum_text);

/// "time (ms) | fwd: 1.20 | bwd: 2.40": names and milliseconds.
std::string timer_line(std::span<const std::pair<std::string_view, double>> times);

}  // namespace ct
