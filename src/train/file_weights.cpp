#include "train/file_weights.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "base/crc32c.h"
#include "base/error.h"
#include "checkpoint/weights_hash.h"
#include "model/vit_tiny.h"

namespace ct {
namespace {

/// "layer1.0." of "layer1.0.conv1.weight" and "layer1.0.bn1.weight": the whole parts that all names begin with.
template <class Named>
std::string common_parts(const std::vector<Named>& tensors) {
  const std::string* first = nullptr;
  size_t common = 0;
  for (const Named& t : tensors) {
    if (is_counter(t.name)) continue;
    if (!first) first = &t.name, common = t.name.size();
    const size_t most = std::min(common, t.name.size());
    common = static_cast<size_t>(
        std::mismatch(first->begin(), first->begin() + static_cast<ptrdiff_t>(most), t.name.begin()).first -
        first->begin());
  }
  return first ? first->substr(0, first->substr(0, common).rfind('.') + 1) : "";
}

using Names = std::set<std::string_view>;

/// What stands before all names of the tensors and not before all wanted ones, where wanted names stand behind it.
std::string prefix_of(const std::vector<LogicalTensor>& tensors, const std::vector<TensorSpec>& wanted,
                      const Names& names) {
  std::string prefix = common_parts(tensors);
  const std::string own = common_parts(wanted);
  if (!prefix.ends_with(own)) return "";
  prefix.resize(prefix.size() - own.size());
  const auto has = [&](size_t behind) {
    return std::ranges::any_of(tensors, [&](const LogicalTensor& t) {
      return t.name.size() > behind && names.contains(std::string_view(t.name).substr(behind));
    });
  };
  return !has(0) && has(prefix.size()) ? prefix : "";
}

}  // namespace

std::vector<TensorSpec> weight_specs(const Graph& graph) {
  std::vector<TensorSpec> specs;
  for (const Parameter& p : graph.parameters()) specs.push_back(state_spec(p, StateKind::weights, ""));
  return specs;
}

std::vector<TensorSpec> wanted_weights(const std::vector<LogicalTensor>& tensors, const Graph& graph,
                                       const Path& path) {
  std::vector<TensorSpec> specs = weight_specs(graph);
  for (TensorSpec& spec : specs) {
    const LogicalTensor* t = find(tensors, spec.name);
    if (t == nullptr) continue;
    if (!is_float(t->dtype))
      fail(ExitCode::checkpoint, in_quotes(path.native()), ": tensor ", in_quotes(stored_name(*t)), " is ",
           describe({t->name, t->dtype, t->shape, {}}),
           ": weights are F32, F64, F16 or BF16; convert it before it is saved, as with tensor.float()");
    spec.dtype = t->dtype;
  }
  return specs;
}

std::vector<LogicalTensor> tensors_of_set(const SafetensorsFile& file, WeightSet set) {
  auto tensors = logical_tensors(std::span(&file, 1));
  std::erase_if(tensors, [&](const LogicalTensor& t) { return is_average(file, t.name) != (set == WeightSet::ema); });
  if (set == WeightSet::weights) return tensors;
  if (tensors.empty())
    fail(ExitCode::checkpoint, in_quotes(file.path().native()),
         " has no moving average of its weights, because its run kept none (train.ema.decay); use another file");
  for (LogicalTensor& t : tensors) t.name.resize(t.name.size() - kEmaSuffix.size());
  std::ranges::sort(tensors, {}, &LogicalTensor::name);
  return tensors;
}

bool is_counter(std::string_view name) { return name.ends_with("num_batches_tracked") || name == "n_averaged"; }

std::string take_wanted_names(std::vector<LogicalTensor>& tensors, const std::vector<TensorSpec>& wanted) {
  Names names;
  for (const TensorSpec& spec : wanted) names.insert(spec.name);
  const std::string prefix = prefix_of(tensors, wanted, names);
  for (LogicalTensor& t : tensors) {
    if (t.name.starts_with(prefix)) t.name.erase(0, prefix.size());
    if (names.contains(t.name)) continue;
    if (std::string own = name_in_vit_tiny(t.name); names.contains(own)) t.name = std::move(own);
  }
  std::ranges::sort(tensors, {}, &LogicalTensor::name);
  return prefix;
}

void refuse_element(const LogicalTensor& tensor, int64_t row, size_t element, const std::string& why) {
  const uint64_t in_row = row_bytes(tensor.dtype, tensor.shape) / size_of(tensor.dtype);
  const uint64_t at = static_cast<uint64_t>(row) * in_row + element;
  const auto holds = [&](const LogicalTensor::Piece& piece) { return static_cast<uint64_t>(piece.end) * in_row > at; };
  const auto piece = std::ranges::find_if(tensor.pieces, holds);
  fail(ExitCode::checkpoint, in_quotes(piece->file->path().native()), ": tensor ", in_quotes(stored_name(tensor)),
       " is ", why, " at ", place_of(tensor.shape, at), ": use another file");
}

void each_bucket(const LogicalTensor& tensor, int64_t begin, int64_t end,
                 const std::function<void(int64_t, std::span<const float>)>& f) {
  for (const LogicalTensor::Piece& piece : tensor.pieces) {
    if (piece.begin >= end || piece.end <= begin || !piece.stored->crc) continue;
    if (crc32c(piece.stored->data) == *piece.stored->crc) continue;
    piece.file->require_unchanged();
    fail(ExitCode::checkpoint, in_quotes(piece.file->path().native()), ": tensor ", in_quotes(stored_name(tensor)),
         " has a wrong checksum: use another copy of the file");
  }
  const size_t row = row_bytes(tensor.dtype, tensor.shape), at_once = std::max<size_t>(1, kBucketBytes / row) * row;
  std::vector<float> bucket;
  tensor.visit(begin, end, [&](int64_t first, std::span<const std::byte> bytes) {
    for (size_t at = 0; at < bytes.size(); at += at_once) {
      const auto part = bytes.subspan(at, std::min(at_once, bytes.size() - at));
      bucket.resize(part.size() / size_of(tensor.dtype));
      const int64_t at_row = first + static_cast<int64_t>(at / row);
      if (const auto too_large = to_f32(tensor.dtype, part, bucket))
        refuse_element(tensor, at_row, *too_large, "too large for f32");
      f(at_row, bucket);
    }
  });
  for (const LogicalTensor::Piece& piece : tensor.pieces) {
    piece.file->require_unchanged();
    piece.file->let_go(piece.stored->data);
  }
}

}  // namespace ct
