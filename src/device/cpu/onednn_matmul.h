// A prepared matrix product by oneDNN, for linear layers and for convolutions by `product`.
#pragma once

#include <algorithm>
#include <unordered_map>

#include "device/cpu/onednn.h"

namespace ct::cpu {

/// An operand of a product, stored by rows or, if transposed, by columns.
struct Matrix {
  int64_t rows, columns;
  DType type;
  bool transposed = false;
  int64_t stride = 0;  // between rows (or columns), in elements; 0: no pads
  dnnl::memory::desc desc() const {
    using dnnl::memory;
    const int64_t step = stride > 0 ? stride : transposed ? rows : columns;
    const memory::dims strides = transposed ? memory::dims{1, step} : memory::dims{step, 1};
    return {{rows, columns}, library_type(type), strides};
  }
};

/// Rows of a chunk that a product needs to run at its speed; more where rows are short, up to a MiB of them.
inline int64_t enough_rows(int64_t row_bytes) { return std::max<int64_t>(512, (int64_t{1} << 20) / row_bytes); }

enum class Into : uint8_t { overwrite, add };

/// c = a b, with `bias` plus a bias for every column, or c += a b.
class Product {
 public:
  Product(const Library& library, const Matrix& a, const Matrix& b, const Matrix& c, bool bias, Into into)
      : pd_(describe(library.engine, a, b, c, bias, into)), primitive_(pd_) {}

  size_t scratch_bytes() const { return pd_.scratchpad_desc().get_size(); }
  void run(const Library& library, void* a, void* b, float* bias, void* c, void* scratch) const {
    using dnnl::memory;
    const auto operand = [&](const memory::desc& desc, void* at) { return memory(desc, library.engine, at); };
    std::unordered_map<int, memory> arguments{{DNNL_ARG_SRC, operand(pd_.src_desc(), a)},
                                              {DNNL_ARG_WEIGHTS, operand(pd_.weights_desc(), b)},
                                              {DNNL_ARG_DST, operand(pd_.dst_desc(), c)},
                                              {DNNL_ARG_SCRATCHPAD, operand(pd_.scratchpad_desc(), scratch)}};
    if (bias != nullptr) arguments.insert({DNNL_ARG_BIAS, operand(pd_.bias_desc(), bias)});
    primitive_.execute(library.stream, arguments);
  }

 private:
  using Description = dnnl::matmul::primitive_desc;
  static Description describe(const dnnl::engine& engine, const Matrix& a, const Matrix& b, const Matrix& c, bool bias,
                              Into into) {
    dnnl::primitive_attr attributes = user_scratchpad();
    if (into == Into::add) {
      dnnl::post_ops sum;
      sum.append_sum(1.0f);
      attributes.set_post_ops(sum);
    }
    const dnnl::memory::desc vector = Matrix{1, c.columns, DType::f32}.desc();
#if DNNL_VERSION_MAJOR >= 3
    return bias ? Description(engine, a.desc(), b.desc(), vector, c.desc(), attributes)
                : Description(engine, a.desc(), b.desc(), c.desc(), attributes);
#else
    return bias ? Description({a.desc(), b.desc(), vector, c.desc()}, attributes, engine)
                : Description({a.desc(), b.desc(), c.desc()}, attributes, engine);
#endif
  }

  Description pd_;
  dnnl::matmul primitive_;
};

}  // namespace ct::cpu
