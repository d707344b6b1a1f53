// What kernel tests take from on_host/run.h, where a GPU runs the kernels: it chooses the order of threads and blocks
// itself, and what lies in shared memory.
#pragma once

namespace on_host {

/// body(), twice: what depends on the order of threads may differ between the two.
template <class Body>
void in_all_orders(const Body& body) {
  body();
  body();
}

}  // namespace on_host
