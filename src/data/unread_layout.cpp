#include "data/unread_layout.h"

#include <system_error>

#include "base/error.h"
#include "base/paths.h"
#include "data/cifar/python/python_batches.h"
#include "data/file_lists/file_list_set.h"
#include "data/image_folder/listing.h"

namespace ct {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kOtherwise = ", or set data.dataset: synthetic for the built-in set";

void refuse_half(const fs::path& path) {
  const bool train = is_folder(path / "train", ExitCode::data), val = is_folder(path / "val", ExitCode::data);
  if (train == val) return;
  fail(ExitCode::data, path.string(), ": has ", train ? "train/ but no val/" : "val/ but no train/",
       ", where a folder of pictures has both: name the other one by ", train ? "data.val" : "data.train", kOtherwise);
}

/// Folders of classes, right here. The folder may be any: only a few names are looked at.
void refuse_split(const fs::path& path) {
  constexpr int kFolders = 20, kFiles = 20;
  std::error_code unreadable;
  const fs::directory_iterator end;
  int folders = 0;
  for (fs::directory_iterator in(path, unreadable); in != end && folders < kFolders; in.increment(unreadable)) {
    if (!in->is_directory(unreadable)) continue;
    ++folders;
    int files = 0;
    for (fs::directory_iterator file(*in, unreadable); file != end && files < kFiles;
         file.increment(unreadable), ++files)
      if (is_picture_name(file->path().filename().native()))
        fail(
            ExitCode::data, path.string(), ": ", in_quotes(file->path().lexically_relative(path).native()),
            " lies in it, as in one part of a folder of pictures: give the folder that holds train/ and val/, or name ",
            "both by data.train and data.val", kOtherwise);
  }
}

}  // namespace

void refuse_unread_layout(const fs::path& path) {
  if (!is_folder(path, ExitCode::data)) return;
  const auto refuse = [](const fs::path& from, std::string_view what, const std::string& out) {
    fail(ExitCode::data, from.string(), ": ", what, ", which the program does not train from: make what it does by ",
         "cifar-train data convert --from ", in_quotes(from.native()), " --out ", in_quotes(out), kOtherwise);
  };
  if (holds_file_lists(path)) refuse(path, "pictures by file lists", "NAME.ctpack");
  refuse_half(path);
  if (const auto archive = find_python_batches(path))
    refuse(*archive, "CIFAR-10's python archive", archive->parent_path().string());
  refuse_split(path);
}

}  // namespace ct
