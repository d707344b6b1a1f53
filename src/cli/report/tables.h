// Tables of a report's page: with a caption, heads for rows and columns, and a scroll bar of their own where they are
// wider than the screen.
#pragma once

#include <string_view>

#include "cli/report/markup.h"

namespace ct::report {

enum class Column : uint8_t { text, number };

struct Heading {
  std::string text;
  Column column = Column::text;
};

class Table {
 public:
  Table(Markup& out, std::string_view caption, const std::vector<Heading>& headings);
  ~Table();
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;

  /// Begins a row, whose first cell is its head. `mark`: a class, such as "best"; empty: none.
  void row(std::string_view head, std::string_view mark = "");
  void cell(std::string_view text);
  /// A cell with a line in the style of a curve.
  void sample(size_t style);
  /// A row whose other cells are these texts.
  void row_of(std::string_view head, std::initializer_list<std::string_view> cells);

 private:
  void end_row();
  Markup& out_;
  std::vector<Heading> headings_;
  size_t column_ = 0;  // of the next cell; 0: no row has begun
};

/// A table of keys and values; the caption is its name.
void write_pairs(Markup& out, std::string_view caption, const std::vector<std::pair<std::string, std::string>>& pairs);

}  // namespace ct::report
