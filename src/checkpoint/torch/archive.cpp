#include "checkpoint/torch/archive.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <ranges>
#include <string>

#include "base/error.h"
#include "base/text.h"
#include "checkpoint/torch/pickle.h"
#include "checkpoint/torch/zip.h"

namespace ct {
namespace {

constexpr std::string_view kZip = "PK\3\4", kPickleName = "/data.pkl", kScriptName = "/constants.pkl";

/// Does the list of files, at the archive's end, have such a name?
bool lists(std::string_view archive, std::string_view name) {
  return archive.substr(archive.size() - std::min<size_t>(archive.size(), 65536)).find(name) != archive.npos;
}

std::string_view text_of(std::span<const std::byte> file) {
  return {reinterpret_cast<const char*>(file.data()), file.size()};
}

/// The files of the archive below its one folder, by name.
using Files = std::map<std::string_view, std::span<const std::byte>>;

Files files_of(std::span<const std::byte> archive, const Path& path) {
  Files files;
  for (const ZipEntry& entry : stored_entries(archive, path)) {
    const size_t folder = entry.name.find('/');
    if (folder == entry.name.npos || !files.emplace(entry.name.substr(folder + 1), entry.data).second)
      fail(ExitCode::checkpoint, in_quotes(path.native()), ": ", in_quotes(entry.name),
           " in the zip archive is no file of torch.save(); use another copy of it");
  }
  return files;
}

using SharedTensor = std::shared_ptr<const PickledTensor>;

bool has_tensors(const PickleDict& dict) {
  return std::ranges::any_of(dict.items,
                             [](const auto& item) { return std::holds_alternative<SharedTensor>(item.second); });
}

const PickleDict& state_dict_of(const PickleValue& saved, const Path& path) {
  constexpr std::string_view kNames[] = {"model_state_dict", "state_dict", "model_state", "model", "module", "net"};
  const auto* const* all = std::get_if<PickleDict*>(&saved);
  if (all)  // beside a state_dict there may be tensors, such as a step
    for (const std::string_view name : kNames)
      for (const auto& [key, value] : (*all)->items) {
        const auto* text = std::get_if<std::string_view>(&key);
        const auto* const* dict = std::get_if<PickleDict*>(&value);
        if (text && *text == name && dict && has_tensors(**dict)) return **dict;
      }
  if (all && has_tensors(**all)) return **all;
  fail(ExitCode::checkpoint, in_quotes(path.native()), " holds no state_dict, alone or as one of ",
       joined(kNames, ", "), ": save one, with torch.save(model.state_dict(), 'W.pth')");
}

/// The dimensions from the outermost to the innermost in memory. Empty unless the elements fill one block. The stride
/// of a dimension of one is of no account.
std::optional<std::vector<size_t>> memory_order(const PickledTensor& tensor) {
  std::vector<size_t> order;
  for (size_t i = 0; i < tensor.shape.size(); ++i)
    if (tensor.shape[i] != 1) order.push_back(i);
  std::ranges::stable_sort(order, std::ranges::greater(), [&](size_t i) { return tensor.strides[i]; });
  int64_t step = 1;
  for (const size_t i : order | std::views::reverse) {
    if (tensor.strides[i] != step) return std::nullopt;
    step *= tensor.shape[i];
  }
  return order;
}

/// A copy of the block's elements in the order of the shape.
std::vector<std::byte> in_order_of_shape(const PickledTensor& tensor, std::span<const std::byte> block) {
  const size_t of_element = size_of(tensor.storage.dtype), dims = tensor.shape.size();
  std::vector<std::byte> copy(block.size());
  std::vector<int64_t> index(dims);
  int64_t from = 0;
  for (size_t to = 0; to < copy.size(); to += of_element) {
    std::memcpy(&copy[to], &block[static_cast<size_t>(from) * of_element], of_element);
    for (size_t i = dims; i-- > 0;) {
      from += tensor.strides[i];
      if (++index[i] < tensor.shape[i]) break;
      from -= tensor.strides[i] * index[i];
      index[i] = 0;
    }
  }
  return copy;
}

}  // namespace

bool is_torch_archive(std::span<const std::byte> file) {
  const std::string_view text = text_of(file);
  return text.starts_with(kZip) && (text.substr(0, 65536).find(kPickleName) != text.npos || lists(text, kPickleName));
}

std::vector<TensorView> tensors_of_torch_archive(std::span<const std::byte> archive, const Path& path,
                                                 std::vector<std::vector<std::byte>>& copies) {
  if (lists(text_of(archive), kScriptName))
    fail(ExitCode::checkpoint, in_quotes(path.native()),
         " is TorchScript, a program with its weights: save the weights alone, with python3 -c \"import torch; ",
         "torch.save(torch.jit.load(", in_quotes(path.native()), ", map_location='cpu').state_dict(), 'W.pth')\"");
  const Files files = files_of(archive, path);
  const auto file = [&](std::string_view name) {
    const auto at = files.find(name);
    if (at == files.end())
      fail(ExitCode::checkpoint, in_quotes(path.native()), " has no file ", in_quotes(name),
           " in it; use another copy of it");
    return at->second;
  };
  if (const auto order = files.find("byteorder");
      order != files.end() && (order->second.empty() || order->second.front() != std::byte{'l'}))
    fail(ExitCode::checkpoint, in_quotes(path.native()),
         " was saved on a big-endian machine: load it there, and save it as safetensors");
  const Pickle pickle(file("data.pkl"), path);
  std::vector<TensorView> tensors;
  for (const auto& [key, value] : state_dict_of(pickle.value(), path).items) {
    const auto* name = std::get_if<std::string_view>(&key);
    const auto* tensor = std::get_if<SharedTensor>(&value);
    if (!name || !tensor) continue;
    const auto refuse = [&](const std::string& why) {
      fail(ExitCode::checkpoint, in_quotes(path.native()), ": tensor ", in_quotes(*name), " ", why);
    };
    const PickledTensor& t = **tensor;
    const auto bytes = bytes_of(t.storage.dtype, t.shape);
    if (!bytes || t.strides.size() != t.shape.size()) refuse("has an impossible shape; use another copy of the file");
    const auto order = *bytes > 0 ? memory_order(t) : std::vector<size_t>();
    if (!order) refuse("is not contiguous: save it with .contiguous()");
    const auto storage = file(str("data/", t.storage.key));
    const uint64_t of_element = size_of(t.storage.dtype);
    if (t.first < 0 || static_cast<uint64_t>(t.first) > storage.size() / of_element ||
        *bytes > storage.size() - static_cast<uint64_t>(t.first) * of_element)
      refuse("is longer than its data; use another copy of the file");
    std::span<const std::byte> data = storage.subspan(static_cast<uint64_t>(t.first) * of_element, *bytes);
    if (!std::ranges::is_sorted(*order)) data = copies.emplace_back(in_order_of_shape(t, data));
    tensors.push_back({std::string(*name), t.storage.dtype, t.shape, data});
  }
  std::ranges::sort(tensors, {}, &TensorView::name);
  return tensors;
}

}  // namespace ct
