#include "checkpoint/inspect.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "base/crc32c.h"

namespace ct {

std::vector<TensorSummary> summarise(const std::vector<TensorView>& tensors) {
  std::vector<TensorSummary> result;
  for (const TensorView& t : tensors) {
    TensorSummary s{.name = t.name, .dtype = t.dtype, .shape = t.shape};
    s.elements = t.data.size() / size_of(t.dtype);
    s.crc = crc32c(t.data);
    double sum = 0, squares = 0;
    uint64_t finite = 0;
    for (size_t i = 0; i < s.elements; ++i) {
      const double x = element(t, i);
      if (!std::isfinite(x)) continue;
      s.min = finite ? std::min(s.min, x) : x;
      s.max = finite ? std::max(s.max, x) : x;
      sum += x;
      squares += x * x;
      ++finite;
    }
    s.nonfinite = s.elements - finite;
    if (finite) s.mean = sum / static_cast<double>(finite);
    s.l2 = std::sqrt(squares);
    result.push_back(std::move(s));
  }
  return result;
}

std::vector<TensorDifference> differences(const std::vector<TensorView>& first, const std::vector<TensorView>& second) {
  using Kind = TensorDifference::Kind;
  std::map<std::string, std::pair<const TensorView*, const TensorView*>> pairs;
  for (const TensorView& t : first) pairs[t.name].first = &t;
  for (const TensorView& t : second) pairs[t.name].second = &t;
  std::vector<TensorDifference> result;
  for (const auto& [name, pair] : pairs) {
    const auto [a, b] = pair;
    TensorDifference d{.name = name, .kind = Kind::same_bytes};
    if (!a || !b) {
      d.kind = a ? Kind::only_first : Kind::only_second;
    } else if (a->shape != b->shape || a->dtype != b->dtype) {
      d.kind = Kind::shape_or_type;
    } else {
      const size_t size = size_of(a->dtype);
      double squares = 0;
      for (size_t i = 0; i < a->data.size() / size; ++i) {
        if (std::memcmp(a->data.data() + i * size, b->data.data() + i * size, size) == 0) continue;
        ++d.differing;
        const double x = std::abs(element(*a, i) - element(*b, i));
        if (!(x <= d.largest)) d.largest = std::isnan(d.largest) ? d.largest : x;
        squares += x * x;
      }
      d.l2 = std::sqrt(squares);
      if (d.differing) d.kind = Kind::values;
    }
    result.push_back(std::move(d));
  }
  return result;
}

}  // namespace ct
