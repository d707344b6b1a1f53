// The files of CIFAR-10's python archive: pickles of protocol 2, written by Python 2 and numpy. A batch is a dict with
//   batch_label   a string
//   labels        a list of numbers
//   data          a numpy array of bytes, images x 3072, planar as in the binary files
//   filenames     a list of strings
// in any order; batches.meta is a dict with num_cases_per_batch, label_names and num_vis.
//
// A pickle is a program, and this reader executes none: it accepts only the opcodes of these dicts in their places, and
// refuses any other with its position. A fault is Error(data) without the file's name, which the caller adds.
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
  bool by_columns = false;            // Fortran order: the first bytes of all images, then the second ones, ...
};
PickledBatch read_pickled_batch(std::span<const std::byte> file);

/// A file of CIFAR-100's python archive, which has fine_labels and coarse_labels instead of labels.
struct PickledBatch100 {
  std::vector<uint8_t> fine, coarse;
  std::span<const std::byte> pixels;
  bool by_columns = false;
};
PickledBatch100 read_pickled_batch_100(std::span<const std::byte> file);
/// The fine or the coarse class names of its file meta.
std::vector<std::string> read_pickled_names_100(std::span<const std::byte> file, bool coarse);

/// The class names of batches.meta.
std::vector<std::string> read_pickled_names(std::span<const std::byte> file);

}  // namespace ct
