// Device and pinned memory: guarded, poisoned, counted, and device memory out of the host's reach. Copies of it.
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "state.h"

extern "C" {  // AddressSanitizer's, null without it
__attribute__((weak)) void __asan_poison_memory_region(const volatile void* at, size_t size);
__attribute__((weak)) void __asan_unpoison_memory_region(const volatile void* at, size_t size);
}

namespace on_host {
namespace {

std::atomic<size_t> copied = 0;  // between host and device

/// At the program's end.
struct CopyReport {
  ~CopyReport() {
    if (const char* path = std::getenv("ON_HOST_COPIES")) std::ofstream(path, std::ios::app) << copied << "\n";
  }
} copy_report;

constexpr unsigned char kPoison = 0xff;  // in and around memory, so that a read outside finds NaN, too
constexpr size_t kAlignment = 256;

thread_local int access_depth = 0;
std::mutex access_mutex;  // of the pages' rights; taken after the state's, or alone
int accesses = 0;         // of all threads

/// -1 where the CPU or the kernel has none.
int protection_key() {
  static const int key = pkey_alloc(0, PKEY_DISABLE_ACCESS);
  return key;
}

/// Where programs, their heaps and stacks lie on x86-64, above what sanitizers keep beside them.
constexpr uint64_t kLeastAddress = uint64_t{0x5} << 44, kEndOfAddresses = uint64_t{1} << 47;

size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }
size_t page() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }

void set_rights(const Allocation& a, bool open) {
  mprotect(a.pages, a.page_bytes, open ? PROT_READ | PROT_WRITE : PROT_NONE);
}

