#include "train/memory/resident_images.h"

namespace ct {

bool may_be_resident(const Config& config, const DataSpec& data) {
  return wants_cuda(config) && data.direct && data.train_images > 0;
}

int64_t resident_bytes(const DataSpec& data) { return data.train_images * static_cast<int64_t>(data.sample.bytes()); }

bool images_fit(Backend& backend, EstimateOf what, int stage, const std::optional<Backend::Room>& room) {
  what.data.resident = may_be_resident(what.config, what.data);
  if (!what.data.resident || !room) return what.data.resident;
  return estimate_stage(backend, what, stage).device <= room->available / 10 * 9;
}

StageEstimate estimate_with_images(Backend& backend, EstimateOf what, int stage,
                                   const std::optional<Backend::Room>& room) {
  what.data.resident = images_fit(backend, what, stage, room);
  return estimate_stage(backend, what, stage);
}

}  // namespace ct
