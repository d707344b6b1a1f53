// Operations without an equivalent in ONNX's operators, and those that no evaluation has.
#include "base/error.h"
#include "onnx/operations.h"

namespace ct::onnx {
namespace {

[[noreturn]] void refuse(std::string_view what) {
  fail(ExitCode::usage, "ONNX has no operator for ", what, ": export this network as safetensors");
}

template <class Op>
[[noreturn]] void of_training() {
  fail(ExitCode::bug, "internal error: an evaluation with the operation ", Op::kName);
}

constexpr std::string_view kExperts = "a mixture of experts";

}  // namespace

void convert(const Fff&, Nodes&) { refuse("a fast feedforward layer (model.ffn: fff)"); }
void convert(const Route&, Nodes&) { refuse(kExperts); }
void convert(const Dispatch&, Nodes&) { refuse(kExperts); }
void convert(const Combine&, Nodes&) { refuse(kExperts); }
void convert(const SoftmaxMix&, Nodes&) { refuse(kExperts); }

void convert(const Edit&, Nodes&) { of_training<Edit>(); }
void convert(const Dropout&, Nodes&) { of_training<Dropout>(); }
void convert(const Jitter&, Nodes&) { of_training<Jitter>(); }
void convert(const TreeGelu&, Nodes&) { of_training<TreeGelu>(); }

}  // namespace ct::onnx
