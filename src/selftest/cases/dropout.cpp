#include <array>

#include "graph/dropout_key.h"
#include "selftest/cases/add_cases.h"
#include "selftest/cases/case.h"

namespace ct::cases {

/// Bits that cannot differ: which elements are kept, and their product with the scale in f32, rounded once.
void add_cases(Cases& cases, Of<Dropout>, DType type) {
  const std::array<DropoutKey, 3> keys{DropoutKey{42, 0, 0}, DropoutKey{~uint64_t{0}, (int64_t{1} << 32) + 7, 3},
                                       DropoutKey{1, 99, 70000}};
  int number = 0;
  for (const Shape& shape : {Shape{2, 65, 192}, Shape{3, 4, 5, 7}, Shape{17, 84}, Shape{1}, Shape{129}})
    for (const double p : {0.1, 0.5}) {
      const DropoutKey& key = keys[at(number) % keys.size()];
      const Doubles values = normal(type, at(shape.numel()), 1);
      const float scale = static_cast<float>(1 / (1 - p));
      Doubles expected;
      for (int64_t i = 0; i < shape.numel(); ++i) {
        const int64_t element = i / shape.columns() * shape.stride() + i % shape.columns();  // in memory
        const bool keep = dropout_keeps(key, number, p, element);
        expected.push_back(keep ? rounded(type, static_cast<float>(values[at(i)]) * scale) : 0);
      }
      Case c(type);
      const ValueId x = c.wide_in(shape, values);
      const ValueId drawn = c.in(shape_of<DropoutKey>(), bytes_of(key), DType::u8);
      const ValueId y = c.exact_out(shape, expected);
      cases.push_back(c.of(Dropout{x, drawn, y, p, number}, " ", to_string(shape), " of ", p));
      ++number;
    }
}

}  // namespace ct::cases
