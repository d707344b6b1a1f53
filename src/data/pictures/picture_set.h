// A data set of encoded pictures, wherever their bytes lie: it decodes them and gives them the size of a sample.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/pictures/transform.h"

namespace ct {

/// A damaged picture is an error that names it, or, with OnCorrupt::skip, is counted: in training the picture that
/// (seed, epoch, its number) draw takes its place, label and all; evaluation leaves it out.
class PictureSet : public DataSet {
 public:
  int64_t read(int64_t i, const SampleKey& key, uint8_t* to) const final;

  /// What is wrong with picture i, decoded in full: one line without its name; empty: nothing.
  std::string problem(int64_t i) const;

  /// Picture i as it lies on the disk, in `scratch` or in memory that stays.
  virtual std::span<const std::byte> bytes(int64_t i, std::vector<std::byte>& scratch) const = 0;
  /// Its path, for people.
  virtual std::string picture_name(int64_t i) const = 0;

 protected:
  PictureSet(std::string name, const PictureTransform& transform, OnCorrupt on_corrupt)
      : DataSet(std::move(name), transform.shape()), transform_(transform), on_corrupt_(on_corrupt) {}

 private:
  PictureTransform transform_;
  OnCorrupt on_corrupt_;
};

}  // namespace ct
