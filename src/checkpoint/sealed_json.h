// The JSON of checkpoints: strict, and with its own checksum.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace ct {

/// Parses JSON without duplicate keys, at most 32 levels deep; anything else is Error(ExitCode::checkpoint), which
/// begins with `whose` (the file of the text).
nlohmann::json parse_strict_json(std::string_view text, const std::string& whose);

/// A sealed text begins with `opening` and eight digits: the CRC32C, started with `start`, of the whole text with zeros
/// for these digits. seal() puts the digits between `opening` and `rest`; is_sealed() checks both.
std::string seal(std::string_view opening, std::string_view rest, uint32_t start = 0);
bool is_sealed(std::string_view text, std::string_view opening, uint32_t start = 0);

}  // namespace ct
