#include "checkpoint/store.h"

#include <fcntl.h>

#include <algorithm>
#include <cstdio>
#include <set>

#include "base/crc32c.h"
#include "base/error.h"
#include "base/paths.h"
#include "checkpoint/sealed_json.h"

namespace ct {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kWeights = "weights.safetensors", kState = "state.json", kManifest = "manifest.json";
constexpr std::string_view kOpening = R"({"manifest_crc32c":")";
constexpr std::string_view kBeing = ".tmp-", kOld = ".old-", kTrash = ".trash-";
constexpr uint64_t kLongestJson = uint64_t{64} << 20;
constexpr std::string_view kRemedy = ": take another checkpoint";

struct Shard {
  int index, count;
};

std::optional<Shard> shard_of(const std::string& name) {
  Shard s{};
  if (std::sscanf(name.c_str(), "optim-%6d-of-%6d.safetensors", &s.index, &s.count) != 2) return std::nullopt;
  if (s.index < 0 || s.index >= s.count || shard_name(s.index, s.count) != name)
    return std::nullopt;  // only the one spelling
  return s;
}

[[noreturn]] void refuse(const Path& path, const std::string& what, std::string_view remedy = kRemedy) {
  fail(ExitCode::checkpoint, in_quotes(path.native()), ": ", what, remedy);
}

std::string read_part(const Path& path) {
  if (kind_of_entry(path, ExitCode::checkpoint) == PathKind::nothing) refuse(path, "it is missing");
  return read_file(path, kLongestJson, MappedFile::Links::refuse, ExitCode::checkpoint);
}

template <class T>
T field(const Path& path, const Json& json, const char* key, bool right_type) {
  if (!right_type) refuse(path, str("its entry '", key, "' is missing or of the wrong type"));
  return json[key].get<T>();
}

/// A missing key is null, which is of no type that is asked for.
const Json& at(const Json& json, const char* key) {
  static const Json kNull;
  return json.contains(key) ? json[key] : kNull;
}

Manifest read_manifest(const Path& folder) {
  const Path path = folder / kManifest;
  const std::string text = read_part(path);
  if (!is_sealed(text, kOpening)) refuse(path, "it does not have its checksum, so it is damaged");
  const Json json = parse_strict_json(text, in_quotes(path.native()));
  const auto version = field<uint64_t>(path, json, "version", at(json, "version").is_number_unsigned());
  if (version > kCheckpointVersion) {
    refuse(path, str("it is of format ", version, ", this program reads up to ", kCheckpointVersion),
           ": use the newer version of the program that wrote it");
  }
  Manifest m;
  m.step = static_cast<int64_t>(field<uint64_t>(path, json, "step", at(json, "step").is_number_unsigned()));
  m.identity.run = field<std::string>(path, json, "run", at(json, "run").is_string());
  m.identity.model = field<std::string>(path, json, "model", at(json, "model").is_string());
  if (!at(json, "files").is_array()) refuse(path, "its entry 'files' is missing or of the wrong type");
  std::set<std::string> names;
  for (const Json& f : json["files"]) {
    Part part;
    part.name = field<std::string>(path, f, "name", f.is_object() && at(f, "name").is_string());
    part.bytes = field<uint64_t>(path, f, "bytes", at(f, "bytes").is_number_unsigned());
    const auto crc = parse_crc(field<std::string>(path, f, "crc32c", at(f, "crc32c").is_string()));
    // Only names that a save uses: no path can lead out of the folder.
    if (!is_part_name(part.name) || part.name == kManifest || !names.insert(part.name).second || !crc) {
      refuse(path, str("its file ", in_quotes(part.name), " is not one of a checkpoint"));
    }
    part.crc = *crc;
    m.parts.push_back(part);
  }
  // Complete: weights, state, and every shard of one sharding.
  std::optional<int> shards;
  int seen = 0;
  for (const Part& part : m.parts) {
    if (const auto s = shard_of(part.name)) {
      if (shards.value_or(s->count) != s->count) refuse(path, "it mixes optimizer files of two different runs");
      shards = s->count;
      ++seen;
    }
  }
  if (!names.contains(std::string(kWeights)) || !names.contains(std::string(kState)) || seen != shards.value_or(1)) {
    refuse(path, "it does not list all files of a checkpoint");
  }
  std::sort(m.parts.begin(), m.parts.end(), [](const Part& a, const Part& b) { return a.name < b.name; });
  if (const Json& names = at(json, "not_finite"); !names.is_null()) {
    const bool right = names.is_array() && std::ranges::all_of(names, &Json::is_string);
    m.not_finite = field<std::vector<std::string>>(path, json, "not_finite", right);
  }
  return m;
}

