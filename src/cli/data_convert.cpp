#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <optional>

#include "base/cores.h"
#include "base/paths.h"
#include "base/text.h"
#include "cli/subverbs.h"
#include "data/cifar/cifar_set.h"
#include "data/cifar/python/python_batches.h"
#include "data/description.h"
#include "data/file_lists/file_list_set.h"
#include "data/kinds.h"
#include "data/packed/pack.h"
#include "data/packed/packed_set.h"
#include "data/pictures/encode.h"
#include "metrics/console.h"

namespace ct {
namespace {

/// Both splits of what is packed, and the one that is not.
struct Source {
  std::string what;
  Path folder;
  std::unique_ptr<DataSet> train, test, val;  // val: null unless the set has all three
};

/// Sets that can be packed: those with file lists, and all kinds but packed files. Nothing where there is none.
std::optional<Source> find_source(const Path& from, const OpenOptions& options = {}) {
  if (holds_file_lists(from)) {
    const auto open = [&](Split split) { return std::make_unique<FileListSet>(from, split, options.on_corrupt); };
    return Source{"pictures of file lists", from, open(Split::train), open(Split::test), nullptr};
  }
  for (const DataKind& kind : data_kinds()) {
    if (!kind.suffix.empty()) continue;
    const auto folder = kind.find(from);
    if (!folder) continue;
    const DataSource source{.kind = &kind, .folder = *folder};
    const auto open = [&](Split split) { return kind.open(source, split, options); };
    const bool all_three = has_split(source, Split::val) && has_split(source, Split::test);
    return Source{std::string(kind.name), *folder, open(Split::train), open(Split::test),
                  all_three ? open(Split::val) : nullptr};
  }
  return std::nullopt;
}

[[noreturn]] void fail_nothing_there(const Path& from) {
  fail(ExitCode::data, in_quotes(from.native()), ": ",
       is_there(from, ExitCode::data) ? "nothing that can be converted" : "no such file or folder",
       "; give a folder with train/ and val/, with ", kTrainingList, " or with ", kCifarFolder, "/, or ",
       kPythonArchive);
}

/// Only a packed file is ever replaced, and only when that is asked for.
void require_replaceable(const Path& out, bool force) {
  const PathKind kind = kind_of(out);
  if (kind == PathKind::nothing) return;
  if (kind != PathKind::file)
    fail(ExitCode::usage, in_quotes(out.native()), ": not a file, so it cannot be replaced: give another --out");
  const MappedFile there(out);
  const bool packed = is_packed(there.bytes());
  there.require_whole(ExitCode::io);
  if (!packed)
    fail(ExitCode::usage, in_quotes(out.native()),
         ": not a packed file, and only packed files are replaced: give another --out, or remove the file first");
  if (!force) fail(ExitCode::usage, in_quotes(out.native()), " exists already: give --force to replace it");
}

int convert_to_packed(const Path& from, const Path& out, bool force, PackOptions options, Console& console) {
  require_replaceable(out, force);
  const auto source = find_source(from, {.on_corrupt = options.on_corrupt, .threads = options.threads});
  if (!source && find_python_batches(from))
    fail(ExitCode::usage, in_quotes(from.native()), ": is CIFAR-10's python archive, which becomes ", kCifarFolder,
         "/: give a folder as --out");
  if (!source && is_there(from, ExitCode::data) && from.extension() == kPackedSuffix)
    fail(ExitCode::usage, in_quotes(from.native()), ": is already packed: give its source");
  if (!source) fail_nothing_there(from);
  console.note(str(source->what, " in ", source->folder.string(), ": ", source->train->count(), " + ",
                   source->test->count(), " pictures on ", counted(options.threads, "thread")));
  for (const auto& [set, split] : {std::pair{source->train.get(), Split::train}, {source->test.get(), Split::test}})
    for (const std::string& line : notes_of(*set, split)) console.note(line);
  warn(same_images(*source->train, *source->test, Split::test));
  if (source->val)
    warn(
        str(source->folder.string(), ": ", counted(source->val->count(), "validation picture"),
            source->val->count() == 1 ? " is" : " are",
            " not packed, because a packed file has pictures to train on and pictures to test on only: move them into ",
            "train/, of which a run holds a part out to validate on"));
  options.root = source->folder;
  options.progress = [&](int64_t done, int64_t of) {
    console.advance([&] { return str("packing picture ", done, "/", of); });
  };
  options.left_out = [&](const std::string& picture) { console.note("left out: " + picture); };
  FileSystem files;
  const PackedCounts counts = pack(files, out, *source->train, *source->test, options);
  console.data(str(out.string(), ": ", counted(counts.train, "picture"), " to train on, ", counts.test, " to test on, ",
                   human_bytes(counts.bytes),
                   counts.left_out == 0   ? ""
                   : counts.left_out == 1 ? "; a damaged one is left out"
                                          : str("; ", counts.left_out, " damaged ones are left out")));
  return 0;
}

int convert_to_cifar(const Path& from, const Path& out, Console& console) {
  const auto batches = find_python_batches(from);
  if (!batches && find_source(from, {.on_corrupt = OnCorrupt::skip}))
    fail(ExitCode::usage, "--out ", in_quotes(out.native()), ": ", in_quotes(from.native()),
         " is converted to a packed file: give it a name that ends in ", kPackedSuffix);
  if (!batches) fail_nothing_there(from);
  const Path folder = out.filename() == kCifarFolder ? out : out / kCifarFolder;
  FileSystem files;
  convert_python_batches(files, *batches, folder,
                         [&](const std::string& name) { console.progress("converting " + name); });
  console.data(str(folder.string(), ": written"));
  return 0;
}

}  // namespace

int data_convert(const Words& words) {
  CLI::App app(str("Packs pictures into one file, from which training starts at once. The input is a folder with "
                   "train/ and val/ or with file lists (",
                   kTrainingList,
                   "), CIFAR-10's binary files or MNIST. CIFAR-10's python archive is converted to the binary files."),
               "cifar-train data convert");
  std::string from, out, on_corrupt = "error";
  PackOptions options;
  options.threads = available_cores();
  bool force = false, quiet = false;
  app.add_option("--from", from, "the source: a folder, or the python archive")->required();
  app.add_option(
         "--out", out,
         str("the packed file, NAME", kPackedSuffix, "; for the python archive, the folder for ", kCifarFolder, "/"))
      ->type_name("FILE")
      ->required();
  app.add_option("--resize", options.resize,
                 "resize larger pictures to this shorter side in pixels; 0: keep their size")
      ->check(CLI::Range(0, kLongestJpeg))
      ->capture_default_str();
  app.add_option("--quality", options.quality, "JPEG quality of resized pictures")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  app.add_option("--on-corrupt", on_corrupt, "error | skip: stop at a damaged picture, or report it and leave it out")
      ->check(CLI::IsMember({"error", "skip"}))
      ->capture_default_str();
  app.add_option("--max-pixels", options.max_pixels, "larger pictures are refused")
      ->check(positive_problem)
      ->capture_default_str();
  app.add_option("--threads", options.threads, "threads that read and resize (default: all cores)")
      ->check(CLI::Range(1, 1024));
  app.add_flag("--force", force, "replace an existing packed file");
  app.add_flag("-q,--quiet", quiet, "print errors and warnings only");
  if (!parse(app, words)) return 0;

  if (app.count("--quality") > 0 && options.resize == 0)
    fail(ExitCode::usage, "--quality applies to resized pictures only: give --resize too, or leave it out");
  options.on_corrupt = of_word(on_corrupt, OnCorrupt::error);
  Console console(true, quiet ? Verbosity::quiet : Verbosity::normal);
  const Path target = Path(out).has_filename() ? Path(out) : Path(out).parent_path();
  return target.extension() == kPackedSuffix ? convert_to_packed(from, target, force, options, console)
                                             : convert_to_cifar(from, target, console);
}

}  // namespace ct
