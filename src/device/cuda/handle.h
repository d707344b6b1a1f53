// An object of a C library, destroyed with its handle.
#pragma once

#include <memory>
#include <type_traits>

namespace ct::cuda {

/// Handle<cudaStream_t, cudaStreamDestroy>, where T is a pointer to the library's own type.
template <class T, auto Destroy>
class Handle {
 public:
  Handle() = default;
  explicit Handle(T raw) : raw_(raw) {}
  T get() const { return raw_.get(); }
  operator T() const { return raw_.get(); }

 private:
  struct Call {
    void operator()(T raw) const { Destroy(raw); }
  };
  std::unique_ptr<std::remove_pointer_t<T>, Call> raw_;
};

}  // namespace ct::cuda
