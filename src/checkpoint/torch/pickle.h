// Python's pickles as torch.save() writes them: numbers, texts, containers and tensors. A pickle is a program for a
// small machine; this reader has the part of the machine that builds data, and calls nothing. What would need a call of
// anything but the constructors of these kinds is refused by its name.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/files.h"
#include "checkpoint/tensors.h"

namespace ct {

struct PickleList;
struct PickleDict;

/// The elements of tensors: a file "data/<key>" of the archive.
struct PickledStorage {
  StoredType dtype = StoredType::f32;
  std::string_view key;
};
struct PickledTensor {
  PickledStorage storage;
  int64_t first = 0;  // element of the storage
  std::vector<int64_t> shape, strides;
};
/// A class or function: "torch._utils" and "_rebuild_tensor_v2".
struct PickledGlobal {
  std::string_view module, name;
};
/// A value that has no use here: a finished object of a known kind, such as a device.
struct PickledOther {};

/// Copying one is cheap, whatever a hostile file makes of it.
using PickleValue = std::variant<std::monostate, bool, int64_t, double, std::string_view, PickledGlobal, PickledOther,
                                 PickledStorage, std::shared_ptr<const PickledTensor>, PickleList*, PickleDict*>;
/// A list, a tuple or a torch.Size.
struct PickleList {
  std::vector<PickleValue> items;
};
struct PickleDict {
  std::vector<std::pair<PickleValue, PickleValue>> items;
};

/// What a pickle builds: it owns the containers; texts lie in the pickle.
class Pickle {
 public:
  /// Error(checkpoint) that names `path`: a damaged pickle, one of more than 16 MiB or that builds too much, or what
  /// would run code. It takes at most 64 MiB.
  Pickle(std::span<const std::byte> pickle, const Path& path);
  const PickleValue& value() const { return value_; }

 private:
  friend class PickleMachine;
  std::deque<PickleList> lists_;
  std::deque<PickleDict> dicts_;
  PickleValue value_;
};

}  // namespace ct
