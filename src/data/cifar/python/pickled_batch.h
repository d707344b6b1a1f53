// Files of CIFAR-10's python archive: pickles of protocol 2 as Python 2 and numpy wrote them. A batch is a dict of
//   batch_label   a string
//   labels        a list of numbers
//   data          a numpy array of bytes, images x 3072, planar as in the binary files
//   filenames     a list of strings
// in any order, and batches.meta one of num_cases_per_batch, label_names and num_vis.
//
// A pickle is a program. This reader runs none: it knows the opcodes that write these dicts, each where it belongs, and
// refuses any other with its place. What is wrong is Error(data) without the file's name, which the caller knows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ct {

struct PickledBatch {
  std::vector<uint8_t> labels;
  std::span<const std::byte> pixels;  // of the file: labels.size() x 3072
  bool by_columns = false;            // as Fortran has them: all images' first byte, then all their second ones, ...
};
PickledBatch read_pickled_batch(std::span<const std::byte> file);

/// The class names of batches.meta.
std::vector<std::string> read_pickled_names(std::span<const std::byte> file);

}  // namespace ct
