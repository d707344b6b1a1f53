#include <algorithm>

#include "fetch/published.h"

namespace ct {

const Published* find_published(std::string_view key) {
  const auto found = std::ranges::find(published(), key, &Published::key);
  return found == published().end() ? nullptr : &*found;
}

const Published* published_weights(std::string_view network) {
  return find_published("weights:" + std::string(network));
}

}  // namespace ct
