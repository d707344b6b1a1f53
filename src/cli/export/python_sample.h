// A short Python program beside an exported model, which asks onnxruntime for the classes of pictures. It reads names
// and the resize rule from the model's metadata (export/onnx.cpp), so it has the same text for all models.
#pragma once

#include <string>
#include <string_view>

namespace ct {

std::string python_sample();

/// Is it such a program, as it was written? An edited one belongs to who edited it.
bool is_python_sample(std::string_view text);

}  // namespace ct
