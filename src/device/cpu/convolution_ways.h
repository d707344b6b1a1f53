// In which of its ways a convolution is computed: by a table in the source (convolution_ways.cpp), so that bits depend
// on the kind of machine alone, or by time (cpu.autotune).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "device/cpu/convolution.h"

namespace ct::cpu {

/// What multiplies, as far as the table tells kinds of machines apart.
enum class ConvUnit : uint8_t { vector, avx512, bf16_avx512, bf16_amx };
ConvUnit conv_unit(DType type);

/// The table's way; of those but Winograd's if that is not wanted.
ConvWay table_way(const ConvTask& task, ConvUnit unit, bool winograd);

class ConvolutionWays {
 public:
  /// `machine`: its description, without which a way that was timed means nothing.
  ConvolutionWays(const CpuOptions& options, std::string machine) : options_(options), machine_(std::move(machine)) {}

  /// The way of an earlier run or another rank, if there is one that can be gone, or else the table's or, with
  /// autotune, the fastest, which is kept.
  std::unique_ptr<Kernel> prepare(const ConvTask& task, const std::vector<Value>& values);

  /// As Backend's: a line each, machine, pass and shape, a tab, the way and what each way took. Lines of other machines
  /// are kept for them.
  std::string plans() const;
  void use_plans(const std::string& text);
  std::string plans_missed() const;

 private:
  std::string fastest(const ConvTask& task, const std::vector<Value>& values) const;

  CpuOptions options_;
  std::string machine_;
  std::map<std::string, std::string> plans_;
  std::vector<std::string> missed_;
};

}  // namespace ct::cpu
