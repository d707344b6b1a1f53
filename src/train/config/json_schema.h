// The table of keys as a JSON Schema, by which editors complete and check configurations.
#pragma once

#include <nlohmann/json.hpp>

namespace ct {

/// Draft 2020-12. It knows every key, its values, and which parameters a type takes; rules between keys are left to
/// `config check`, as are the words of files with an `imagenet` block.
nlohmann::ordered_json json_schema();

}  // namespace ct
