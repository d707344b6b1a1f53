// Addresses of an operation's operands, while it is bound.
#pragma once

#include "device/backend.h"

namespace ct {

class Operands {
 public:
  explicit Operands(const Resolve& resolve) : resolve_(resolve) {}
  /// nullptr if the operand is absent.
  template <class T = void>
  T* at(ValueId id) const {
    return id == kNone ? nullptr : reinterpret_cast<T*>(resolve_(id).data);
  }
  float* f32(ValueId id) const { return at<float>(id); }
  int32_t* i32(ValueId id) const { return at<int32_t>(id); }
  uint8_t* u8(ValueId id) const { return at<uint8_t>(id); }

  /// The kernel's arguments `args`, with the addresses of all operands that have the same names in `op`.
  template <class Op, class Args>
  Args put(const Op& op, Args args) const {
    op.each_operand(args, *this);
    return args;
  }
  template <class T>
  void operator()(T*& to, ValueId id) const {
    to = at<T>(id);
  }
  template <class Array>
  void operator()(Array& to, const Ids& ids) const {
    for (size_t i = 0; i < ids.size(); ++i) (*this)(to[i], ids[i]);
  }

 private:
  const Resolve& resolve_;
};

}  // namespace ct
