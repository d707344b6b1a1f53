// Which algorithm computes a convolution: the one in a table (convolution_algorithms.cpp), so that bits depend on the
// kind of machine alone, or the fastest one, which is measured (cpu.autotune).
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

/// The table's algorithm; never Winograd's unless `winograd`.
ConvAlgorithm table_algorithm(const ConvTask& task, ConvUnit unit, bool winograd);

class ConvolutionAlgorithms {
 public:
  /// `machine`: its description, a time measured on another machine says nothing about this one.
  ConvolutionAlgorithms(const CpuOptions& options, std::string machine)
      : options_(options), machine_(std::move(machine)) {}

  /// By the stored algorithm (of an earlier run or another rank) if this library still has it, or else by the table's
  /// or, with autotune, by the fastest, which is stored.
  std::unique_ptr<Kernel> prepare(const ConvTask& task, const std::vector<Value>& values);

  /// As Backend's: a line each, machine, pass and shape, a tab, the algorithm and what each algorithm took. Lines of
  /// other machines are kept for them.
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
