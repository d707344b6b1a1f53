// The kinds of data sets: all that the rest of the program knows of one. A new kind is a folder beside this file and a
// row in kinds.cpp.
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

/// A data set that was found.
struct DataSource {
  const DataKind* kind = nullptr;
  std::filesystem::path folder;  // or the file that the set is; empty: in memory
  // Where the splits lie, if data.train or data.val say so, of a kind that takes them apart (DataKind::holds_split).
  std::filesystem::path train = {}, val = {};
  std::string note;      // a sentence for the user: what was chosen and, where it is a makeshift, what else to do
  bool written = false;  // just now
  // By another call, with IfAbsent::write: until then open() gives a DeferredDataSet (data/deferred_data_set.h), and
  // the note says why the set is chosen.
  bool to_write = false;
};

enum class IfAbsent { write, write_later, keep_in_memory };  // a set that the program makes itself
struct LocateOptions {
  std::filesystem::path train = {}, val = {};  // data.train, data.val; empty: not given
  bool by_name = false;                        // data.dataset names it: not to find it is an error
  std::optional<Split> evaluated = {};         // nothing but this is read, from where --data says, not data.*
  IfAbsent if_absent = IfAbsent::write;
  std::function<void()> progress = {};  // called now and then while a set is written
};

struct OpenOptions {
  OnCorrupt on_corrupt = OnCorrupt::error;
  int threads = 1;                 // that generate a set in memory, or look at its files; 0: all cores at hand
  PictureTransform pictures = {};  // how pictures become samples
  // Of a set to test on whose folders name its classes: those that it may have, where no others lie beside it.
  std::vector<std::string> classes = {};
};

/// What is known of a set without reading its images.
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
  std::string problem;                  // what is wrong, in one line without the path; empty: nothing
  std::vector<std::string> notes = {};  // what is worth knowing, and not wrong
};

/// How much DataKind::verify() reads.
enum class Depth : uint8_t { names_and_sizes, every_byte };

struct DataKind {
  std::string_view key;     // data.dataset: "cifar10"
  std::string_view name;    // in records, checkpoints and messages: "CIFAR-10"
  std::string_view folder;  // where it lies under data.path
  bool automatic = true;    // data.dataset: auto takes it; false: it must be asked for by name
  std::string_view suffix;  // of a set that is one file, which data.path may name; empty: it is a folder
  bool pictures = false;    // images are decoded and get their size by OpenOptions::pictures
  std::string_view remedy;  // how to get whole files again
  /// What to do where there is none, `path` being data.path.
  std::string (*how_to_get)(const std::filesystem::path& path);
  /// The set's folder, which is `path` or lies below; nothing where it is not. Looks, and changes nothing.
  std::optional<std::filesystem::path> (*find)(const std::filesystem::path& path);
  /// Is what lies at `path` one split of such a set? Null: its splits do not lie apart.
  bool (*holds_split)(const std::filesystem::path& path) = nullptr;
  /// Finds the set for a run, or makes it if the kind does; not to find it by name is Error(data). Null: find() does.
  std::optional<DataSource> (*locate)(const std::filesystem::path& path, const LocateOptions& options);
  std::unique_ptr<DataSet> (*open)(const DataSource& source, Split split, const OpenOptions& options);
  /// What is known of the set, or of one as large as it usually is where `source` names no folder.
  DataSize (*size)(const DataSource& source, const OpenOptions& options);
  std::string_view verified;  // what verify() does: "sizes and labels are checked"
  /// Every file, whole or not: damage is reported, not thrown.
  std::vector<FileReport> (*verify)(const std::filesystem::path& folder, const OpenOptions& options, Depth depth);
};

/// The kinds in the order in which data.dataset: auto tries them; the last one is always to be had.
std::span<const DataKind> data_kinds();

/// The kind with that key or name; null: there is none.
const DataKind* find_kind(std::string_view key_or_name, std::span<const DataKind> kinds = data_kinds());

/// What names and sizes of a set's files say is wrong, in one line without the remedy; empty: nothing.
std::string problem_of(const DataKind& kind, const std::filesystem::path& folder);

/// For DataKind::verify(): the report that `inspect` makes of a file. An Error that it throws is the file's problem.
FileReport report_of(const std::filesystem::path& path, const std::function<void(FileReport&)>& inspect);
/// Each file that has the bytes of an earlier one, and no problem yet, gets that problem: it was copied over another.
void name_twins(std::vector<FileReport>& files);

/// What lies under data.path, for people: "mnist/", "*.ctpack".
std::string shown_folder(const DataKind& kind);

/// "auto" and the keys.
std::vector<std::string> dataset_choices();

}  // namespace ct
