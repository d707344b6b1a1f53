#include "data/unread_file.h"

#include "base/error.h"
#include "base/files.h"
#include "base/text.h"

namespace ct {
namespace {

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

}  // namespace

std::string unread_file(const std::filesystem::path& path) {
  const std::string name = lower_case(path.filename().native());
  if (const std::string command = unpacking(name, in_quotes(path.native())); !command.empty()) {
    const std::filesystem::path here = path.has_parent_path() ? path.parent_path() : ".";
    const bool train = name.starts_with("ilsvrc") && name.find("train") != name.npos;
    const bool val = name.starts_with("ilsvrc") && name.find("val") != name.npos;
    const std::string to = in_quotes((train ? here / "train" : val ? here / "val" : here).native());
    return str(path.string(), ": an archive, from which the program does not train: unpack it with: ",
               train || val ? str("mkdir -p ", to, " && ") : "", command, to,
               train ? ", and each tar that was in it into a folder of its own there"
               : val ? ", and move each picture into the folder of its class there, which ImageNet's development kit "
                       "lists by number"
                     : "");
  }
  for (const FormatOfEnding& format : kUnreadFormats)
    if (name.ends_with(format.ending))
      return str(path.string(), ": ", format.what, ", which the program does not read: ", kMakePictures);
  return "";
}

}  // namespace ct
