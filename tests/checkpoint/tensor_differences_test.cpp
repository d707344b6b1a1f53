#include "checkpoint/tensor_differences.h"

#include <gtest/gtest.h>

namespace ct {
namespace {

TEST(TensorDifferences, NameBothDepths) {
  const auto specs = [](std::initializer_list<const char*> names) {
    std::vector<TensorSpec> all;
    for (const char* name : names) all.push_back({name, StoredType::f32, {1}});
    return all;
  };
  const auto tensors = [&](std::initializer_list<const char*> names) {
    std::vector<LogicalTensor> all;
    for (const TensorSpec& spec : specs(names)) all.push_back({.name = spec.name, .shape = {1}});
    return all;
  };
  const auto two = {"blocks.0.norm.bias", "blocks.1.norm.bias", "head.bias"};
  const auto three = {"blocks.0.norm.bias", "blocks.1.norm.bias", "blocks.2.norm.bias", "head.bias"};
  EXPECT_EQ(tensor_differences(tensors(two), specs(two)), "");
  EXPECT_EQ(tensor_differences(tensors(three), specs(two)),
            "of another depth: 'blocks' 3 for 2; unexpected: 'blocks.2.norm.bias'");
  EXPECT_EQ(tensor_differences(tensors(two), specs(three)),
            "of another depth: 'blocks' 2 for 3; missing: 'blocks.2.norm.bias'");
  EXPECT_EQ(
      tensor_differences(tensors({".1.w", "a.-1.w", "a..w", "a.0.w", "a.99999999999999999999.w"}), specs({"a.0.w"})),
      "unexpected: '.1.w', 'a.-1.w', 'a..w', 'a.99999999999999999999.w'");
}

}  // namespace
}  // namespace ct
