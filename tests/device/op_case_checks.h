// What every case must do on every backend.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "device/case_memory.h"

namespace ct {

/// What a backend's results may miss beside a case's tolerance.
using Allowance = std::function<double(const OpCase& c, ValueId operand, double expected)>;

inline void expect_values(const OpCase& c, ValueId id, const Guarded& memory, const Allowance& allowance) {
  const OpOperand& operand = c.operands[static_cast<size_t>(id)];
  bool finite = true;
  for (size_t i = 0; i < operand.after.size(); ++i) {
    const double expected = operand.after[i], found = memory.element(i);
    const double tolerance = (operand.tolerance.empty() ? 0 : operand.tolerance[i]) + allowance(c, id, expected);
    finite = finite && std::isfinite(expected);
    const bool same = std::isfinite(expected) ? std::abs(found - expected) <= tolerance
                                              : found == expected || (std::isnan(found) && std::isnan(expected));
    if (same) continue;
    ADD_FAILURE() << "element " << i << " is " << found << ", expected " << expected << " +- " << tolerance;
    return;
  }
  EXPECT_TRUE(!finite || memory.pads_are_zero());
}

/// Agrees with its references, and writes nothing else.
inline void expect_agreement(
    Backend& backend, const OpCase& c,
    const Allowance& allowance = [](const OpCase&, ValueId, double) { return 0.0; }) {
  SCOPED_TRACE(c.name);
  CaseInMemory in_memory(backend, c);
  in_memory.launch();
  const Ids written = writes(Op(c.op));
  for (size_t i = 0; i < c.operands.size(); ++i) {
    SCOPED_TRACE("operand " + std::to_string(i));
    EXPECT_TRUE(c.operands[i].after.empty() || std::count(written.begin(), written.end(), static_cast<ValueId>(i)) > 0)
        << "changes without writes() saying so";
    const Guarded& memory = in_memory.memory()[i];
    EXPECT_TRUE(memory.intact());
    if (!c.operands[i].after.empty()) {
      expect_values(c, static_cast<ValueId>(i), memory, allowance);
      continue;
    }
    Guarded before(c.operands[i].value, false);
    before.fill(c.operands[i].before);
    EXPECT_EQ(memory.bytes(), before.bytes()) << "was changed";
  }
  EXPECT_TRUE(in_memory.workspace().intact());
}

/// The same bits when launched again, whatever the scratch holds.
inline void expect_repetition(Backend& backend, const OpCase& c) {
  SCOPED_TRACE(c.name);
  CaseInMemory in_memory(backend, c);
  in_memory.launch();
  std::vector<std::vector<unsigned char>> first;
  for (const Guarded& memory : in_memory.memory()) first.push_back(memory.bytes());
  in_memory.launch(std::vector<double>(in_memory.workspace_bytes(), 1));
  for (size_t i = 0; i < first.size(); ++i) EXPECT_EQ(in_memory.memory()[i].bytes(), first[i]) << "operand " << i;
}

}  // namespace ct
