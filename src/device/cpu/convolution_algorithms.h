// Which algorithm computes a convolution: the one in a table (convolution_algorithms.cpp), so that bits depend on the
// kind of machine alone, or the fastest one, which is measured (cpu.autotune).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "device/cpu/convolution.h"
#include "device/plan_book.h"

namespace ct::cpu {

/// What multiplies, as far as the table tells kinds of machines apart.
enum class ConvUnit : uint8_t { vector, avx512, bf16_avx512, bf16_amx };
ConvUnit conv_unit(DType type);

/// The table's algorithm; never Winograd's unless `winograd`.
ConvAlgorithm table_algorithm(const ConvTask& task, ConvUnit unit, bool winograd);

class ConvolutionAlgorithms {
 public:
  /// `machine`: its description. A plan is the algorithm's name and what each algorithm took.
  ConvolutionAlgorithms(const CpuOptions& options, std::string machine, PlanBook& plans)
      : options_(options), machine_(std::move(machine)), plans_(plans) {}

  /// By the stored algorithm (of an earlier run or another rank) if this library still has it, or else by the table's
  /// or, with autotune, by the fastest, which is stored.
  std::unique_ptr<Kernel> prepare(const ConvTask& task, const std::vector<Value>& values);

 private:
  std::string fastest(const ConvTask& task, const std::vector<Value>& values) const;

  CpuOptions options_;
  std::string machine_;
  PlanBook& plans_;
};

}  // namespace ct::cpu