/// With the state's mutex held, like all that follows. Null where the machine has no more memory.
unsigned char* add_memory(cudaMemoryType type, size_t bytes, int device) {
  State& s = state();
  const size_t padded = round_up(bytes, kAlignment), body = round_up(padded, page());
  void* all = mmap(nullptr, body + 2 * page(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (all == MAP_FAILED) return nullptr;
  Allocation a = {.type = type, .registered = false, .bytes = bytes, .device = device};
  a.pages = static_cast<unsigned char*>(all) + page();
  a.page_bytes = body;
  set_rights(a, /*open=*/true);
  unsigned char* data = a.pages + body - padded;
  if (__asan_unpoison_memory_region) __asan_unpoison_memory_region(a.pages, body);  // a stack may have been there
  if (s.computes) std::memset(a.pages, kPoison, body);
  if (__asan_poison_memory_region) {
    __asan_poison_memory_region(a.pages, body);
    __asan_unpoison_memory_region(data, bytes);
  }
  const std::lock_guard lock(access_mutex);
  s.allocations[reinterpret_cast<uintptr_t>(data)] = a;
  if (type == cudaMemoryTypeDevice) {
    s.devices[static_cast<size_t>(device)].used += bytes;
    if (s.protection == Protection::keys) pkey_mprotect(a.pages, body, PROT_READ | PROT_WRITE, protection_key());
    if (s.protection == Protection::pages && accesses == 0) set_rights(a, /*open=*/false);
  }
  return data;
}

void unmap(const Allocation& a) {
  if (a.registered) return;
  if (__asan_unpoison_memory_region) __asan_unpoison_memory_region(a.pages, a.page_bytes);
  munmap(a.pages - page(), a.page_bytes + 2 * page());
}

/// Empty, or what was written outside of the memory.
std::string damage(const unsigned char* data, const Allocation& a) {
  if (!state().computes) return "";
  if (__asan_unpoison_memory_region) __asan_unpoison_memory_region(a.pages, a.page_bytes);
  for (const unsigned char* at = data; at-- > a.pages;)
    if (*at != kPoison) return std::to_string(data - at) + " bytes before its begin";
  for (const unsigned char* at = data + a.bytes; at < a.pages + a.page_bytes; ++at)
    if (*at != kPoison) return std::to_string(at - data - static_cast<ptrdiff_t>(a.bytes)) + " bytes after its end";
  return "";
}

/// Frees memory of the type, found at its first byte. Throws Error if something was written outside of it.
cudaError_t remove_memory(void* data, cudaMemoryType type) {
  if (!data) return cudaSuccess;
  const Access access;
  std::string found;
  size_t bytes = 0;
  {
    State& s = state();
    const Lock lock(s.mutex);
    const auto at = s.allocations.find(reinterpret_cast<uintptr_t>(data));
    if (at == s.allocations.end() || at->second.type != type || at->second.registered) return cudaErrorInvalidValue;
    const std::lock_guard pages(access_mutex);
    const Allocation& a = at->second;
    bytes = a.bytes;
    found = damage(static_cast<unsigned char*>(data), a);
    if (type == cudaMemoryTypeDevice) s.devices[static_cast<size_t>(a.device)].used -= bytes;
    unmap(a);
    s.allocations.erase(at);
  }
  if (found.empty()) return cudaSuccess;
  throw Error(std::string(type == cudaMemoryTypeDevice ? "device" : "pinned") + " memory of " + std::to_string(bytes) +
              " bytes was written " + found);
}

/// Device memory, or null with the error.
cudaError_t allocate_on_device(void** at, size_t size) {
  *at = nullptr;
  if (size == 0) return cudaSuccess;
  const Device& device = state().devices[static_cast<size_t>(current_device())];
  if (size > device.properties.totalGlobalMem - device.used) return cudaErrorMemoryAllocation;
  *at = add_memory(cudaMemoryTypeDevice, size, current_device());
  return *at ? cudaSuccess : cudaErrorMemoryAllocation;
}

/// What the pointer lies in, or null.
const std::pair<const uintptr_t, Allocation>* locate(const void* pointer) {
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  auto after = state().allocations.upper_bound(address);
  if (after == state().allocations.begin()) return nullptr;
  const auto& found = *--after;
  return address < found.first + found.second.bytes ? &found : nullptr;
}

struct Range {
  bool on_device, inside;
};
Range range_of(const void* pointer, size_t size) {
  const auto* found = locate(pointer);
  return {found && found->second.type == cudaMemoryTypeDevice,
          !found || reinterpret_cast<uintptr_t>(pointer) + size <= found->first + found->second.bytes};
}

bool crosses(const void* to, const void* from, size_t size) {
  const Lock lock(state().mutex);
  return range_of(to, size).on_device != range_of(from, size).on_device;
}

cudaError_t check_copy(const void* to, const void* from, size_t size, cudaMemcpyKind kind) {
  if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault) return cudaErrorInvalidMemcpyDirection;
  if (size == 0) return cudaSuccess;
  if (!to || !from) return cudaErrorInvalidValue;
  const Lock lock(state().mutex);
  const Range target = range_of(to, size), source = range_of(from, size);
  if (!target.inside || !source.inside) return cudaErrorInvalidValue;
  const int is = source.on_device * 2 + target.on_device;  // the numbers of cudaMemcpyKind
  return kind == cudaMemcpyDefault || kind == is ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t push_copy(void* to, const void* from, size_t size, cudaMemcpyKind kind, cudaStream_t stream) {
  if (const cudaError_t error = check_copy(to, from, size, kind); error != cudaSuccess) return error;
  const bool between = crosses(to, from, size);
  return push(stream, "a copy of " + std::to_string(size) + " bytes", [=] {
    if (size == 0) return;
    if (between) ++copied;
    const Access access;
    std::memcpy(to, from, size);
  });
}

cudaError_t push_set(void* at, int value, size_t size, cudaStream_t stream) {
  {
    const Lock lock(state().mutex);
    const Range range = range_of(at, size);
    if (size > 0 && !(range.on_device && range.inside)) return cudaErrorInvalidValue;
  }
  return push(stream, "a memset of " + std::to_string(size) + " bytes", [=] {
    if (size == 0) return;
    const Access access;
    std::memset(at, value, size);
  });
}

/// body(), unless a capture forbids it.
template <class Body>
cudaError_t outside_capture(const char* name, Body body) {
  return call(name, [&] {
    {
      const Lock lock(state().mutex);
      if (const cudaError_t error = forbidden_in_capture(); error != cudaSuccess) return error;
    }
    return body();
  });
}

}  // namespace

void check_arguments(const std::vector<uint64_t>& words, const std::string& kernel) {
  for (size_t i = 0; i < words.size(); ++i) {
    const auto* at = reinterpret_cast<unsigned char*>(words[i]);
    // Such as the number of a dropout and its limit: few addresses are so, of 4 GiB each.
    const bool two_numbers = static_cast<uint32_t>(words[i]) < 16 || words[i] % sizeof(float) != 0;
    if (words[i] < kLeastAddress || words[i] >= kEndOfAddresses || two_numbers || locate(at)) continue;
    unsigned char resident = 0;
    if (mincore(const_cast<unsigned char*>(at - words[i] % page()), 1, &resident) != 0) continue;  // nothing is there
    throw Error(kernel + ": word " + std::to_string(i) + " of its " + std::to_string(words.size()) +
                " words of arguments is an address of the host's own memory, which a GPU cannot read");
  }
}

Access::Access() {
  if (access_depth++ > 0) return;
  if (state().protection == Protection::keys) pkey_set(protection_key(), 0);
  if (state().protection != Protection::pages) return;
  const Lock lock(state().mutex);
  const std::lock_guard pages(access_mutex);
  if (accesses++ > 0) return;
  for (const auto& [at, a] : state().allocations)
    if (a.type == cudaMemoryTypeDevice) set_rights(a, /*open=*/true);
}

Access::~Access() {
  if (--access_depth > 0) return;
  if (state().protection == Protection::keys) pkey_set(protection_key(), PKEY_DISABLE_ACCESS);
  if (state().protection != Protection::pages) return;
  const Lock lock(state().mutex);
  const std::lock_guard pages(access_mutex);
  if (--accesses > 0) return;
  for (const auto& [at, a] : state().allocations)
    if (a.type == cudaMemoryTypeDevice) set_rights(a, /*open=*/false);
}

void release_all_memory() {
  const Lock lock(state().mutex);
  for (const auto& [at, a] : state().allocations) unmap(a);
  state().allocations.clear();
}

void choose_protection() {
  const char* chosen = std::getenv("ON_HOST_PROTECT");
  const std::string name = chosen ? chosen : "keys";
  state().protection = name == "pages"                          ? Protection::pages
                       : name == "keys" && protection_key() > 0 ? Protection::keys
                                                                : Protection::none;
}

Protection protection() {
  const Lock lock(state().mutex);
  return state().protection;
}

size_t copies_between() { return copied; }

size_t allocated_bytes() {
  const Lock lock(state().mutex);
  size_t total = 0;
  for (const auto& [at, a] : state().allocations) total += a.registered ? 0 : a.bytes;
  return total;
}

}  // namespace on_host

