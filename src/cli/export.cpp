// cifar-train export: weights for other programs.
#include <cstdio>
#include <list>
#include <vector>

#include "base/error.h"
#include "base/paths.h"
#include "base/utf8.h"
#include "cli/verbs.h"
#include "train/run/run_files.h"
#include "train/weights.h"

namespace ct {
namespace {

/// A tensor of a floating-point type as f32, in `storage` where it is converted; others as they are.
TensorView in_f32(const SafetensorsFile& file, const StoredTensor& tensor, std::list<std::vector<float>>& storage) {
  if (tensor.dtype == StoredType::f32 || !is_float(tensor.dtype)) return tensor;
  std::vector<float>& values = storage.emplace_back(tensor.data.size() / size_of(tensor.dtype));
  if (const auto at = to_f32(tensor.dtype, tensor.data, values))
    fail(ExitCode::checkpoint, in_quotes(file.path().native()), ": tensor ", in_quotes(tensor.name),
         " is too large for f32 at ", place_of(tensor.shape, *at), ": take another file");
  return {tensor.name, StoredType::f32, tensor.shape, std::as_bytes(std::span(values))};
}

}  // namespace

int verb_export(const Words& words) {
  CLI::App app("Write the weights in f32 under PyTorch's state_dict names, as safetensors.", "cifar-train export");
  std::string checkpoint, out, format = "safetensors";
  app.add_option("--ckpt", checkpoint, "a weights file, or the folder of a run (its best.bin) or checkpoint")
      ->required();
  app.add_option("--out", out, "the file to write")->required();
  app.add_option("--format", format, "safetensors");
  if (!parse(app, words)) return 0;

  if (format != "safetensors")
    fail(ExitCode::usage, "--format ", format, " is not supported by this version; use safetensors");
  const SafetensorsFile file(weights_file(checkpoint));
  require_replaceable_weights(out);
  FileSystem files;
  std::list<std::vector<float>> storage;
  std::vector<TensorView> tensors;
  for (const StoredTensor& t : file.tensors()) tensors.push_back(in_f32(file, t, storage));
  const auto still_whole = [&file] { file.require_unchanged(); };
  try {
    write_safetensors(files, out, tensors, file.metadata(), still_whole);
  } catch (const Error&) {
    still_whole();  // what is gone of the source cannot be written either
    throw;
  }
  const std::string converted = conversions(file);
  // Into a pipe or device the weights are the data, so that what is said of them goes elsewhere.
  std::FILE* const chatter = kind_of(out) == PathKind::other ? stderr : stdout;
  std::fprintf(chatter, "%s: %zu tensors%s%s\n", printable(out).c_str(), tensors.size(), converted.empty() ? "" : "; ",
               converted.c_str());
  return 0;
}

}  // namespace ct
