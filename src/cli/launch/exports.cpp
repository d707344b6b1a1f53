#include "cli/launch/exports.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

#include "base/error.h"
#include "base/input.h"
#include "base/paths.h"
#include "base/text.h"
#include "cli/foreign.h"

namespace ct {
Exports exports_of_launch(const char* const* environment) {
  constexpr auto kPrefixes = std::to_array<std::string_view>({"MLFLOW", "PYTHON", "MV2", "UCX", "NCCL", "NEBULA"});
  Exports exports;
  for (const char* const* variable = environment; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    const size_t equals = text.find('=');
    const std::string_view name = text.substr(0, equals);
    const auto in_names = [](unsigned char c) { return std::isalnum(c) || c == '_'; };
    if (equals != text.npos && std::ranges::all_of(name, in_names) &&
        std::ranges::any_of(kPrefixes, [&](std::string_view prefix) { return name.starts_with(prefix); }))
      exports[std::string(name)] = text.substr(equals + 1);
  }
  add_foreign_exports(exports);
  return exports;
}

}  // namespace ct
