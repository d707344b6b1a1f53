#include "data/unread_layout.h"

#include <algorithm>
#include <array>
#include <optional>

#include "base/error.h"
#include "base/files.h"
#include "base/paths.h"
#include "base/shell_word.h"
#include "base/text.h"
#include "data/cifar/cifar_set.h"
#include "data/cifar/python/python_batches.h"
#include "data/file_lists/file_list_set.h"
#include "data/folder_names.h"
#include "data/image_folder/listing.h"

namespace ct {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kMakePictures = "convert it to folders of pictures, CLASS/, or train/CLASS/ and val/CLASS/";

struct FormatOfEnding {
  std::string_view ending, what;
};

constexpr FormatOfEnding kUnreadFormats[] = {
    {".parquet", "a Parquet file"}, {".arrow", "an Arrow file"},  {".tfrecord", "a TFRecord file"},
    {".h5", "an HDF5 file"},        {".hdf5", "an HDF5 file"},    {".npz", "NumPy's arrays"},
    {".npy", "a NumPy array"},      {".mat", "a file of MATLAB"}, {".rec", "a RecordIO file"},
    {".lmdb", "an LMDB database"},  {".beton", "a file of FFCV"}, {".pkl", "a Python pickle"},
};

/// The command that unpacks a file of this name, but for its last word, the folder; empty: it is no archive.
std::string unpacking(const std::string& name, const std::string& path) {
  for (const std::string_view tar : {".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar.zst"})
    if (name.ends_with(tar)) return str("tar -xf ", path, " -C ");
  if (name.ends_with(".zip")) return str("unzip ", path, " -d ");
  return name.ends_with(".7z") ? str("7z x ", path, " -o") : "";
}

constexpr size_t kMostNames = 1000;  // of a folder that are looked at: it may be any
constexpr size_t kMostFolders = 20;  // of them
constexpr size_t kMostFiles = 20;    // of such a folder
constexpr int kLevels = 2;           // that a set may lie too deep

/// "Train", "training_set", "test-images": one of the stems, and what people put behind it.
bool is_split_name(const std::string& name, std::span<const std::string_view> stems) {
  const std::string small = lower_case(name);
  std::string_view stem = small;
  for (const std::string_view end : {"set", "images", "_", "-"})
    if (stem.ends_with(end)) stem.remove_suffix(end.size());
  return std::ranges::find(stems, stem) != stems.end();
}

constexpr std::array<std::string_view, 3> kTrainStems = {"train", "training", "trn"};
constexpr std::array<std::string_view, 4> kValStems = {"val", "valid", "validation", "eval"};
constexpr std::array<std::string_view, 2> kTestStems = {"test", "testing"};

/// The names in a folder, and what they say.
class Layout {
 public:
  Layout(const fs::path& path, const DataKind* wanted, std::optional<Split> evaluated = {})
      : path_(path), wanted_(wanted), evaluated_(evaluated), names_(visible_names(path, kMostNames)) {
    std::erase(names_, kSyntheticFolder);  // which is read, and lies beside anything
    for (const std::string& name : names_)
      if (folders_.size() < kMostFolders || is_any_split(name))
        if (is_folder(path / name, ExitCode::data)) folders_.push_back(name);
  }

  /// See unread_layout(). An archive last: what it held may lie beside it by now.
  std::string description(int levels) const {
    const std::string text = set(levels);
    return text.empty() ? file(levels) : text;
  }

  /// A picture in a folder right below, counted from here; empty: there is none.
  std::string picture_of_class() const {
    return from_folders([this](const std::string& folder) {
      const std::vector<std::string> files = visible_names(path_ / folder, kMostFiles);
      const auto picture = std::ranges::find_if(files, is_picture_name);
      return picture == files.end() ? "" : (fs::path(folder) / *picture).string();
    });
  }

 private:
  static bool is_any_split(const std::string& name) {
    return is_split_name(name, kTrainStems) || is_split_name(name, kValStems) || is_split_name(name, kTestStems);
  }