using namespace on_host;

cudaError_t cudaMalloc(void** devPtr, size_t size) {
  return outside_capture("cudaMalloc", [&] {
    const Lock lock(state().mutex);
    complain_beside_a_meeting("cudaMalloc");
    return allocate_on_device(devPtr, size);
  });
}

cudaError_t cudaFree(void* devPtr) {
  return outside_capture("cudaFree", [&] {
    int device = current_device();
    {
      const Lock lock(state().mutex);
      complain_beside_a_meeting("cudaFree");
      if (const auto* found = locate(devPtr)) device = found->second.device;
    }
    drain_device(device);
    return remove_memory(devPtr, cudaMemoryTypeDevice);
  });
}

cudaError_t cudaMallocAsync(void** devPtr, size_t size, cudaStream_t stream) {
  return outside_capture("cudaMallocAsync", [&] {
    const Lock lock(state().mutex);
    if (!find_stream(stream)) return cudaErrorInvalidResourceHandle;
    return allocate_on_device(devPtr, size);
  });
}

cudaError_t cudaFreeAsync(void* devPtr, cudaStream_t stream) {
  return outside_capture("cudaFreeAsync", [&] {
    {
      const Lock lock(state().mutex);
      const auto* found = locate(devPtr);
      if (!found || found->second.type != cudaMemoryTypeDevice || found->first != reinterpret_cast<uintptr_t>(devPtr))
        return devPtr ? cudaErrorInvalidValue : cudaSuccess;
    }
    return push(stream, "cudaFreeAsync", [=] {
      if (remove_memory(devPtr, cudaMemoryTypeDevice) != cudaSuccess) throw Error("the memory was freed before");
    });
  });
}

