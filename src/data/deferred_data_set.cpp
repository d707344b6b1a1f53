#include "data/deferred_data_set.h"

#include "base/error.h"

namespace ct {

DeferredDataSet::DeferredDataSet(Known known)
    : DataSet(std::move(known.name), known.shape), fingerprint_(known.fingerprint) {
  class_names_ = std::move(known.class_names);
  labels_ = std::move(known.labels);
}

void DeferredDataSet::set_images(std::unique_ptr<DataSet> images) {
  check(images->direct(), "a set that comes late is one in memory");
  if (images->count() != count() || images->fingerprint() != fingerprint_)
    fail(ExitCode::data, name(), ": another set has come to lie where it was to be written; start again");
  images_ = std::move(images);
}

}  // namespace ct
