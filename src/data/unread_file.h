// Files of data in formats that the program does not read.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace ct {

inline constexpr std::string_view kMakePictures = "make folders of pictures of it, train/CLASS/ and val/CLASS/";

/// What a file is by its name's ending, an archive or another format, and what to do, in a line that names it; empty:
/// nothing that is known here.
std::string unread_file(const std::filesystem::path& path);

}  // namespace ct
