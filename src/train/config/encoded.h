// Url-safe base64 of a JSON text, which DeepSpeed takes in place of a configuration's file.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace ct {

/// The text that `word` holds; nothing where it is no base64, or not of a configuration.
std::optional<std::string> decode_config(const std::string& word);

/// decode_config() of a name that no file has.
std::optional<std::string> config_in_place_of(const std::filesystem::path& file);

/// Could it be meant as base64? Long, no path, and of its letters alone or beginning as base64 of JSON does.
bool looks_encoded(const std::string& word);

/// For people: the path, or "base64 eyJ0cmFpbl9i..." in place of one.
std::string source_name(const std::filesystem::path& file);

}  // namespace ct
