// One of the copies of an image whose logits' weighted mean is the network's answer.
#pragma once

#include "graph/edit_draw.h"

namespace ct {

struct View {
  Draw draw;
  float weight;
};

}  // namespace ct
