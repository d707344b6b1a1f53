// A cuDNN that is too old, as far as `doctor` looks at it.
#include <cstddef>

extern "C" {
size_t cudnnGetVersion() { return 90701; }
size_t cudnnGetCudartVersion() { return 13000; }
}
