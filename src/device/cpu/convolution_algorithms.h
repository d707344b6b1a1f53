// Selects the algorithm of a convolution: from a table (convolution_algorithms.cpp), so that bits depend only on the
// kind of machine, or the fastest one by measurement (cpu.autotune).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "device/cpu/convolution.h"

namespace ct::cpu {

/// The kinds of machines that the table distinguishes, by their multiplication unit.
enum class ConvUnit : uint8_t { vector, avx512, bf16_avx512, bf16_amx };
ConvUnit conv_unit(DType type);

/// The table's algorithm; never Winograd's unless `winograd`.
ConvAlgorithm table_algorithm(const ConvTask& task, ConvUnit unit, bool winograd);

class ConvolutionAlgorithms {
 public:
  /// `machine`: its description; times measured on other machines are not used.
  ConvolutionAlgorithms(const CpuOptions& options, std::string machine)
      : options_(options), machine_(std::move(machine)) {}

  /// Prepares with the stored algorithm (of an earlier run or another rank) if it is available, otherwise with the
  /// table's or, with autotune, with the fastest, which is stored.
  std::unique_ptr<Kernel> prepare(const ConvTask& task, const std::vector<Value>& values);

  /// As in Backend: one line each with machine, pass and shape, a tab, the algorithm and the times of all algorithms.
  /// Lines of other machines are kept.
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
