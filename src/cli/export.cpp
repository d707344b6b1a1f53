// cifar-train export: weights for other programs.
#include <cstdio>

#include "base/error.h"
#include "base/paths.h"
#include "cli/verbs.h"
#include "train/run_files.h"
#include "train/weights.h"

namespace ct {

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
  require_own_weights(out);
  FileSystem files;
  write_safetensors(files, out, file.views(), file.metadata());
  // Into a pipe or device the weights are the data, so that what is said of them goes elsewhere.
  std::FILE* const chatter = kind_of(out) == PathKind::other ? stderr : stdout;
  std::fprintf(chatter, "%s: %zu tensors\n", printable(out).c_str(), file.tensors().size());
  return 0;
}

}  // namespace ct
