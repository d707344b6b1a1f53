// A data set of encoded pictures from any source, which decodes them and resizes them to samples.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "data/dataset.h"
#include "data/pictures/transform.h"

namespace ct {

class PictureSet : public DataSet {
 public:
  /// A damaged picture is Error(data) with its name, or false with OnCorrupt::skip.
  bool read(int64_t i, const SampleKey& key, uint8_t* to) const final;
  bool cropped() const final { return transform_.crop.has_value(); }

  /// The fault of picture i, decoded in full, in one line without its name; empty: none.
  std::string problem(int64_t i) const;

  /// The size of picture i, by its header; nullopt: it is damaged. `scratch` is memory that calls share.
  std::optional<PictureSize> size_of(int64_t i, std::vector<std::byte>& scratch) const;

  /// A message, with the first picture as example, if samples are much larger than the pictures: "train/a.png is 32x32
  /// ..."; empty: they are not, or that picture is damaged.
  std::string enlarged() const;

  /// The encoded bytes of picture i, in `scratch` or in memory that remains valid. Error(data) without its name.
  virtual std::span<const std::byte> bytes(int64_t i, std::vector<std::byte>& scratch) const = 0;
  /// Its path, for messages.
  virtual std::string picture_name(int64_t i) const = 0;

 protected:
  /// Is picture i unchanged since the set was opened? If not, the only remedy is to restore it.
  virtual bool is_as_it_was(int64_t) const { return true; }
  PictureSet(std::string name, const PictureTransform& transform, OnCorrupt on_corrupt)
      : DataSet(std::move(name), transform.shape()), transform_(transform), on_corrupt_(on_corrupt) {}
  const PictureTransform& transform() const { return transform_; }

 private:
  PictureTransform transform_;
  OnCorrupt on_corrupt_;
};

}  // namespace ct
