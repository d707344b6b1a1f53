// A data set of encoded pictures, wherever their bytes lie: it decodes them and gives them the size of a sample.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "data/dataset.h"
#include "data/pictures/transform.h"

namespace ct {

class PictureSet : public DataSet {
 public:
  /// A damaged picture is Error(data) that names it, or false with OnCorrupt::skip.
  bool read(int64_t i, const SampleKey& key, uint8_t* to) const final;
  bool cropped() const final { return transform_.crop.has_value(); }

  /// What is wrong with picture i, decoded in full, in one line without its name; empty: nothing.
  std::string problem(int64_t i) const;

  /// What a sample makes much larger than it is, in one line by the first picture: "train/a.png is 32x32 ..."; empty:
  /// nothing, or that picture is damaged.
  std::string enlarged() const;

  /// Picture i as it lies on the disk, in `scratch` or in memory that stays. Error(data) without its name.
  virtual std::span<const std::byte> bytes(int64_t i, std::vector<std::byte>& scratch) const = 0;
  /// Its path, for people.
  virtual std::string picture_name(int64_t i) const = 0;

 protected:
  /// Is picture i as it was when the set was opened? false: to restore it is all that helps.
  virtual bool is_as_it_was(int64_t) const { return true; }
  PictureSet(std::string name, const PictureTransform& transform, OnCorrupt on_corrupt)
      : DataSet(std::move(name), transform.shape()), transform_(transform), on_corrupt_(on_corrupt) {}
  const PictureTransform& transform() const { return transform_; }

 private:
  PictureTransform transform_;
  OnCorrupt on_corrupt_;
};

}  // namespace ct
