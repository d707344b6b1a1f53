// The numbers of ONNX's messages that are written here (github.com/onnx/onnx/blob/main/onnx/onnx.proto).
#pragma once

#include <cstdint>

namespace ct::onnx {

namespace model_proto {
enum : uint64_t {
  ir_version = 1,
  producer_name = 2,
  producer_version = 3,
  doc_string = 6,
  graph = 7,
  opset_import = 8,
  metadata_props = 14
};
}
namespace operator_set_id {
enum : uint64_t { version = 2 };
}
namespace string_string_entry {
enum : uint64_t { key = 1, value = 2 };
}
namespace graph_proto {
enum : uint64_t { node = 1, name = 2, initializer = 5, input = 11, output = 12 };
}
namespace node_proto {
enum : uint64_t { input = 1, output = 2, name = 3, op_type = 4, attribute = 5 };
}
namespace attribute_proto {
enum : uint64_t { name = 1, f = 2, i = 3, ints = 8, type = 20 };
enum Type : int { kFloat = 1, kInt = 2, kInts = 7 };
}  // namespace attribute_proto
namespace tensor_proto {
enum : uint64_t { dims = 1, data_type = 2, name = 8, raw_data = 9 };
enum DataType : int { kFloat = 1, kUint8 = 2, kInt64 = 7 };
}  // namespace tensor_proto
namespace value_info {
enum : uint64_t { name = 1, type = 2, doc_string = 3 };
}
namespace type_proto {
enum : uint64_t { tensor_type = 1 };
}
namespace type_proto_tensor {
enum : uint64_t { elem_type = 1, shape = 2 };
}
namespace tensor_shape {
enum : uint64_t { dim = 1 };
}
namespace dimension {
enum : uint64_t { dim_value = 1, dim_param = 2 };
}

}  // namespace ct::onnx
