// The tensors that `export` writes, whatever the format.
#pragma once

#include <list>
#include <string>
#include <vector>

#include "checkpoint/safetensors.h"
#include "cli/weight_set.h"

namespace ct {

class ExportedWeights {
 public:
  /// Opens the weights file, or the folder of a run or checkpoint. Error(checkpoint) if it lacks the requested set.
  ExportedWeights(const std::string& checkpoint, const WeightSetOptions& which);

  const SafetensorsFile& file() const { return file_; }
  WeightSet set() const { return set_; }
  /// The tensors of the set: floating-point types as f32, averages under the names of what they are averages of,
  /// others, such as counters, as they are. Valid for the object's lifetime.
  std::vector<TensorView> tensors();
  /// Calls `write` with a function that it must call before the written file takes its name: throws Error(checkpoint)
  /// if the source has changed since it was opened.
  template <class Write>
  void write(const Write& write) const {
    const auto still_whole = [this] { file_.require_unchanged(); };
    try {
      write(still_whole);
    } catch (const Error&) {
      still_whole();  // what is gone of the source cannot be written either
      throw;
    }
  }

 private:
  TensorView in_f32(const StoredTensor& tensor);

  SafetensorsFile file_;
  WeightSet set_;
  std::list<std::vector<float>> converted_;
};

}  // namespace ct
