// What the rest of the program knows of a device: it prepares each operation once and launches it many times.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace ct {

/// Device memory, zeroed, aligned to 64 bytes or better; freed with the object.
class Memory {
 public:
  Memory() = default;
  Memory(std::byte* data, size_t bytes, std::function<void(std::byte*)> free)
      : data_(data, std::move(free)), bytes_(bytes) {}
  std::byte* data() const { return data_.get(); }
  size_t bytes() const { return bytes_; }

 private:
  std::unique_ptr<std::byte, std::function<void(std::byte*)>> data_{nullptr, [](std::byte*) {}};
  size_t bytes_ = 0;
};

/// Where each operand lies, once the memory planner has spoken.
using Resolve = std::function<Tensor(ValueId)>;

/// One operation, prepared. bind() is called once, launch() many times, from one thread.
class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual size_t workspace_bytes() const { return 0; }
  virtual void bind(const Resolve& operands, std::byte* workspace) = 0;
  virtual void launch() = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;
  /// For people and for the checkpoint: "cpu, AVX3_ZEN4, oneDNN 2.6.3 with ISA 0xe7". Ranks must agree on it.
  virtual std::string description() const = 0;
  /// Why the device cannot compute in bf16 at a speed worth having; empty: it can.
  virtual std::string bf16_problem() const = 0;
  /// Called once by the thread that is to launch kernels.
  virtual void enter_thread() {}
  /// Throws ExitCode::memory naming the size.
  virtual Memory allocate(size_t bytes) = 0;
  virtual std::unique_ptr<Kernel> prepare(const ComputeOp& op, const std::vector<Value>& values) = 0;
};

/// What a machine without CUDA offers.
std::unique_ptr<Backend> make_cpu_backend();

}  // namespace ct
