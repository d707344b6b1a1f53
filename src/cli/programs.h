// Where programs lie that this one starts, or tells of.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace ct {

/// Where a bundle has it: in bin/, beside the folder of the program that bin/ starts.
std::optional<std::filesystem::path> in_bundle(const std::string& program);

/// The first executable of that name in the folders of PATH.
std::optional<std::filesystem::path> on_path(const std::string& program);

/// This program, as other hosts start it: in a bundle, what its bin/ has.
std::filesystem::path own_program();

/// A word so that a shell reads it as one: plain as it is, else in single quotes.
std::string shell_word(const std::string& word);

}  // namespace ct
