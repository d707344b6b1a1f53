#include "plan/lowering/lowering.h"

namespace ct {

ValueId Lowering::add(Value value) {
  out_.values.push_back(std::move(value));
  return static_cast<ValueId>(out_.values.size() - 1);
}

ValueId Lowering::buffer(const std::string& name, int64_t bytes, MemoryCategory category, MemorySpace space) {
  return add({.name = name, .shape = {bytes}, .dtype = DType::u8, .space = space, .category = category});
}

ValueId Lowering::floats(const std::string& name, int64_t numel, MemoryCategory category, MemorySpace space) {
  return add({.name = name, .shape = {numel}, .space = space, .category = category});
}

void Lowering::place(ValueId id, ValueId base, int64_t byte) {
  Value& value = out_.values[static_cast<size_t>(id)];
  value.base = base;
  value.offset = byte;
  value.category = out_.values[static_cast<size_t>(base)].category;
}

ValueId Lowering::view(ValueId base, int64_t byte, int64_t numel, DType dtype) {
  const Value& of = out_.values[static_cast<size_t>(base)];
  const Value value{
      .name = of.name, .shape = {numel}, .dtype = dtype, .base = base, .offset = byte, .category = of.category};
  return add(value);
}

/// A flattened image whose rows need no padding is the image itself: a view, and no operation.
void Lowering::take_operations() {
  const auto alias = [this](ValueId from, ValueId to) {
    if (graph_[from].shape.stored() != graph_[to].shape.stored() || graph_[from].dtype != graph_[to].dtype)
      return false;
    place(to, from, 0);
    return true;
  };
  for (size_t i = 0; i < graph_.ops().size(); ++i) {
    const ComputeOp& op = graph_.ops()[i];
    bool dropped = false;
    if (const auto* flat = std::get_if<Flatten>(&op)) dropped = alias(flat->x, flat->y);
    if (const auto* flat = std::get_if<FlattenGrad>(&op)) dropped = alias(flat->dy, flat->dx);
    if (!dropped) ops_.push_back({op, graph_.units_of_ops()[i]});
  }
}

}  // namespace ct
