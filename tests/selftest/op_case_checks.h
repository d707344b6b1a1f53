// What every case must do on every backend.
#pragma once

#include <gtest/gtest.h>

#include "selftest/case_memory.h"
#include "selftest/run_case.h"

namespace ct {

/// Agrees with its references, and writes nothing else.
inline void expect_agreement(Backend& backend, const OpCase& c) {
  EXPECT_EQ(run_case(backend, c).problem, "") << c.name;
}

/// What the last launch left in every operand.
inline std::vector<std::vector<unsigned char>> bytes_of(const CaseInMemory& in_memory) {
  std::vector<std::vector<unsigned char>> all;
  for (const Guarded& memory : in_memory.memory()) all.push_back(memory.bytes());
  return all;
}

/// The same bits when launched again, whatever the scratch holds.
inline void expect_repetition(Backend& backend, const OpCase& c) {
  SCOPED_TRACE(c.name);
  CaseInMemory in_memory(backend, c);
  in_memory.launch();
  const auto first = bytes_of(in_memory);
  in_memory.launch(std::vector<double>(in_memory.workspace_bytes(), 1));
  for (size_t i = 0; i < first.size(); ++i) EXPECT_EQ(in_memory.memory()[i].bytes(), first[i]) << "operand " << i;
}

}  // namespace ct
