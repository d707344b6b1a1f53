// Which images a run uses: CIFAR-10 where it lies, the built-in synthetic set elsewhere.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "data/cifar_binary.h"

namespace ct {

struct DataSource {
  std::string name;              // "CIFAR-10" or "synthetic-10"
  std::filesystem::path folder;  // empty: the synthetic set in memory
  std::string note;              // a sentence for the user: what was chosen and, if not CIFAR-10, how to get it
  bool written = false;          // the synthetic set, just now
};

/// data.dataset (auto, cifar10 or synthetic) under data.path, which may also be the folder of batches itself. auto
/// takes CIFAR-10 when its folder is there (damaged or not: opening it will tell), else the synthetic set. The
/// synthetic set is written to disk when it is not there yet, or kept in memory where that cannot be done. `progress`
/// is called while it is written. Call it on one rank. Throws Error(usage) for another name, Error(data) naming the
/// folder and the remedy.
enum class IfAbsent { write, keep_in_memory };  // the synthetic set that is not on disk yet
DataSource locate_data(std::string_view dataset, const std::filesystem::path& path,
                       IfAbsent if_absent = IfAbsent::write, const std::function<void()>& progress = {});

/// The folder that data.path means when nothing else is said. It alone is made where it is not there.
inline constexpr std::string_view kShippedFolder = "data";

/// Throws Error(data) when there is nothing at a path that somebody named (data.path, --data), other than the shipped
/// folder: a slip of the pen must not become a folder with a data set in it.
void require_named_folder(const std::filesystem::path& path);

/// Opens one split of what locate_data found, on any rank. `threads` generate a set in memory (0: all cores at hand).
ImageSet open_images(const DataSource& source, Split split, const ImageSetOptions& options = {}, int threads = 1);

}  // namespace ct
