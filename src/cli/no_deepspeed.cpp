#include "cli/foreign.h"

namespace ct {

void add_foreign_files(CLI::App&, ConfigWords&) {}
JobEnvironment enter_job(const std::string&, std::vector<std::string>*) { return {}; }
ForeignFlags add_foreign_flags(CLI::App&) { return nullptr; }
std::span<const Verb> foreign_config_verbs() { return {}; }
void add_foreign_exports(Exports&) {}
std::vector<MakeListener> foreign_listeners() { return {}; }

}  // namespace ct
