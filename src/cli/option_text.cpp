#include "cli/option_text.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <sstream>

#include "base/error.h"
#include "base/terminal.h"
#include "base/text.h"

namespace ct {
namespace {

constexpr int kBesideNames = 70;  // columns from which descriptions stand beside the names of options

class HelpFormatter : public CLI::Formatter {
 public:
  explicit HelpFormatter(int columns) : columns_(static_cast<size_t>(columns)) {}

  std::string make_option(const CLI::Option* option, bool by_place) const override {
    const std::string blanks(columns_ < kBesideNames ? 6 : 30, ' ');
    const std::string value = operand(*option, by_place);
    const std::string name =
        wrapped(str("  ", make_option_name(option, by_place), value.empty() || value == "..." ? "" : " ", value),
                columns_, std::string(4, ' '));
    const std::string& about = option->get_description();
    if (about.empty()) return name + "\n";
    std::string text = wrapped(blanks + about, columns_, blanks);
    if (name.size() < blanks.size())
      text.replace(0, name.size(), name);
    else
      text.insert(0, name + "\n");
    return text + "\n";
  }

 private:
  size_t columns_;
};

}  // namespace

std::string operand(const CLI::Option& option, bool by_place) {
  if (!option.get_option_text().empty()) return option.get_option_text();
  if (option.get_type_size() == 0) return "";
  std::string text = by_place ? "" : option.get_type_name();
  text = text.substr(0, text.find(':'));  // not what the description says too
  if (text == "INT" || text == "UINT") text = "N";
  if (text == "FLOAT") text = "X";
  if (text == "TEXT" && option.get_description().find(" | ") != std::string::npos) text = "WORD";
  if (!option.get_default_str().empty()) text += "=" + option.get_default_str();
  if (option.get_expected_max() >= CLI::detail::expected_max_vector_size) text += "...";
  if (option.get_required() && (by_place || !option.get_positional())) text += text.empty() ? "REQUIRED" : " REQUIRED";
  return text;
}

int help_columns() { return std::min(terminal_columns(STDOUT_FILENO), 100); }

std::string help_line(const std::string& text) { return wrapped(text, static_cast<size_t>(help_columns()), "") + "\n"; }

std::string verb_list(std::span<const Verb> verbs, int columns) {
  size_t width = 0;
  for (const Verb& verb : verbs) width = std::max(width, std::string_view(verb.name).size());
  std::string text;
  for (const Verb& verb : verbs)
    text += wrapped(fmt::format("  {:{}}  {}", verb.name, width, verb.summary), static_cast<size_t>(columns),
                    std::string(width + 4, ' ')) +
            "\n";
  return text;
}

std::string help_text(CLI::App& app, int columns) {
  app.formatter(std::make_shared<HelpFormatter>(columns));
  std::istringstream lines(app.help());
  std::string text;
  for (std::string line; std::getline(lines, line);)
    text += (line.starts_with(' ') ? line : wrapped(line, static_cast<size_t>(columns), "")) + "\n";
  return text;
}

}  // namespace ct
