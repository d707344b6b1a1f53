#include "checkpoint/store.h"

#include <fcntl.h>

#include <algorithm>
#include <cstdio>
#include <set>
#include <utility>

#include "base/crc32c.h"
#include "base/error.h"
#include "base/paths.h"
#include "checkpoint/sealed_json.h"
#include "checkpoint/second_try.h"

namespace ct {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kBeing = ".tmp-", kOld = ".old-", kTrash = ".trash-";

void check_identity(const Path& folder, const Manifest& manifest, const RunIdentity& identity) {
  if (!identity.model.empty() && manifest.identity.model != identity.model) {
    refuse_part(folder,
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

Metadata with_shard(Metadata marks, ShardNumber shard) {
  marks[kShardMark] = str(shard.index, " of ", shard.count);
  return marks;
}

/// Refuses a file of another checkpoint under this one's name.
void check_marks(const SafetensorsFile& file, const Metadata& expected) {
  for (const auto& [key, value] : expected) {
    const auto found = file.metadata().find(key);
    const std::string is = found == file.metadata().end() ? "nothing" : in_quotes(found->second);
    if (is != in_quotes(value))
      refuse_part(file.path(),
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
    check_marks(optimizer.back(), with_shard(marks, {i, shards}));
  }
  SafetensorsFile weights = open(std::string(kWeightsFile));
  check_marks(weights, marks);
  const Path state = folder / kStateFile;
  Checkpoint checkpoint{manifest, std::move(weights), std::move(optimizer),
                        parse_strict_json(read_part(state), in_quotes(state.native()))};
  checkpoint.moments();  // do the shards fit together?
  return checkpoint;
}

/// A file or folder in a checkpoint's folder that no save has written; empty: none. The names that clients of NFS give
/// to removed files, which they remove themselves, do not count, nor does what a link in the folder's place leads to.
Path other_file_in(const Path& folder) {
  if (kind_of_entry(folder) == PathKind::folder)
    for (const std::string& name : list_folder(folder))
      if (!name.starts_with(".nfs") && (!is_saved_name(name) || kind_of_entry(folder / name) == PathKind::folder))
        return folder / name;
  return {};
}

std::string move_away(const Path& other) {
  return str(in_quotes(other.native()), " was written by no save: move it away");
}

/// Asked again, because a resume forgets what is newer than its checkpoint, and faults of a network pass.
std::vector<Error> verified_twice(const Store& store, int64_t step) {
  auto problems = store.verify(step);
  return problems.empty() ? problems : store.verify(step);
}

void require_no_others(const Path& folder) {
  if (const Path other = other_file_in(folder); !other.empty()) fail(ExitCode::io, move_away(other));
}

}  // namespace

bool is_saved_name(const std::string& name) {
  return is_part_name(name) ||
         (name.starts_with(kTemporaryPrefix) && is_part_name(name.substr(kTemporaryPrefix.size())));
}

std::string not_finite_text(const std::vector<std::string>& names) {
  if (names.empty()) return "";
  if (names.size() == 1) return str("tensor ", in_quotes(names.front()), " is not finite");
  return str(names.size(), " tensors are not finite (the first is ", in_quotes(names.front()), ")");
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

bool is_scratch_name(std::string_view name) {
  for (std::string_view prefix : {kBeing, kOld, kTrash}) {
    if (name.starts_with(prefix) && step_of(name.substr(prefix.size()))) return true;
  }
  return false;
}

// ---- Store

Store::Store(FileSystem& files, const Path& folder, const RunIdentity& identity, RequireState require_state)
    : files_(files), folder_(folder), identity_(identity), require_state_(std::move(require_state)) {}

Path Store::scratch(std::string_view prefix, int64_t step) const {
  return folder_ / (std::string(prefix) + step_name(step));
}

/// Of a link in its place only the link: a checkpoint that was moved elsewhere is not deleted there.
void Store::remove_step_folder(const Path& path) { remove_known(files_, path, is_saved_name); }

void Store::begin(int64_t step) {
  const Path being = scratch(kBeing, step);
  make_folders(files_, folder_);
  remove_step_folder(being);
  require_no_others(being);  // they would become a part of the checkpoint
  make_folders(files_, being);
}

File Store::create_weights(int64_t step) {
  return File(files_, scratch(kBeing, step) / kWeightsFile, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW);
}

File Store::open_weights(int64_t step) {
  return File(files_, scratch(kBeing, step) / kWeightsFile, O_WRONLY | O_NOFOLLOW);
}

File Store::create_shard(int64_t step, int shard, int shards) {
  return File(files_, scratch(kBeing, step) / shard_name(shard, shards), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW);
}

bool is_optimizer_shard(const SafetensorsFile& file) { return file.metadata().contains(kShardMark); }

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
  write_file_atomic(files_, being / kStateFile, state_text);
  parts.push_back({std::string(kStateFile), state_text.size(), crc32c(state_text)});

  write_file_atomic(files_, being / kManifestFile, manifest_text({step, identity_, std::move(parts), not_finite}));

  const bool replaces = kind_of_entry(final) != PathKind::nothing;
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
  try {
    if (replaces) remove_step_folder(old);
  } catch (const Error&) {  // the new one is in place; the next recover() reports it
  }
}

void Store::recover(const std::function<void(const std::string&)>& report) {
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
    try {
      remove_step_folder(folder_ / name);
      require_no_others(folder_ / name);
    } catch (const Error& e) {  // nobody reads it, so it stops no run
      report(str("a leftover of a save stays: ", e.what()));
    }
  }
}

std::vector<int64_t> Store::prune(int64_t keep_last, std::optional<int64_t> good) {
  const std::vector<int64_t> steps = beyond(keep_last, good);
  remove(steps);
  return steps;
}

void Store::remove(const std::vector<int64_t>& steps) {
  remove_trash();
  for (const int64_t step : steps) remove_checkpoint(step);
}

std::vector<int64_t> Store::beyond(int64_t keep_last, std::optional<int64_t> good,
                                   const std::function<void(const std::string&)>& report) const {
  check(keep_last >= 0, "beyond(", keep_last, ")");
  std::vector<int64_t> steps = list();
  if (steps.size() <= static_cast<size_t>(keep_last)) return {};
  if (!good) good = newest_good([](const std::string&) {});
  const auto finite = newest_finite(good);
  steps.resize(steps.size() - static_cast<size_t>(keep_last));
  std::erase_if(steps, [&](int64_t step) { return step == good || step == finite; });
  std::erase_if(steps, [&](int64_t step) {
    const Path other = other_file_in(path_of(step));
    if (!other.empty() && report) report(str("checkpoint ", step, " stays: ", move_away(other)));
    return !other.empty();
  });
  return steps;
}

/// What a removal that failed has left.
void Store::remove_trash() {
  for (const std::string& name : list_folder(folder_)) {
    if (!is_scratch_name(name) || !name.starts_with(kTrash)) continue;
    try {
      remove_step_folder(folder_ / name);
    } catch (const Error&) {  // the next recover() reports it
    }
  }
}

/// Removes a checkpoint, out of sight in one step, so that a kill or a power failure halfway leaves no damaged one.
void Store::remove_checkpoint(int64_t step) {
  Path trash = scratch(kTrash, step);
  remove_step_folder(trash);
  for (int64_t free = step + 1; is_there(trash); ++free) trash = scratch(kTrash, free);  // files of others stay there
  rename_file(files_, path_of(step), trash);
  sync_folder(files_, folder_);
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

std::vector<Error> Store::verify(int64_t step) const {
  std::vector<Error> problems;
  const auto add = [&problems](const Error& e) { problems.push_back(e); };
  try {
    const Path folder = path_of(step);
    const Manifest m = manifest(step);
    for (const Part& part : m.parts) verify_part(folder, part, SafetensorsFile::Check::all, add);
    if (!problems.empty()) return problems;
    const Checkpoint checkpoint = open_checkpoint(folder, m, SafetensorsFile::Check::all);
    if (require_state_) require_state_(checkpoint);
  } catch (const Error& e) {
    if (e.code() == ExitCode::memory) throw;
    add(e);
  }
  return problems;
}

std::optional<int64_t> Store::newest_good(const std::function<void(const std::string&)>& report) const {
  const auto steps = list();
  std::optional<Error> unread;
  for (size_t i = steps.size(); i-- > 0;) {
    const auto problems = verified_twice(*this, steps[i]);
    if (problems.empty()) return steps[i];
    for (const Error& e : problems) {
      report(e.what());
      if (e.code() == ExitCode::io && !unread) unread = e;
    }
  }
  if (steps.empty()) return std::nullopt;
  if (unread)
    fail(ExitCode::io, "none of the ", steps.size(), " checkpoints in ", in_quotes(folder_.native()),
         " is valid and can be read: ", unread->what());
  fail(ExitCode::checkpoint, "none of the ", steps.size(), " checkpoints in ", in_quotes(folder_.native()),
       " is valid, the newest is ", step_name(steps.back()), ": restore a copy of one, or delete the run with --reset");
}

std::optional<int64_t> Store::newest_finite(std::optional<int64_t> good, int64_t before) const {
  auto steps = list();
  std::erase_if(steps, [&](int64_t step) { return step >= before; });
  for (size_t i = steps.size(); i-- > 0;) {
    try {  // the manifest first: it says in a moment what need not be verified
      if (!with_second_try([&] { return manifest(steps[i]); }).not_finite.empty()) continue;
      if (steps[i] == good || verified_twice(*this, steps[i]).empty()) return steps[i];
    } catch (const Error& e) {
      if (e.code() != ExitCode::checkpoint && e.code() != ExitCode::io) throw;
    }
  }
  return std::nullopt;
}

Manifest Store::manifest(int64_t step) const {
  const Path folder = path_of(step);
  const Manifest m = read_manifest(folder);
  if (m.step != step) refuse_part(folder, str("its manifest is that of step ", m.step));
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
    verify_part(folder, part, check, [](const Error& e) { throw Error(e); });
  }
  return open_checkpoint(folder, m, check);
}

}  // namespace ct
