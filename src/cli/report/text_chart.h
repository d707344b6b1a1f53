// Curves in a terminal: dots of braille, eight in a character, or plain ASCII where the terminal cannot show them.
#pragma once

#include <string>
#include <vector>

#include "cli/report/chart.h"

namespace ct::report {

struct Terminal {
  int columns = 80;
  bool unicode = false;
};
/// That of standard output: its width, else COLUMNS, else 80; its characters by LC_ALL, LC_CTYPE or LANG.
Terminal terminal();

/// The panels of a figure beneath each other, as lines of at most `terminal.columns` characters. Points that are marked
/// are letters, the first of their curve's name ("v" for "val"; "*" for "train"); the end of a curve whose name is a
/// number shows the number. Curves that are faint are left out.
std::vector<std::string> text_of(const Figure& figure, const Terminal& terminal);

}  // namespace ct::report
