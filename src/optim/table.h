// Functions of the tables of optimizers and schedules. A table is a variant of modules; a module has its name (kType)
// and keys.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/config_key.h"
#include "base/error.h"

namespace ct::optim {

template <class Table>
std::string_view type_of(const Table& module) {
  return std::visit([](const auto& m) { return m.kType; }, module);
}

/// Every module with its defaults.
template <class Table, size_t... I>
std::vector<Table> all_of(std::index_sequence<I...>) {
  return {Table(std::in_place_index<I>)...};
}
template <class Table>
std::vector<Table> all_of() {
  return all_of<Table>(std::make_index_sequence<std::variant_size_v<Table>>());
}

template <class Table>
Table of_type(std::string_view type) {
  for (const Table& module : all_of<Table>())
    if (type_of(module) == type) return module;
  fail(ExitCode::bug, "no module is called ", type);
}

/// The names that a configuration may use.
template <class Table>
std::vector<std::string> types() {
  std::vector<std::string> names;
  for (const Table& module : all_of<Table>())
    if (!type_of(module).empty()) names.emplace_back(type_of(module));
  return names;
}

/// The keys, bound to the members of `module`, in the order of printing.
template <class Table>
std::vector<ConfigKey> keys_of(Table& module) {
  return std::visit([](auto& m) { return m.keys(); }, module);
}

/// fault() of modules that have it.
template <class Table>
std::optional<ConfigFault> fault_of(const Table& module) {
  return std::visit(
      [](const auto& m) -> std::optional<ConfigFault> {
        if constexpr (requires { m.fault(); }) return m.fault();
        return {};
      },
      module);
}

}  // namespace ct::optim
