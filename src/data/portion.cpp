#include "data/portion.h"

#include <fmt/format.h>

#include <charconv>
#include <limits>
#include <optional>
#include <string_view>

#include "base/error.h"

namespace ct {
namespace {

constexpr uint32_t kMostImages = std::numeric_limits<uint32_t>::max();  // that a set can have

/// The whole of a text as a number, with blanks around it.
template <class T>
std::optional<T> number_in(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  T value = 0;
  const auto [at, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && at == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

}  // namespace

Portion portion_of(const std::string& text) {
  using enum Portion::Unit;
  const std::string_view all = text;
  if (all.empty()) return {};
  if (const auto count = number_in<int64_t>(all)) return {.amount = static_cast<double>(*count)};
  if (all.ends_with('%'))
    if (const auto percent = number_in<double>(all.substr(0, all.size() - 1)))
      return {.unit = Portion::Unit::percent, .amount = *percent};
  if (const size_t slash = all.find('/'); slash != all.npos) {
    const auto one = number_in<int64_t>(all.substr(0, slash)), of = number_in<int64_t>(all.substr(slash + 1));
    if (one && of) return {.unit = fold, .fold = *one, .folds = *of};
  }
  return {.unit = Portion::Unit::folder, .folder = text};
}

std::string fault_of(const Portion& p) {
  switch (p.unit) {
    case Portion::Unit::images:
      return p.amount >= 0 && p.amount <= kMostImages ? "" : str("must be 0 to ", kMostImages, " images");
    case Portion::Unit::percent:
      return p.amount > 0 && p.amount < 100 ? "" : "must be more than 0 % and less than 100 %";
    case Portion::Unit::fold:
      return p.folds >= 2 && p.fold >= 1 && p.fold <= p.folds ? "" : "must be a fold such as 1/5, the first of five";
    case Portion::Unit::folder:
      return "";
  }
  fail(ExitCode::bug, "no such unit");
}

std::string to_text(const Portion& p) {
  switch (p.unit) {
    case Portion::Unit::images:
      return std::to_string(static_cast<int64_t>(p.amount));
    case Portion::Unit::percent:
      return fmt::format("{}%", p.amount);
    case Portion::Unit::fold:
      return str(p.fold, "/", p.folds);
    case Portion::Unit::folder:
      return p.folder;
  }
  fail(ExitCode::bug, "no such unit");
}

}  // namespace ct
