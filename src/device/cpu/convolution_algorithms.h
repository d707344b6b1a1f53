// Selects the algorithm of a convolution: from a table (convolution_algorithms.cpp), so that bits depend only on the
// kind of machine, or the fastest one by measurement (cpu.autotune).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "device/cpu/convolution.h"
#include "device/plan_book.h"

namespace ct::cpu {

/// The kinds of machines that the table distinguishes, by their multiplication unit.
enum class ConvUnit : uint8_t { vector, avx512, bf16_avx512, bf16_amx };
ConvUnit conv_unit(DType type);

/// The table's algorithm; never Winograd's unless `winograd`.
ConvAlgorithm table_algorithm(const ConvTask& task, ConvUnit unit, bool winograd);

class ConvolutionAlgorithms {
 public:
  /// `machine` describes this machine. A plan contains the algorithm's name and the times of all algorithms.
  ConvolutionAlgorithms(const CpuOptions& options, std::string machine, PlanBook& plans)
      : options_(options), machine_(std::move(machine)), plans_(plans) {}

  /// Uses the algorithm that `plans` has for the task, from an earlier run or another rank, if it is available here.
  /// Otherwise uses the table's or, with autotune, times all and stores the fastest.
  std::unique_ptr<Kernel> prepare(const ConvTask& task, const std::vector<Value>& values);

 private:
  std::string fastest(const ConvTask& task, const std::vector<Value>& values) const;

  CpuOptions options_;
  std::string machine_;
  PlanBook& plans_;
};

}  // namespace ct::cpu
