#include "model/models.h"

namespace ct {

ValueId linear_model(Graph& g, ValueId images, int classes) { return g.linear(g.flatten(images), "linear", classes); }

}  // namespace ct
