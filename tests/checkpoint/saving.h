// Saving Samples as a checkpoint, whole or cut into the parts of several ranks.
#pragma once

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/crc32c.h"
#include "checkpoint/samples.h"
#include "checkpoint/save.h"
#include "checkpoint/sealed_json.h"

namespace ct {

/// The rows of a tensor that a rank owns: an even share, none for some ranks where there are fewer rows than ranks.
inline std::vector<Rows> owned_rows(const std::vector<TensorView>& tensors, int rank, int ranks) {
  std::vector<Rows> rows;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const int64_t n = rows_of(tensors[i].shape), begin = n * rank / ranks, end = n * (rank + 1) / ranks;
    // Without dimensions, or without rows, it is the last rank's.
    if (begin < end || (n == 0 && rank + 1 == ranks)) rows.push_back({i, begin, end});
  }
  return rows;
}

inline ReadRows reader_of(const std::vector<TensorView>& tensors) {
  return [&tensors](const Rows& rows, std::span<std::byte> out) {
    const TensorView& t = tensors[rows.tensor];
    const auto row = row_bytes(t.dtype, t.shape);
    if (!out.empty()) std::memcpy(out.data(), t.data.data() + static_cast<size_t>(rows.begin) * row, out.size());
  };
}

/// Contents whose readers refer to the two vectors.
inline SaveContents contents_of(const std::vector<TensorView>& weights, const std::vector<TensorView>& moments,
                                int rank, int ranks) {
  SaveContents c;
  for (const TensorView& t : weights) c.weights.push_back({t.name, t.dtype, t.shape});
  for (const TensorView& t : moments) c.moments.push_back({t.name, t.dtype, t.shape});
  c.own_weights = owned_rows(weights, rank, ranks);
  c.own_moments = owned_rows(moments, rank, ranks);
  c.read_weights = reader_of(weights);
  c.read_moments = reader_of(moments);
  return c;
}

/// Collective. Every save of a step has weights of its own, by `seed`, which the state repeats.
inline void save_samples(Communicator& comm, Store& store, int64_t step, uint32_t seed,
                         const std::function<void(SaveContents&)>& change = {}) {
  const Samples weight_samples(seed), moment_samples(seed + 1000);
  const auto weights = weight_samples.views(), moments = moment_samples.views();
  SaveContents contents = contents_of(weights, moments, comm.rank(), comm.size());
  contents.step = step;
  contents.metadata = {{"model", "{}"}};
  contents.state = {{"seed", seed}};
  if (change) change(contents);
  CheckpointSave(comm, store, std::move(contents)).finish();
}

/// Of the first two tensors of Samples: NaN in row 4 of the moments of conv1.weight, an infinity in row 5 of the
/// weights of conv1.bias.
inline void spoil(SaveContents& contents) {
  const auto put = [](const ReadRows& read, size_t tensor, int64_t row, float value) -> ReadRows {
    return [=](const Rows& rows, std::span<std::byte> out) {
      read(rows, out);
      if (rows.tensor != tensor || row < rows.begin || row >= rows.end) return;
      const size_t bytes = out.size() / static_cast<size_t>(rows.end - rows.begin);
      std::memcpy(out.data() + static_cast<size_t>(row - rows.begin) * bytes, &value, sizeof value);
    };
  };
  contents.read_moments = put(contents.read_moments, 0, 4, std::numeric_limits<float>::quiet_NaN());
  contents.read_weights = put(contents.read_weights, 1, 5, -std::numeric_limits<float>::infinity());
}

/// Are these the samples of that seed, however they are cut?
inline bool hold(const std::vector<LogicalTensor>& tensors, uint32_t seed) {
  const Samples samples(seed);
  std::vector<std::byte> storage;
  return tensors.size() == samples.views().size() && std::ranges::all_of(samples.views(), [&](const TensorView& t) {
           const LogicalTensor* found = find(tensors, t.name);
           return found && same(t, found->view(storage));
         });
}

inline bool holds(const Checkpoint& c, uint32_t seed) {
  return c.state.at("seed") == seed && hold(logical_tensors(std::span(&c.weights, 1)), seed) &&
         hold(c.moments(), seed + 1000);
}

/// Gives a checkpoint a manifest with an honest seal, whatever it says.
inline void forge_manifest(const Path& folder, const std::function<void(nlohmann::json&)>& change) {
  const Path path = folder / "manifest.json";
  auto json = nlohmann::json::parse(read_file(path));
  json.erase("manifest_crc32c");
  change(json);
  std::filesystem::remove(path);
  spill(path, seal(R"({"manifest_crc32c":")", "\"," + json.dump().substr(1)));
}

/// Makes the manifest say that the files are as they are now.
inline void relist(const Path& folder) {
  forge_manifest(folder, [&](nlohmann::json& manifest) {
    for (auto& file : manifest["files"]) {
      const std::string text = read_file(folder / file["name"].get<std::string>());
      file["bytes"] = text.size();
      file["crc32c"] = crc_text(crc32c(text));
    }
  });
}

}  // namespace ct