/// Calls `wrong` with a line for each fault of a listed file.
void check_part(const Path& folder, const Part& part, SafetensorsFile::Check check,
                const std::function<void(const std::string&)>& wrong) {
  const Path path = folder / part.name;
  try {
    if (kind_of_entry(path, ExitCode::checkpoint) == PathKind::nothing) refuse(path, "it is missing");
    const MappedFile file(path, MappedFile::Links::refuse, ExitCode::checkpoint);
    if (file.bytes().size() != part.bytes) {
      refuse(path, str("it has ", file.bytes().size(), " bytes, the manifest says ", part.bytes));
    }
    if (check == SafetensorsFile::Check::header || crc32c(file.bytes()) == part.crc) return;
    file.require_unchanged(ExitCode::checkpoint);
    if (part.name.ends_with(".safetensors")) {
      // Say which tensor, where that is possible.
      const SafetensorsFile tensors(path, SafetensorsFile::Check::header, MappedFile::Links::refuse);
      const auto damaged = tensors.damaged_tensors();
      for (const std::string& line : damaged) wrong(line + std::string(kRemedy));
      if (!damaged.empty()) return;
    }
    refuse(path, "it does not have the checksum of the manifest");
  } catch (const Error& e) {
    if (e.code() == ExitCode::memory) throw;  // which is no fault of the file
    wrong(e.what());
  }
}

void check_identity(const Path& folder, const Manifest& manifest, const RunIdentity& identity) {
  if (!identity.model.empty() && manifest.identity.model != identity.model) {
    refuse(folder,
           str("it is of the model ", in_quotes(manifest.identity.model), ", the configuration's is ",
               in_quotes(identity.model)),
           ": set model.name to that or choose another --output");
  }
}

constexpr const char *kRunMark = "checkpoint.run", *kModelMark = "checkpoint.model", *kStepMark = "checkpoint.step",
                     *kShardMark = "checkpoint.shard";

Metadata marks_of(const RunIdentity& identity, int64_t step) {
  return {{kRunMark, identity.run}, {kModelMark, identity.model}, {kStepMark, std::to_string(step)}};
}

Metadata with_shard(Metadata marks, Shard shard) {
  marks[kShardMark] = str(shard.index, " of ", shard.count);
  return marks;
}

/// A file of another checkpoint under this one's name. Files of earlier versions have no marks, and one shard.
void check_marks(const SafetensorsFile& file, const Metadata& expected, bool required) {
  for (const auto& [key, value] : expected) {
    const auto found = file.metadata().find(key);
    if (found == file.metadata().end() && !required) continue;
    const std::string is = found == file.metadata().end() ? "nothing" : in_quotes(found->second);
    if (is != in_quotes(value))
      refuse(file.path(),
             str("it belongs elsewhere: its ", key, " is ", is, " where the checkpoint has ", in_quotes(value)));
  }
}

Checkpoint open_checkpoint(const Path& folder, const Manifest& manifest, SafetensorsFile::Check check) {
  const auto open = [&](const std::string& name) {
    return SafetensorsFile(folder / name, check, MappedFile::Links::refuse);
  };
  const Metadata marks = marks_of(manifest.identity, manifest.step);
  std::vector<SafetensorsFile> optimizer;
  int shards = 0;
  for (const Part& part : manifest.parts) shards += shard_of(part.name).has_value();
  for (int i = 0; i < shards; ++i) {
    optimizer.push_back(open(shard_name(i, shards)));
    check_marks(optimizer.back(), with_shard(marks, {i, shards}), shards > 1);
  }
  SafetensorsFile weights = open(std::string(kWeights));
  check_marks(weights, marks, shards > 1);
  const Path state = folder / kState;
  Checkpoint checkpoint{manifest, std::move(weights), std::move(optimizer),
                        parse_strict_json(read_part(state), in_quotes(state.native()))};
  checkpoint.moments();  // do the shards fit together?
  return checkpoint;
}

}  // namespace

std::vector<std::string> Checkpoint::not_finite() const {
  if (manifest.not_finite) return *manifest.not_finite;
  std::vector<std::string> names = ct::not_finite(logical_tensors(std::span(&weights, 1)));
  for (const std::string& name : ct::not_finite(moments())) names.push_back(name);
  std::ranges::sort(names);
  return names;
}

std::string not_finite_text(const std::vector<std::string>& names) {
  if (names.empty()) return "";
  if (names.size() == 1) return str("tensor ", in_quotes(names.front()), " is not finite");
  return str(names.size(), " tensors are not finite (the first is ", in_quotes(names.front()), ")");
}

