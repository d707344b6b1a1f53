// The ONNX model of a run's weights, with all that another program needs to ask it, and a Python program that does.
#pragma once

#include <string>

#include "cli/export/weights.h"
#include "train/config/choices.h"

namespace ct {

struct OnnxExport {
  std::string checkpoint, out;
  std::string views;  // empty: the run's
  bool raw = false;
};

struct OnnxWritten {
  std::string what;    // "resnet18, u8 images [batch][32][32][3] to probabilities of 10 classes"
  std::string sample;  // the Python program; empty: none
};

/// Writes the model, and beside it OUT.py, unless OUT is a pipe or device. Error(usage) if a file in their place is not
/// of this program, if ONNX has no operator for a layer, or if the model would be too large.
OnnxWritten write_onnx(ExportedWeights& weights, const OnnxExport& options);

}  // namespace ct
