#include "train/run_log.h"

namespace ct {

void RunLog::record(const Json& record) {
  if (!metrics_) return;
  const bool was_well = metrics_->problem().empty();
  metrics_->write(record);
  if (was_well && !metrics_->problem().empty())
    warn("records wait in memory until they can be written: " + metrics_->problem());
}

}  // namespace ct
