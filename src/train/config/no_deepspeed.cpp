// The program without src/deepspeed/: configurations have its own words alone.
#include "train/config/foreign.h"
#include "train/config/validate.h"

namespace ct {
namespace {

[[noreturn]] void refuse_feature(const Config& config, const std::string& key) {
  fail(ExitCode::usage, place_of_key(config, key), key, " is not in this program, which is built without ",
       "src/deepspeed/; take it out");
}

}  // namespace

const std::vector<InertKey>& inert_keys() {
  static const std::vector<InertKey> kNone;
  return kNone;
}

const InertKey* find_inert(const std::string&) { return nullptr; }
bool is_harmless(const InertKey&, const document::Node&) { return false; }
std::string refusal_of(const InertKey&, const std::string&, const document::Node&) { return ""; }

std::span<const KeyAlias> key_aliases() { return {}; }
std::span<const OldForm> old_forms() { return {}; }

std::vector<document::Node> in_own_words(const document::Node& root) { return {root}; }
EvaluationKeys evaluation_of(const document::Node&) { return {}; }

std::optional<std::string> text_in_place_of(const std::filesystem::path&) { return {}; }
bool looks_encoded(const std::string&) { return false; }
std::string source_name(const std::filesystem::path& file) { return file.string(); }

void check_foreign(const Config& config) {
  if (config.elasticity.enabled) refuse_feature(config, "elasticity.enabled");
  if (config.csv_monitor.enabled) refuse_feature(config, "csv_monitor.enabled");
}

bool is_csv_series(const std::filesystem::path&) { return false; }

ElasticBatch elastic_batch(const Elasticity&) { return {}; }  // check_foreign() refuses them
ElasticSizes elastic_sizes(const Elasticity&, int64_t) { return {}; }

namespace document {

Node parse_json(const std::string& text, std::shared_ptr<const Origin> origin) {
  return parse_yaml(text, std::move(origin));  // JSON is YAML, too
}

}  // namespace document
}  // namespace ct
