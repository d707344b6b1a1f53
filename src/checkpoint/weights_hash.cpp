#include "checkpoint/weights_hash.h"

#include <algorithm>
#include <functional>
#include <set>

#include "base/error.h"
#include "base/files.h"
#include "base/sha256.h"

namespace ct {
namespace {

constexpr size_t kPartBytes = size_t{1} << 20;

/// Calls done(part) for every part of a tensor that was added.
std::string hash_of(std::vector<TensorView> weights, const std::function<void(std::span<const std::byte>)>& done) {
  std::ranges::sort(weights, {}, &TensorView::name);
  Sha256 hash;
  for (const TensorView& t : weights) {
    if (t.name.ends_with("num_batches_tracked")) continue;
    if (t.dtype != StoredType::f32) {
      fail(ExitCode::checkpoint, "weights_sha256 is defined on F32, tensor ", in_quotes(t.name), " is ", describe(t));
    }
    for (size_t at = 0; at < t.data.size(); at += kPartBytes) {
      const auto part = t.data.subspan(at, std::min(kPartBytes, t.data.size() - at));
      hash.update(part.data(), part.size());
      done(part);
    }
  }
  return hash.hex();
}

/// Does has(name) say that there is what a tensor of that name would be the average of?
template <class Has>
bool is_average_of(std::string_view name, Has has) {
  return name.ends_with(kEmaSuffix) && has(name.substr(0, name.size() - kEmaSuffix.size()));
}

/// The averages among tensors, or the others.
std::vector<TensorView> chosen(std::vector<TensorView> tensors, bool averages) {
  std::set<std::string, std::less<>> names;
  for (const TensorView& t : tensors) names.insert(t.name);
  const auto has = [&](std::string_view name) { return names.contains(name); };
  std::erase_if(tensors, [&](const TensorView& t) { return is_average_of(t.name, has) != averages; });
  return tensors;
}

}  // namespace

bool is_average(const SafetensorsFile& file, std::string_view name) {
  return is_average_of(name, [&](std::string_view averaged) { return file.find(averaged) != nullptr; });
}

std::string weights_sha256(std::vector<TensorView> weights) {
  return hash_of(chosen(std::move(weights), /*averages=*/false), [](auto) {});
}

std::string weights_sha256(const SafetensorsFile& file) {
  return hash_of(chosen(file.views(), /*averages=*/false), [&](std::span<const std::byte> part) { file.let_go(part); });
}

std::string ema_sha256(const SafetensorsFile& file) {
  std::vector<TensorView> averages = chosen(file.views(), /*averages=*/true);
  if (averages.empty()) return "";
  for (TensorView& t : averages) t.name.resize(t.name.size() - kEmaSuffix.size());
  return hash_of(std::move(averages), [&](std::span<const std::byte> part) { file.let_go(part); });
}

std::string state_sha256(std::vector<LogicalTensor> tensors, const nlohmann::json& state) {
  std::ranges::sort(tensors, {}, &LogicalTensor::name);
  Sha256 hash;
  const auto add = [&hash](const std::string& text) {  // with its terminating zero, so that joined texts differ
    hash.update(text.c_str(), text.size() + 1);
  };
  for (const LogicalTensor& t : tensors) {
    add(t.name);
    add(describe({t.name, t.dtype, t.shape, {}}));
    for (const LogicalTensor::Piece& piece : t.pieces)
      hash.update(piece.stored->data.data(), piece.stored->data.size());
  }
  add(state.dump());
  return hash.hex();
}

}  // namespace ct