cudaError_t cudaHostAlloc(void** pHost, size_t size, unsigned) {
  return outside_capture("cudaHostAlloc", [&] {
    const Lock lock(state().mutex);
    complain_beside_a_meeting("cudaHostAlloc");
    *pHost = size ? add_memory(cudaMemoryTypeHost, size, current_device()) : nullptr;
    return *pHost || size == 0 ? cudaSuccess : cudaErrorMemoryAllocation;
  });
}

cudaError_t cudaMallocHost(void** ptr, size_t size) { return cudaHostAlloc(ptr, size, cudaHostAllocDefault); }

cudaError_t cudaFreeHost(void* ptr) {
  return outside_capture("cudaFreeHost", [&] { return remove_memory(ptr, cudaMemoryTypeHost); });
}

cudaError_t cudaHostRegister(void* ptr, size_t size, unsigned) {
  return outside_capture("cudaHostRegister", [&] {
    if (!ptr || size == 0) return cudaErrorInvalidValue;
    const Lock lock(state().mutex);
    const auto begin = reinterpret_cast<uintptr_t>(ptr);
    const auto next = state().allocations.lower_bound(begin);
    if (locate(ptr) || (next != state().allocations.end() && next->first < begin + size))
      return cudaErrorHostMemoryAlreadyRegistered;
    state().allocations[begin] = {cudaMemoryTypeHost, /*registered=*/true, size, current_device()};
    return cudaSuccess;
  });
}

cudaError_t cudaHostUnregister(void* ptr) {
  return outside_capture("cudaHostUnregister", [&] {
    const Lock lock(state().mutex);
    const auto at = state().allocations.find(reinterpret_cast<uintptr_t>(ptr));
    if (at == state().allocations.end() || !at->second.registered) return cudaErrorHostMemoryNotRegistered;
    state().allocations.erase(at);
    return cudaSuccess;
  });
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* ptr) {
  return call("cudaPointerGetAttributes", [&] {
    const Lock lock(state().mutex);
    const auto* found = locate(ptr);
    auto* p = const_cast<void*>(ptr);
    if (!found)
      *attributes = {cudaMemoryTypeUnregistered, -2, nullptr, p};
    else
      *attributes = {found->second.type, found->second.device, p,
                     found->second.type == cudaMemoryTypeHost ? p : nullptr};
    return cudaSuccess;
  });
}

cudaError_t cudaMemcpy(void* dst, const void* src, size_t count, cudaMemcpyKind kind) {
  return outside_capture("cudaMemcpy", [&] { return push_copy(dst, src, count, kind, nullptr); });
}

cudaError_t cudaMemcpyAsync(void* dst, const void* src, size_t count, cudaMemcpyKind kind, cudaStream_t stream) {
  return call("cudaMemcpyAsync", [&] { return push_copy(dst, src, count, kind, stream); });
}

cudaError_t cudaMemset(void* devPtr, int value, size_t count) {
  return outside_capture("cudaMemset", [&] { return push_set(devPtr, value, count, nullptr); });
}

cudaError_t cudaMemsetAsync(void* devPtr, int value, size_t count, cudaStream_t stream) {
  return call("cudaMemsetAsync", [&] { return push_set(devPtr, value, count, stream); });
}