  bool wants_folders() const { return wanted_ == nullptr || wanted_->holds_split != nullptr; }

  std::string by_convert(const fs::path& from, std::string_view what, const std::string& out) const {
    return str(from.string(), ": ", what, ", from which the program does not train: convert it with ",
               "cifar-train data convert --from ", shell_word(from.string()), " --out ", shell_word(out));
  }

  std::string lists() const {
    return wants_folders() && holds_file_lists(path_) ? by_convert(path_, "pictures by file lists", "NAME.ctpack") : "";
  }

  std::optional<std::string> folder_of(std::span<const std::string_view> stems) const {
    const auto found = std::ranges::find_if(folders_, [&](const auto& name) { return is_split_name(name, stems); });
    return found == folders_.end() ? std::nullopt : std::optional(*found);
  }

  /// Both parts of a folder of pictures by other names, or one of them.
  std::string splits() const {
    if (!wants_folders()) return "";
    const std::optional<std::string> train = folder_of(kTrainStems);
    std::optional<std::string> val = folder_of(kValStems);
    if (!val) val = folder_of(kTestStems);
    if (evaluated_) return evaluated_split(train, val);
    if (train && val)
      return str(path_.string(), ": has ", *train, "/ and ", *val, "/ instead of train/ and val/: ",
                 "rename them, or train with data.train=", in_quotes((path_ / *train).native()),
                 " data.val=", in_quotes((path_ / *val).native()));
    if (!train && !val) return "";
    const std::string& one = train ? *train : *val;
    const std::string_view own = train ? "train" : "val", other = train ? "val" : "train";
    for (const std::string& name : names_)  // ImageNet's, of which one is unpacked
      if (const std::string small = lower_case(name); small.starts_with("ilsvrc") && small.find(other) != small.npos)
        return unread_file(path_ / name);
    return str(path_.string(), ": has ", one, "/ but no ", other, "/, where a folder of pictures has both: name ",
               one == own ? "" : str("this one by data.", own, " and "), "the other one by data.", other,
               train ? str(", or give ", (path_ / one).string(), " as data.path, which is then divided") : "");
  }

  /// The one part that evaluation reads, whatever its name is.
  std::string evaluated_split(const std::optional<std::string>& train, const std::optional<std::string>& val) const {
    if (!train && !val) return "";
    const bool test = *evaluated_ == Split::test;
    const std::string own = test ? "val" : "train";
    const std::optional<std::string>& part = test ? val : train;
    if (!part)
      return str(path_.string(), ": has ", test ? *train : *val, "/ but no ", own,
                 "/ to evaluate on: give the folder of those pictures with --data DIR");
    return str(path_.string(), ": has ", *part, "/", *part == own ? "" : " where a folder of pictures has " + own + "/",
               ": did you mean --data ", shell_word((path_ / *part).string()));
  }

  std::string python() const {
    if (wanted_ != nullptr && wanted_->name != kCifarName) return "";
    const auto archive = find_python_batches(path_);
    return archive ? by_convert(*archive, "CIFAR-10's python archive", archive->parent_path().string()) : "";
  }

  /// A set that data.dataset: auto does not take.
  std::string unasked() const {
    if (wanted_ != nullptr) return "";
    for (const DataKind& kind : data_kinds())
      if (!kind.automatic)
        if (const auto folder = kind.find(path_))
          return str(folder->string(), ": ", kind.name, ", which auto does not select: set data.dataset: ", kind.key);
    return "";
  }

  /// Folders of classes, right here.
  std::string classes() const {
    const std::string picture = wants_folders() ? picture_of_class() : "";
    if (picture.empty()) return "";
    if (evaluated_)
      return str(path_.string(), ": its class folders are directly in it: did you mean --data ",
                 shell_word(path_.string()));
    return str(path_.string(), ": ", in_quotes(picture),
               " is in it, as in one split of a folder of pictures: give the folder that contains train/ and val/, or ",
               "name both by data.train and data.val");
  }

