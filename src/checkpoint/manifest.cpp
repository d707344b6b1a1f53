#include "checkpoint/manifest.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <set>

#include "base/crc32c.h"
#include "base/error.h"
#include "base/paths.h"
#include "checkpoint/sealed_json.h"

namespace ct {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kManifestOpening = R"({"manifest_crc32c":")";
constexpr uint64_t kLongestJson = uint64_t{64} << 20;

template <class T>
T field(const Path& path, const Json& json, const char* key, bool right_type) {
  if (!right_type) refuse_part(path, str("its entry '", key, "' is missing or of the wrong type"));
  return json[key].get<T>();
}

/// A missing key is null, which is of no type that is asked for.
const Json& at(const Json& json, const char* key) {
  static const Json kNull;
  return json.contains(key) ? json[key] : kNull;
}

}  // namespace

void refuse_part(const Path& path, const std::string& what, std::string_view remedy) {
  fail(ExitCode::checkpoint, in_quotes(path.native()), ": ", what, remedy);
}

std::string read_part(const Path& path) {
  if (kind_of_entry(path, ExitCode::checkpoint) == PathKind::nothing) refuse_part(path, "it is missing");
  return read_file(path, kLongestJson, MappedFile::Links::refuse, ExitCode::checkpoint);
}

Manifest read_manifest(const Path& folder) {
  const Path path = folder / kManifestFile;
  const std::string text = read_part(path);
  if (!is_sealed(text, kManifestOpening)) refuse_part(path, "it has a wrong checksum, so it is damaged");
  const Json json = parse_strict_json(text, in_quotes(path.native()));
  const auto version = field<uint64_t>(path, json, "version", at(json, "version").is_number_unsigned());
  if (version > kCheckpointVersion) {
    refuse_part(path, str("it is of format ", version, ", this program reads up to ", kCheckpointVersion),
                ": use the newer version of the program that wrote it");
  }
  Manifest m;
  m.step = static_cast<int64_t>(field<uint64_t>(path, json, "step", at(json, "step").is_number_unsigned()));
  if (step_of(step_name(m.step)) != m.step) refuse_part(path, "its step is larger than any run's");
  m.identity.run = field<std::string>(path, json, "run", at(json, "run").is_string());
  m.identity.model = field<std::string>(path, json, "model", at(json, "model").is_string());
  if (!at(json, "files").is_array()) refuse_part(path, "its entry 'files' is missing or of the wrong type");
  std::set<std::string> names;
  for (const Json& f : json["files"]) {
    Part part;
    part.name = field<std::string>(path, f, "name", f.is_object() && at(f, "name").is_string());
    part.bytes = field<uint64_t>(path, f, "bytes", at(f, "bytes").is_number_unsigned());
    const auto crc = parse_crc(field<std::string>(path, f, "crc32c", at(f, "crc32c").is_string()));
    // Only names that a save uses: no path can lead out of the folder.
    if (!is_part_name(part.name) || part.name == kManifestFile || !names.insert(part.name).second || !crc) {
      refuse_part(path, str("its file ", in_quotes(part.name), " does not belong to a checkpoint"));
    }
    part.crc = *crc;
    m.parts.push_back(part);
  }
  // Complete: weights, state, and every shard of one sharding.
  std::optional<int> shards;
  int seen = 0;
  for (const Part& part : m.parts) {
    if (const auto s = shard_of(part.name)) {
      if (shards.value_or(s->count) != s->count) refuse_part(path, "it mixes optimizer files of two different runs");
      shards = s->count;
      ++seen;
    }
  }
  if (!names.contains(std::string(kWeightsFile)) || !names.contains(std::string(kStateFile)) ||
      seen != shards.value_or(1)) {
    refuse_part(path, "it does not list all files of a checkpoint");
  }
  std::ranges::sort(m.parts, {}, &Part::name);
  const Json& lost = at(json, "not_finite");
  const bool right = lost.is_array() && std::ranges::all_of(lost, &Json::is_string);
  m.not_finite = field<std::vector<std::string>>(path, json, "not_finite", right);
  return m;
}

std::string manifest_text(const Manifest& m) {
  Json list = Json::array();
  for (const Part& p : m.parts) list.push_back({{"name", p.name}, {"bytes", p.bytes}, {"crc32c", crc_text(p.crc)}});
  const Json json = {{"version", kCheckpointVersion}, {"step", m.step},           {"run", m.identity.run},
                     {"model", m.identity.model},     {"files", std::move(list)}, {"not_finite", m.not_finite}};
  return seal(kManifestOpening, "\"," + json.dump(1).substr(1) + "\n");
}

void verify_part(const Path& folder, const Part& part, SafetensorsFile::Check check,
                 const std::function<void(const Error&)>& wrong) {
  const Path path = folder / part.name;
  try {
    if (kind_of_entry(path, ExitCode::checkpoint) == PathKind::nothing) refuse_part(path, "it is missing");
    const MappedFile file(path, MappedFile::Links::refuse, ExitCode::checkpoint);
    if (file.bytes().size() != part.bytes) {
      refuse_part(path, str("it has ", file.bytes().size(), " bytes, the manifest says ", part.bytes));
    }
    // First what is quick to see: a file may be a terabyte of nothing.
    if (part.name.ends_with(".safetensors"))
      SafetensorsFile(path, SafetensorsFile::Check::header, MappedFile::Links::refuse);
    else if (part.bytes > kLongestJson)
      refuse_part(path, str("it has ", part.bytes, " bytes, far too many"));
    if (check == SafetensorsFile::Check::header || crc32c(file.bytes()) == part.crc) return;
    file.require_unchanged(ExitCode::checkpoint);
    if (part.name.ends_with(".safetensors")) {
      // Say which tensor, where that is possible.
      const SafetensorsFile tensors(path, SafetensorsFile::Check::header, MappedFile::Links::refuse);
      const auto damaged = tensors.damaged_tensors();
      for (const std::string& line : damaged) wrong(Error(ExitCode::checkpoint, line + std::string(kTakeAnother)));
      if (!damaged.empty()) return;
    }
    refuse_part(path, "its checksum differs from the manifest's");
  } catch (const Error& e) {
    if (e.code() == ExitCode::memory) throw;  // which is no fault of the file
    wrong(e);
  }
}

// ---- names

std::string step_name(int64_t step) { return fmt::format("step-{:08}", static_cast<long long>(step)); }

std::optional<int64_t> step_of(std::string_view name) {
  constexpr std::string_view kPrefix = "step-";
  if (!name.starts_with(kPrefix) || name.size() > kPrefix.size() + 15) return std::nullopt;
  int64_t step = 0;
  for (char c : name.substr(kPrefix.size())) {
    if (c < '0' || c > '9') return std::nullopt;
    step = step * 10 + (c - '0');
  }
  return step_name(step) == name ? std::optional(step) : std::nullopt;
}

std::string shard_name(int shard, int shards) { return fmt::format("optim-{:02}-of-{:02}.safetensors", shard, shards); }

bool is_part_name(const std::string& name) {
  return name == kWeightsFile || name == kStateFile || name == kManifestFile || shard_of(name).has_value();
}

std::optional<ShardNumber> shard_of(const std::string& name) {
  ShardNumber s{};
  if (std::sscanf(name.c_str(), "optim-%6d-of-%6d.safetensors", &s.index, &s.count) != 2) return std::nullopt;
  if (s.index < 0 || s.index >= s.count || shard_name(s.index, s.count) != name)
    return std::nullopt;  // only the one spelling
  return s;
}

}  // namespace ct
