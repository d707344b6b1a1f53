#include "as_file.h"
#include "train/config/load.h"
#include "train/config/print.h"

namespace ct::fuzz::config_yaml {
namespace {

/// A configuration that loads is printed as one that loads.
void read(Input input) {
  std::vector<std::string> warnings;
  const Config config = load_config({.files = {as_file("config.yaml", input)}}, &warnings);
  const std::string printed = to_yaml(config);
  try {
    load_config_text(printed, "printed");
  } catch (const Error& error) {
    fail(ExitCode::bug, error.what());
  }
}

const Registered registered({.name = "config_yaml", .refusals = {ExitCode::usage}, .read = read});

}  // namespace
}  // namespace ct::fuzz::config_yaml
