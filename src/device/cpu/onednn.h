// The common parts of calls of oneDNN, versions 2.6 and 3.
#pragma once

#include <memory>
#include <oneapi/dnnl/dnnl.hpp>

#include "device/cpu/convolution.h"

namespace ct::cpu {

/// The engine and stream of a prepared operation; cheap, and not shared between threads. A primitive descriptor has
/// only a raw pointer to its engine, so both must live as long as the kernel.
struct Library {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
};

inline dnnl::memory::data_type library_type(DType type) {
  return type == DType::bf16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
}

/// Primitives take their scratch memory from the program.
inline dnnl::primitive_attr user_scratchpad() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

inline size_t aligned(size_t bytes) { return (bytes + 63) / 64 * 64; }

/// ConvAlgorithm::product (onednn_product.cpp).
std::unique_ptr<Kernel> prepare_product(const ConvTask& task);

}  // namespace ct::cpu
