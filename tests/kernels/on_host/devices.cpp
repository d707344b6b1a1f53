// Devices as the environment describes them, errors and injected failures.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <utility>

#include "state.h"

namespace on_host {
namespace {

thread_local int device_of_thread = 0;
thread_local cudaError_t last_error = cudaSuccess;
thread_local int work_depth = 0;

std::string environment(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value ? value : otherwise;
}

bool is_sticky(cudaError_t error) {
  return error == cudaErrorECCUncorrectable || error == cudaErrorNvlinkUncorrectable || error == cudaErrorContained ||
         (error >= cudaErrorIllegalAddress && error <= cudaErrorLaunchFailure &&
          error != cudaErrorHostMemoryAlreadyRegistered && error != cudaErrorHostMemoryNotRegistered);
}

cudaDeviceProp properties_of(int number) {
  cudaDeviceProp p = {};
  std::snprintf(p.name, sizeof p.name, "On-host GPU");
  for (int i = 0; i < 16; ++i) p.uuid.bytes[i] = static_cast<char>(0x10 * (number + 1) + i * 37);
  std::istringstream capabilities(environment("ON_HOST_CAPABILITY", "9.0"));
  std::string capability;
  for (int i = 0; i <= number && std::getline(capabilities, capability, ','); ++i)
    std::sscanf(capability.c_str(), "%d.%d", &p.major, &p.minor);
  p.totalGlobalMem = std::strtoull(environment("ON_HOST_MEMORY", "2147483648").c_str(), nullptr, 10);
  p.warpSize = 32;
  p.multiProcessorCount = 4;
  p.pciBusID = number + 1;
  p.l2CacheSize = 4 << 20;
  p.sharedMemPerBlockOptin = 48 * 1024;
  return p;
}

/// "GPU-" and the bytes in hexadecimal, 8-4-4-4-12.
std::string text(const cudaUUID_t& uuid) {
  std::string all = "GPU-";
  for (int i = 0; i < 16; ++i) {
    char hex[4];
    std::snprintf(hex, sizeof hex, "%02x", static_cast<unsigned char>(uuid.bytes[i]));
    if (i == 4 || i == 6 || i == 8 || i == 10) all += '-';
    all += hex;
  }
  return all;
}

/// Those that CUDA_VISIBLE_DEVICES names by number or by the beginning of their UUID, up to the first that is unknown.
std::vector<cudaDeviceProp> visible(const std::vector<cudaDeviceProp>& all) {
  const char* names = std::getenv("CUDA_VISIBLE_DEVICES");
  if (!names) return all;
  std::vector<cudaDeviceProp> chosen;
  std::istringstream in(names);
  for (std::string name; std::getline(in, name, ',');) {
    const size_t before = chosen.size();
    for (size_t i = 0; i < all.size() && chosen.size() == before; ++i)
      if (name == std::to_string(i) || (name.rfind("GPU-", 0) == 0 && text(all[i].uuid).rfind(name, 0) == 0))
        chosen.push_back(all[i]);
    if (chosen.size() == before) break;
  }
  return chosen;
}

void begin(State& s) {
  s.driver = std::atoi(environment("ON_HOST_DRIVER", "13000").c_str());
  s.computes = environment("ON_HOST_KERNELS", "run") == "run";
  s.no_device = s.driver < CUDART_VERSION ? cudaErrorInsufficientDriver : cudaSuccess;
  std::vector<cudaDeviceProp> all;
  for (int i = 0; i < std::atoi(environment("ON_HOST_DEVICES", "2").c_str()); ++i) all.push_back(properties_of(i));
  s.devices.clear();
  if (s.no_device == cudaSuccess)
    for (const cudaDeviceProp& properties : visible(all)) {
      Device device;
      device.properties = properties;
      device.legacy.reset(new CUstream_st{static_cast<int>(s.devices.size()), /*blocking=*/true, /*legacy=*/true});
      s.devices.push_back(std::move(device));
    }
  if (s.devices.empty() && s.no_device == cudaSuccess) s.no_device = cudaErrorNoDevice;

  std::istringstream failure(environment("ON_HOST_FAIL", ""));
  std::string call;
  int error = 0, nth = 1;
  if (std::getline(failure, call, ':') && failure >> error && failure.ignore() && failure >> nth)
    s.failures.push_back({call, static_cast<cudaError_t>(error), nth});
}

}  // namespace

State& state() {
  static State& all = *[] {
    auto* s = new State;
    begin(*s);
    return s;
  }();
  return all;
}

RuntimeOptions& runtime_options() {
  static RuntimeOptions options = {.streams = environment("ON_HOST_STREAMS", "lazy") == "eager"
                                                  ? RuntimeOptions::Streams::eager
                                                  : RuntimeOptions::Streams::lazy};
  return options;
}

void restart() {
  release_all_memory();
  State& s = state();
  const Lock lock(s.mutex);
  s.streams = {};
  s.events = {};
  s.graphs = {};
  s.executables = {};
  while (!s.captures.empty()) end(s.captures.back());  // which point to their streams and back
  s.failures.clear();
  s.loaded.clear();
  s.meeting = 0;
  s.complaints.clear();
  device_of_thread = 0;
  last_error = cudaSuccess;
  begin(s);
  choose_protection();
}

size_t live_handles() {
  const State& s = state();
  const Lock lock(state().mutex);
  return s.streams.size() + s.events.size() + s.graphs.size() + s.executables.size();
}

void fail_next(const std::string& call, cudaError_t error, int nth) {
  const Lock lock(state().mutex);
  state().failures.push_back({call, error, nth});
}

void report(const std::string& line) {
  const char* file = std::getenv("ON_HOST_REPORT");
  if (file == nullptr) return;
  std::ofstream(file, std::ios::app) << line + "\n";
}

void complain_beside_a_meeting(const std::string& what) {
  if (state().meeting == 0) return;
  state().complaints.push_back(what + " while a collective is under way");
  report("complaint: " + state().complaints.back());
}

std::vector<std::string> complaints() {
  const Lock lock(state().mutex);
  return std::exchange(state().complaints, {});
}

/// "cudaMalloc": any such call; "": any call; with "@capture" behind it: only where this thread captures.
static bool names(const std::string& failing, const std::string& call) {
  const size_t at = failing.find('@');
  const std::string name = failing.substr(0, at);
  if (!name.empty() && name != call) return false;
  return at == std::string::npos || std::ranges::any_of(state().captures, [](const auto& capture) {
           return capture->thread == std::this_thread::get_id();
         });
}

std::optional<cudaError_t> begin_call(const char* name, Needs needs) {
  State& s = state();
  const Lock lock(s.mutex);
  if (work_depth > 0) return cudaErrorNotPermitted;
  Device* device = s.devices.empty() ? nullptr : &s.devices[static_cast<size_t>(device_of_thread)];
  if (needs == Needs::device && !device) return s.no_device;
  if (needs == Needs::device && device->lost != cudaSuccess) return device->lost;
  for (auto failure = s.failures.begin(); failure != s.failures.end(); ++failure) {
    if (!names(failure->call, name) || --failure->nth > 0) continue;
    const cudaError_t error = failure->error;
    s.failures.erase(failure);
    if (device && is_sticky(error)) device->lost = error;
    return error;
  }
  return std::nullopt;
}

cudaError_t end_call(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

int current_device() { return device_of_thread; }

InWork::InWork() { ++work_depth; }
InWork::~InWork() { --work_depth; }

}  // namespace on_host

using on_host::call;
using on_host::Lock;
using on_host::Needs;
using on_host::state;

namespace {
/// body(the device)
template <class Body>
cudaError_t with_device(const char* name, int device, Body body) {
  return call(name, [&] {
    const Lock lock(state().mutex);
    if (device < 0 || static_cast<size_t>(device) >= state().devices.size()) return cudaErrorInvalidDevice;
    return body(state().devices[static_cast<size_t>(device)]);
  });
}
}  // namespace

const char* cudaGetErrorName(cudaError_t error) {
#define ON_HOST_CASE(name, number, text) \
  case name:                             \
    return #name;
  switch (error) { ON_HOST_ERRORS(ON_HOST_CASE) }
#undef ON_HOST_CASE
  return "unrecognized error code";
}

const char* cudaGetErrorString(cudaError_t error) {
#define ON_HOST_CASE(name, number, text) \
  case name:                             \
    return text;
  switch (error) { ON_HOST_ERRORS(ON_HOST_CASE) }
#undef ON_HOST_CASE
  return "unrecognized error code";
}

cudaError_t cudaPeekAtLastError() { return on_host::last_error; }

cudaError_t cudaGetLastError() {
  const cudaError_t error = on_host::last_error;
  if (!on_host::is_sticky(error)) on_host::last_error = cudaSuccess;
  return error;
}

cudaError_t cudaGetDeviceCount(int* count) {
  const auto body = [&] {
    const Lock lock(state().mutex);
    *count = static_cast<int>(state().devices.size());
    return state().no_device;
  };
  return call("cudaGetDeviceCount", body, Needs::nothing);
}

cudaError_t cudaSetDevice(int device) {
  const auto body = [&] {
    const Lock lock(state().mutex);
    if (state().devices.empty()) return state().no_device;
    if (device < 0 || static_cast<size_t>(device) >= state().devices.size()) return cudaErrorInvalidDevice;
    on_host::device_of_thread = device;
    return state().devices[static_cast<size_t>(device)].lost;
  };
  return call("cudaSetDevice", body, Needs::nothing);
}

cudaError_t cudaGetDevice(int* device) {
  const auto body = [&] {
    *device = on_host::current_device();
    return state().no_device;
  };
  return call("cudaGetDevice", body, Needs::nothing);
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* prop, int device) {
  return with_device("cudaGetDeviceProperties", device, [&](const on_host::Device& d) {
    *prop = d.properties;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attr, int device) {
  return with_device("cudaDeviceGetAttribute", device, [&](const on_host::Device& d) {
    const cudaDeviceProp& p = d.properties;
    const std::map<cudaDeviceAttr, int> all = {{cudaDevAttrMaxThreadsPerBlock, 1024},
                                               {cudaDevAttrWarpSize, p.warpSize},
                                               {cudaDevAttrMultiProcessorCount, p.multiProcessorCount},
                                               {cudaDevAttrL2CacheSize, p.l2CacheSize},
                                               {cudaDevAttrComputeCapabilityMajor, p.major},
                                               {cudaDevAttrComputeCapabilityMinor, p.minor},
                                               {cudaDevAttrMaxSharedMemoryPerBlockOptin, 48 * 1024},
                                               {cudaDevAttrMemoryPoolsSupported, 1}};
    const auto at = all.find(attr);
    if (at == all.end()) return cudaErrorInvalidValue;
    *value = at->second;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceCanAccessPeer(int* canAccessPeer, int device, int peerDevice) {
  return with_device("cudaDeviceCanAccessPeer", device, [&](const on_host::Device&) {
    *canAccessPeer = 0;
    const bool exists = peerDevice >= 0 && static_cast<size_t>(peerDevice) < state().devices.size();
    return exists ? cudaSuccess : cudaErrorInvalidDevice;
  });
}

cudaError_t cudaDriverGetVersion(int* version) {
  const auto body = [&] {
    *version = state().driver;
    return cudaSuccess;
  };
  return call("cudaDriverGetVersion", body, Needs::nothing);
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  return with_device("cudaMemGetInfo", on_host::current_device(), [&](const on_host::Device& d) {
    *total = d.properties.totalGlobalMem;
    *free = *total - d.used;
    return cudaSuccess;
  });
}
