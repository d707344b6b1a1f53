// Kernels for f32 and bf16 (uint16_t) whose arguments are a structure of pointers to the type, Args<T>.
#pragma once

/// For an instruction set, in HWY_NAMESPACE: Name and NameBf16 are the template `pass`.
#define CT_TYPED_TARGET(Name, pass, Args)            \
  void Name(const Args<float>& args) { pass(args); } \
  void Name##Bf16(const Args<uint16_t>& args) { pass(args); }

/// For callers, once: `name` is that of the best instruction set here.
#define CT_TYPED_KERNEL(name, Name, Args)                                  \
  HWY_EXPORT(Name);                                                        \
  HWY_EXPORT(Name##Bf16);                                                  \
  void name(const Args<float>& args) { HWY_DYNAMIC_DISPATCH(Name)(args); } \
  void name(const Args<uint16_t>& args) { HWY_DYNAMIC_DISPATCH(Name##Bf16)(args); }