// ---- names

std::string step_name(int64_t step) {
  char name[32];
  std::snprintf(name, sizeof name, "step-%08lld", static_cast<long long>(step));
  return name;
}

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

std::string saved_best_name(int64_t step) { return str("best-", step_name(step).substr(5), ".bin"); }

std::optional<int64_t> saved_best_step(std::string_view name) {
  constexpr std::string_view kPrefix = "best-", kSuffix = ".bin";
  if (name.starts_with(kTemporaryPrefix)) name.remove_prefix(kTemporaryPrefix.size());
  if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  name.remove_suffix(std::min(name.size(), kSuffix.size()));
  return step_of(str("step-", name));
}

std::string shard_name(int shard, int shards) {
  char name[64];
  std::snprintf(name, sizeof name, "optim-%02d-of-%02d.safetensors", shard, shards);
  return name;
}

bool is_part_name(const std::string& name) {
  return name == kWeights || name == kState || name == kManifest || shard_of(name).has_value();
}

bool is_scratch_name(std::string_view name) {
  for (std::string_view prefix : {kBeing, kOld, kTrash}) {
    if (name.starts_with(prefix) && step_of(name.substr(prefix.size()))) return true;
  }
  return false;
}

// ---- Store

Store::Store(FileSystem& files, const Path& folder, const RunIdentity& identity)
    : files_(files), folder_(folder), identity_(identity) {}

Path Store::scratch(std::string_view prefix, int64_t step) const {
  return folder_ / (std::string(prefix) + step_name(step));
}

void Store::remove_step_folder(const Path& path) {
  const std::string temporary(kTemporaryPrefix);
  remove_known(files_, path, [&](const std::string& name) {
    return is_part_name(name) || (name.starts_with(temporary) && is_part_name(name.substr(temporary.size())));
  });
}

void Store::begin(int64_t step) {
  make_folders(files_, folder_);
  remove_step_folder(scratch(kBeing, step));
  make_folders(files_, scratch(kBeing, step));
}

File Store::create_weights(int64_t step) {
  return File(files_, scratch(kBeing, step) / kWeights, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW);
}

File Store::open_weights(int64_t step) { return File(files_, scratch(kBeing, step) / kWeights, O_WRONLY | O_NOFOLLOW); }

File Store::create_shard(int64_t step, int shard, int shards) {
  return File(files_, scratch(kBeing, step) / shard_name(shard, shards), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW);
}

Metadata Store::marks(int64_t step) const { return marks_of(identity_, step); }
Metadata Store::marks(int64_t step, int shard, int shards) const { return with_shard(marks(step), {shard, shards}); }

void Store::abandon(int64_t step) noexcept {
  try {
    remove_step_folder(scratch(kBeing, step));  // a full disk should not stay full because of us
  } catch (const Error&) {                      // the error that led here says more
  }
}

void Store::commit(int64_t step, std::vector<Part> parts, const Json& state,
                   const std::vector<std::string>& not_finite) {
  const Path being = scratch(kBeing, step), old = scratch(kOld, step), final = folder_ / step_name(step);
  const std::string state_text = state.dump(1) + "\n";
  write_file_atomic(files_, being / kState, state_text);
  parts.push_back({std::string(kState), state_text.size(), crc32c(state_text)});

  Json list = Json::array();
  for (const Part& p : parts) list.push_back({{"name", p.name}, {"bytes", p.bytes}, {"crc32c", crc_text(p.crc)}});
  const Json rest = {{"version", kCheckpointVersion}, {"step", step},
                     {"run", identity_.run},          {"model", identity_.model},
                     {"files", std::move(list)},      {"not_finite", not_finite}};
  write_file_atomic(files_, being / kManifest, seal(kOpening, "\"," + rest.dump(1).substr(1) + "\n"));

  const bool replaces = is_there(final);
  if (replaces) {
    remove_step_folder(old);
    rename_file(files_, final, old);
  }
  try {
    rename_file(files_, being, final);
  } catch (const Error&) {
    if (replaces) files_.rename(old, final);
    throw;
  }
  sync_folder(files_, folder_);
  sync_folder(files_, folder_.parent_path());  // the first checkpoint comes with its folder
  if (replaces) remove_step_folder(old);
}

void Store::recover() {
  for (const std::string& name : list_folder(folder_)) {
    if (!is_scratch_name(name)) continue;
    if (name.starts_with(kOld)) {
      const Path final = folder_ / name.substr(kOld.size());
      if (!is_there(final)) {
        rename_file(files_, folder_ / name, final);
        sync_folder(files_, folder_);
        continue;
      }
    }
    remove_step_folder(folder_ / name);
  }
}

