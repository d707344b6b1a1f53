// The kinds of data sets, the only interface to them for the rest of the program. A new kind is a subfolder and a row
// in kinds.cpp.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "data/dataset.h"
#include "data/pictures/transform.h"

namespace ct {

struct DataKind;

/// A data set that locate_data() has found.
struct DataSource {
  const DataKind* kind = nullptr;
  std::filesystem::path folder;  // the set's folder or file; empty: in memory
  // The folders of the splits, if keys set them, for a kind with separate splits (DataKind::holds_split).
  std::filesystem::path train = {}, val = {}, test = {};
  std::string note;      // a message for the user: the choice and, for the synthetic set, the alternatives
  bool written = false;  // by this call
  // A later call with IfAbsent::write writes the set. Until then open() returns a DeferredDataSet
  // (data/deferred_data_set.h), and the note gives the reason for the choice.
  bool to_write = false;
};

enum class IfAbsent { write, write_later, keep_in_memory };  // for a set that the program generates
struct LocateOptions {
  // data.train; data.val or the folder of data.validation; that of data.test. Empty: not given
  std::filesystem::path train = {}, val = {}, test = {};
  bool by_name = false;                 // data.dataset names the kind: its absence is an error
  std::optional<Split> evaluated = {};  // only this split is read, from --data instead of data.*
  IfAbsent if_absent = IfAbsent::write;
  std::function<void()> progress = {};  // called now and then while a set is written
};

struct OpenOptions {
  std::filesystem::path output = {};  // a folder that the program writes, which must not be among those of the classes
  OnCorrupt on_corrupt = OnCorrupt::error;
  Labels labels = Labels::fine;
  int threads = 1;                 // that generate a set in memory, or read its files; 0: all available cores
  PictureTransform pictures = {};  // how pictures become samples
  // For a test set whose folders are its classes: the allowed classes, if there is no training set next to it.
  std::vector<std::string> classes = {};
};

/// The properties of a set that are known without reading its images.
struct DataSize {
  DataSpec spec;
  int64_t bytes = 0;  // mapped: once for all ranks of a host
};

/// One file of a set.
struct FileReport {
  std::filesystem::path path;
  uint64_t bytes = 0;
  std::string sha256;  // empty: not readable
  int64_t records = 0;
  std::string problem;                  // the fault, in one line without the path; empty: none
  std::vector<std::string> notes = {};  // messages that are not errors
};

/// How much DataKind::verify() reads.
enum class Depth : uint8_t { names_and_sizes, every_byte };

struct DataKind {
  std::string_view key;     // data.dataset: "cifar10"
  std::string_view name;    // in records, checkpoints and messages: "CIFAR-10"
  std::string_view folder;  // its folder in data.path
  bool automatic = true;    // data.dataset: auto may select it; false: only by name
  std::string_view suffix;  // of a set that is one file, which data.path may be; empty: a folder
  bool pictures = false;    // images are decoded and resized by OpenOptions::pictures
  std::string_view remedy;  // how to get complete files again
  /// How to get the set if there is none; `path` is data.path.
  std::string (*how_to_get)(const std::filesystem::path& path);
  /// The set's folder, which is `path` or in it; nullopt: there is none. Changes nothing.
  std::optional<std::filesystem::path> (*find)(const std::filesystem::path& path);
  /// Is `path` one split of such a set? Null: splits are not separate.
  bool (*holds_split)(const std::filesystem::path& path) = nullptr;
  /// Finds the set for a run, or generates it if the kind can. Error(data) if a set given by name is missing. Null:
  /// find() is used.
  std::optional<DataSource> (*locate)(const std::filesystem::path& path, const LocateOptions& options);
  /// Does the set have such images of its own? Null: train and test.
  bool (*has)(const DataSource& source, Split split) = nullptr;
  /// Opens a split that the set has; `test` of a set that has only `val` is that.
  std::unique_ptr<DataSet> (*open)(const DataSource& source, Split split, const OpenOptions& options);
  /// The size of the set, or the usual size if `source` has no folder.
  DataSize (*size)(const DataSource& source, const OpenOptions& options);
  std::string_view verified;  // describes verify(): "sizes and labels are checked"
  /// Reports on every file, including incomplete ones: damage is reported, not thrown.
  std::vector<FileReport> (*verify)(const std::filesystem::path& folder, const OpenOptions& options, Depth depth);
};

inline bool has_split(const DataSource& source, Split split) {
  return source.kind->has != nullptr ? source.kind->has(source, split) : split != Split::val;
}

/// The kinds in the order in which data.dataset: auto tries them; the last one is always available.
std::span<const DataKind> data_kinds();

/// The kind with that key or name; null: there is none.
const DataKind* find_kind(std::string_view key_or_name, std::span<const DataKind> kinds = data_kinds());

/// The fault of a set that the names and sizes of its files show, in one line without the remedy; empty: none.
std::string problem_of(const DataKind& kind, const std::filesystem::path& folder);

/// For DataKind::verify(): the report of `inspect` on a file. An Error that it throws becomes the file's problem.
FileReport report_of(const std::filesystem::path& path, const std::function<void(FileReport&)>& inspect);
/// Sets the problem of each file that has the same bytes as an earlier one and no problem yet: a copy has overwritten
/// it.
void name_twins(std::vector<FileReport>& files);

/// The set's name under data.path, for messages: "mnist/", "*.ctpack".
std::string shown_folder(const DataKind& kind);

/// "auto" and the keys.
std::vector<std::string> dataset_choices();

}  // namespace ct
