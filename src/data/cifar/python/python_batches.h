// Converts CIFAR-10's python archive (cifar-10-python.tar.gz, or the unpacked cifar-10-batches-py/) to the binary files
// that the program reads (data/cifar/cifar_set.h).
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/files.h"

namespace ct {

inline constexpr std::string_view kPythonArchive = "cifar-10-python.tar.gz", kPythonFolder = "cifar-10-batches-py";

/// The archive or the unpacked folder: `path` itself, or the one of that name in it.
std::optional<std::filesystem::path> find_python_batches(const std::filesystem::path& path);

/// Writes the six binary files and the class names into `folder`, which must not exist; all of them or none. Of an
/// archive only the seven members are read, by name, one at a time in memory. `reading` is called for each. A fault of
/// `from` is Error(data) with the file; an existing `folder` is Error(usage).
void convert_python_batches(FileSystem& files, const std::filesystem::path& from, const std::filesystem::path& folder,
                            const std::function<void(const std::string& name)>& reading = {});

}  // namespace ct