std::vector<int64_t> Store::prune(int keep_last, std::optional<int64_t> good) {
  check(keep_last >= 0, "prune(", keep_last, ")");
  std::vector<int64_t> removed;
  const auto steps = list();
  if (steps.size() <= static_cast<size_t>(keep_last)) return removed;
  if (!good) good = newest_good([](const std::string&) {});
  const auto finite = newest_finite(good);
  for (size_t i = 0; i + static_cast<size_t>(keep_last) < steps.size(); ++i) {
    if (steps[i] == good || steps[i] == finite) continue;
    remove_checkpoint(steps[i]);
    removed.push_back(steps[i]);
  }
  return removed;
}

/// Removes a checkpoint, out of sight in one step, so that a kill halfway leaves no damaged one.
void Store::remove_checkpoint(int64_t step) {
  const Path trash = scratch(kTrash, step);
  remove_step_folder(trash);
  rename_file(files_, path_of(step), trash);
  remove_step_folder(trash);
}

void Store::forget_after(int64_t step) {
  const auto steps = list();
  for (size_t i = steps.size(); i-- > 0 && steps[i] > step;) remove_checkpoint(steps[i]);  // the newest first
}

std::vector<int64_t> Store::list() const {
  std::set<int64_t> steps;
  for (std::string_view name : list_folder(folder_)) {
    if (name.starts_with(kOld)) name.remove_prefix(kOld.size());
    if (const auto step = step_of(name)) steps.insert(*step);
  }
  return {steps.begin(), steps.end()};
}

Path Store::path_of(int64_t step) const {
  const Path final = folder_ / step_name(step), old = scratch(kOld, step);
  return !is_there(final) && is_there(old) ? old : final;
}

std::vector<std::string> Store::verify(int64_t step) const {
  std::vector<std::string> problems;
  const auto add = [&problems](const std::string& line) { problems.push_back(line); };
  try {
    const Path folder = path_of(step);
    const Manifest m = manifest(step);
    for (const Part& part : m.parts) check_part(folder, part, SafetensorsFile::Check::all, add);
    if (problems.empty()) open_checkpoint(folder, m, SafetensorsFile::Check::all);
  } catch (const Error& e) {
    if (e.code() == ExitCode::memory) throw;
    add(e.what());
  }
  return problems;
}

std::optional<int64_t> Store::newest_good(const std::function<void(const std::string&)>& report) const {
  const auto steps = list();
  for (size_t i = steps.size(); i-- > 0;) {
    const auto problems = verify(steps[i]);
    if (problems.empty()) return steps[i];
    for (const std::string& line : problems) report(line);
  }
  if (steps.empty()) return std::nullopt;
  fail(ExitCode::checkpoint, "none of the ", steps.size(), " checkpoints in ", in_quotes(folder_.native()),
       " is good, the newest is ", step_name(steps.back()), ": restore a copy of one, or forget the run with --reset");
}

std::optional<int64_t> Store::newest_finite(std::optional<int64_t> good) const {
  const auto steps = list();
  for (size_t i = steps.size(); i-- > 0;) {
    try {  // the manifest first: it says in a moment what need not be verified
      if (const auto known = manifest(steps[i]).not_finite; known && !known->empty()) continue;
      if (steps[i] != good && !verify(steps[i]).empty()) continue;
      if (not_finite(steps[i]).empty()) return steps[i];
    } catch (const Error& e) {
      if (e.code() != ExitCode::checkpoint && e.code() != ExitCode::io) throw;
    }
  }
  return std::nullopt;
}

std::vector<std::string> Store::not_finite(int64_t step) const {
  const Manifest m = manifest(step);
  return m.not_finite ? *m.not_finite : open_checkpoint(path_of(step), m, SafetensorsFile::Check::header).not_finite();
}

Manifest Store::manifest(int64_t step) const {
  const Path folder = path_of(step);
  const Manifest m = read_manifest(folder);
  if (m.step != step) refuse(folder, str("its manifest is that of step ", m.step));
  return m;
}

Checkpoint Store::load(int64_t step) const {
  manifest(step);
  return load_checkpoint(path_of(step), identity_);
}

Checkpoint load_checkpoint(const Path& folder, const RunIdentity& identity, SafetensorsFile::Check check) {
  const Manifest m = read_manifest(folder);
  check_identity(folder, m, identity);
  for (const Part& part : m.parts) {
    check_part(folder, part, check, [](const std::string& line) { fail(ExitCode::checkpoint, line); });
  }
  return open_checkpoint(folder, m, check);
}

}  // namespace ct
