#include "cli/report/tables.h"

#include "cli/report/chart.h"

namespace ct::report {
namespace {

/// May a text be broken anywhere? Words are kept whole if they leave room for other columns.
std::string_view breaks(std::string_view text) {
  constexpr size_t kLongest = 24;
  size_t word = 0;
  for (const char c : text)
    if (word = c == ' ' ? 0 : word + 1; word > kLongest) return "long";
  return "text";
}

std::string_view breaks_of_name(std::string_view name) {
  for (const std::string_view part : parts_of(name))
    if (breaks(part) == "long") return "long";
  return "text";
}

}  // namespace

Table::Table(Markup& out, std::string_view caption, const std::vector<Heading>& headings)
    : out_(out), headings_(headings) {
  out_.open("div", {{"class", "scroll"}, {"role", "group"}, {"aria-label", caption}, {"tabindex", "0"}});
  out_.open("table");
  out_.element("caption", caption);
  out_.open("thead");
  out_.open("tr");
  for (const Heading& heading : headings_)
    out_.name_element(
        "th", heading.text, 60,
        {{"scope", "col"}, {"class", heading.column == Column::number ? "number" : breaks_of_name(heading.text)}});
  out_.close("tr");
  out_.close("thead");
  out_.open("tbody");
}

Table::~Table() {
  end_row();
  out_.close("tbody");
  out_.close("table");
  out_.close("div");
}

void Table::end_row() {
  if (column_ > 0) out_.close("tr");
  column_ = 0;
}

void Table::row(std::string_view head, std::string_view mark) {
  end_row();
  out_.open("tr", {{"class", mark}});
  out_.name_element("th", head, 200, {{"scope", "row"}, {"class", breaks_of_name(head)}});
  column_ = 1;
}

void Table::cell(std::string_view text) {
  const bool number = column_ < headings_.size() && headings_[column_].column == Column::number;
  out_.shortened_element("td", text, 500, {{"class", number ? "number" : breaks(text)}});
  ++column_;
}

void Table::sample(size_t style) {
  out_.open("td");
  draw_sample(out_, style);
  out_.close("td");
  ++column_;
}

void Table::row_of(std::string_view head, std::initializer_list<std::string_view> cells) {
  row(head);
  for (const std::string_view text : cells) cell(text);
}

void write_pairs(Markup& out, std::string_view caption, const std::vector<std::pair<std::string, std::string>>& pairs) {
  Table table(out, caption, {{"what"}, {"value"}});
  for (const auto& [name, value] : pairs) table.row_of(name, {value});
}

}  // namespace ct::report