  std::string pictures() const {
    const auto picture = std::ranges::find_if(
        names_, [](const std::string& name) { return is_picture_name(name) && !is_picture_of_run(name); });
    if (picture == names_.end() || !wants_folders()) return "";
    return str(path_.string(), ": ", in_quotes(*picture),
               " is directly in it: put the pictures of each class into a folder of its own");
  }

  /// An archive, or a file in another format, here or below.
  std::string file(int levels) const {
    for (const std::string& name : names_)
      if (std::string text = unread_file(path_ / name); !text.empty()) return text;
    if (levels == 0) return "";
    return from_folders(
        [&](const std::string& name) { return Layout(path_ / name, wanted_, evaluated_).file(levels - 1); });
  }

  /// A set that lies otherwise than one that the program reads, here or below.
  std::string set(int levels) const {
    using Look = std::string (Layout::*)() const;
    for (const Look look :
         {&Layout::lists, &Layout::splits, &Layout::python, &Layout::unasked, &Layout::classes, &Layout::pictures})
      if (std::string text = (this->*look)(); !text.empty()) return text;
    if (levels == 0) return "";
    return from_folders([&](const std::string& name) {
      const fs::path folder = path_ / name;
      for (const DataKind& kind : data_kinds())
        if ((wanted_ == nullptr || wanted_->key == kind.key) && kind.find(folder))
          return str(path_.string(), ": ", kind.name, " is in ", folder.string(), ": did you mean ",
                     evaluated_ ? "--data " : "data.path=", folder.string(),
                     wanted_ != nullptr || kind.automatic ? "" : str(" data.dataset=", kind.key));
      return Layout(folder, wanted_, evaluated_).set(levels - 1);
    });
  }

  /// What `look` says first of a folder; one that is not ours to look into says nothing.
  template <class Look>
  std::string from_folders(Look look) const {
    for (const std::string& folder : folders_) try {
        if (std::string text = look(folder); !text.empty()) return text;
      } catch (const Error& error) {
        if (error.code() != ExitCode::data) throw;
      }
    return "";
  }

  const fs::path path_;
  const DataKind* const wanted_;
  const std::optional<Split> evaluated_;
  std::vector<std::string> names_;
  std::vector<std::string> folders_;  // those of names_ that are
};

}  // namespace

std::string unread_file(const fs::path& path) {
  const std::string name = lower_case(path.filename().native());
  if (const std::string command = unpacking(name, in_quotes(path.native())); !command.empty()) {
    const fs::path here = path.has_parent_path() ? path.parent_path() : ".";
    const bool train = name.starts_with("ilsvrc") && name.find("train") != name.npos;
    const bool val = name.starts_with("ilsvrc") && name.find("val") != name.npos;
    const std::string to = in_quotes((train ? here / "train" : val ? here / "val" : here).native());
    return str(path.string(), ": an archive, from which the program does not train: unpack it with: ",
               train || val ? str("mkdir -p ", to, " && ") : "", command, to,
               train ? ", and unpack each tar in it into its own folder there"
               : val ? ", and move each picture into the folder of its class there, which ImageNet's development kit "
                       "lists by number"
                     : "");
  }
  for (const FormatOfEnding& format : kUnreadFormats)
    if (name.ends_with(format.ending))
      return str(path.string(), ": ", format.what, ", which the program does not read: ", kMakePictures);
  return "";
}

std::string unread_layout(const fs::path& path, const DataKind* wanted, std::optional<Split> evaluated) {
  const PathKind kind = kind_of(path, ExitCode::data);
  if (kind == PathKind::file) return unread_file(path);
  return kind == PathKind::folder ? Layout(path, wanted, evaluated).description(kLevels) : "";
}

bool is_one_split(const fs::path& path) {
  return is_folder(path, ExitCode::data) && !Layout(path, nullptr).picture_of_class().empty();
}

}  // namespace ct
