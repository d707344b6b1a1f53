// A comparison's own file in its folder, by which a later one knows whether the runs there are of the same settings.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/files.h"
#include "train/config/config.h"

namespace ct {

/// What the figures of a comparison depend on: the effective keys of its configuration, and what is of no key.
using ComparedSettings = std::map<std::string, std::string>;

/// `initial`: the words of initial weights.
ComparedSettings compared_settings(const Config& config, int64_t ranks, const std::string& initial);

/// Does `out` hold a comparison of these settings, which goes on? Error(usage) if it holds one of other settings, or
/// other files and no comparison.
bool holds_comparison(const Path& out, const ComparedSettings& settings);

/// Creates the folder, which then holds a comparison of these settings.
void begin_comparison(FileSystem& files, const Path& out, const ComparedSettings& settings);

}  // namespace ct
