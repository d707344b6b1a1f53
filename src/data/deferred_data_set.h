// A data set that does not exist yet: its labels are known, and its images are generated once the run is accepted, so a
// refused run writes nothing.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "data/dataset.h"

namespace ct {

class DeferredDataSet final : public DataSet {
 public:
  /// The known properties of a set before it is generated.
  struct Known {
    std::string name;
    SampleShape shape;
    std::vector<std::string> class_names;
    std::vector<uint16_t> labels;
    uint32_t fingerprint = 0;
  };
  explicit DeferredDataSet(Known known) : DataSet(std::move(known.name), known.shape), fingerprint_(known.fingerprint) {
    class_names_ = std::move(known.class_names);
    labels_ = std::move(known.labels);
  }

  /// Sets the generated set, before the first image is read. Error(data) if it is not the expected one, because another
  /// set has been written to its place.
  void set_images(std::unique_ptr<DataSet> images) {
    check(images->direct(), "a set that comes late is one in memory");
    if (images->count() != count() || images->fingerprint() != fingerprint_)
      fail(ExitCode::data, name(), ": another set has been written to its place; start again");
    images_ = std::move(images);
  }

  uint32_t fingerprint() const override { return fingerprint_; }
  bool read(int64_t i, const SampleKey& key, uint8_t* to) const override { return images_->read(i, key, to); }
  bool direct() const override { return true; }
  void prefetch(std::span<const uint32_t> next, std::span<const uint32_t> after_next) const override {
    images_->prefetch(next, after_next);
  }
  void check_unchanged() const override {
    if (images_) images_->check_unchanged();
  }
  void check_not_cut() const override { images_->check_not_cut(); }

 private:
  uint32_t fingerprint_;
  std::unique_ptr<DataSet> images_;  // direct, as its labels are in memory
};

}  // namespace ct
