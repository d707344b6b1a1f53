// Folders of pictures as a kind of data set.
#pragma once

#include "data/kinds.h"

namespace ct {

DataKind image_folder_kind();

}  // namespace ct
