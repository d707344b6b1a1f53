// What a standard stream shows its text on.
#pragma once

#include <string>
#include <string_view>

namespace ct {

/// Is the stream a terminal that goes back to the beginning of its line at "\r"? Not with TERM=dumb. The program writes
/// no escape sequences to any terminal.
bool rewrites_lines(int fd);

/// The width of the stream's terminal in characters, else COLUMNS, else 80; at least 20.
int terminal_columns(int fd);

/// `text` for the rows of the stream's terminal: broken at blanks, all rows but the first indented; a command at its
/// end
/// (": cifar-train ...") stays whole, so that it can be copied. Unchanged where the stream is no terminal.
std::string in_rows(int fd, const std::string& text, std::string_view indent = "  ");

/// Prints a line for people on standard output: in_rows(), without control characters.
void print_line(const std::string& text);

/// The columns that a terminal needs for `text`, which has no control characters: two for a wide character, such as
/// those of Chinese, and none for one that joins the character before it.
int columns_of(std::string_view text);

/// The beginning of `text` that fits into so many columns.
std::string_view first_columns(std::string_view text, int columns);

}  // namespace ct
