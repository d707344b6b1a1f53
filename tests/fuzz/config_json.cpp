#include "as_file.h"
#include "deepspeed/import.h"
#include "train/config/load.h"

namespace ct::fuzz::config_json {
namespace {

/// JSON and Hjson, key by key and as a whole.
void read(Input input) {
  const Path path = as_file("config.json", input);
  to_text(import_config(path));
  std::vector<std::string> warnings;
  load_config({.files = {path}}, &warnings);
}

const Registered registered({.name = "config_json", .refusals = {ExitCode::usage}, .read = read});

}  // namespace
}  // namespace ct::fuzz::config_json
