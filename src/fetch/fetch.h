// Published data sets and weights: where they lie, and how they get there.
#pragma once

#include "fetch/download.h"

namespace ct {

/// XDG_CACHE_HOME/cifar-train or ~/.cache/cifar-train. Error(usage) if the environment names neither.
Path cache_folder();

/// The file of published weights in the cache, downloaded if it is not there. Its checksum fits. Notes tell address,
/// checksum and terms of a download; `says_found`: also that nothing had to be downloaded.
Path fetch_weights(FileSystem& files, const Published& weights, const DownloadOptions& options, Console& console,
                   bool says_found = false);

/// The folder of a data set in `data`, downloaded and unpacked if it is not there. One that is there is verified and
/// never replaced: Error(data) with its fault.
Path fetch_set(FileSystem& files, const Published& set, const Path& data, const DownloadOptions& options,
               Console& console);

}  // namespace ct
