// The stand-in for the CUDA runtime (on_host/runtime.h): what it promises to do, and the mistakes it shows.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "launch.h"
#include "runtime.h"

// Null in builds without AddressSanitizer.
extern "C" __attribute__((weak)) void __asan_poison_memory_region(const volatile void* at, size_t size);

namespace ct::kernels {
namespace {

using on_host::Protection;
using Streams = on_host::RuntimeOptions::Streams;

constexpr int kPoison = -1;

__global__ void set(int* x, int n, int value) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) x[i] = value;
}
__global__ void times_ten_plus(int* x, int digit) { *x = *x * 10 + digit; }
enum class Waits { first, late, never };
template <Waits kWaits>
__global__ void early_times_ten_plus(int* x, int digit) {
  if (kWaits == Waits::first) wait_for_previous();
  const int before = *x;
  if (kWaits == Waits::late) wait_for_previous();
  *x = before * 10 + digit;
}
__global__ void diverges() {
  if (threadIdx.x == 0) __syncthreads();
}

#define OK(...) ASSERT_EQ((__VA_ARGS__), cudaSuccess)

/// A variable of the environment, which is read again; until the scope's end.
class Environment {
 public:
  Environment(const char* name, const char* value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    setenv(name, value, /*overwrite=*/1);
    on_host::restart();
  }
  ~Environment() {
    before_ ? setenv(name_, before_->c_str(), /*overwrite=*/1) : unsetenv(name_);
    on_host::restart();
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

class OnHostRuntime : public testing::Test {
 protected:
  void SetUp() override {
    on_host::restart();
    on_host::runtime_options() = {};
    for (cudaStream_t* stream : {&a, &b}) OK(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking));
    for (cudaEvent_t* event : {&e, &f}) OK(cudaEventCreateWithFlags(event, cudaEventDisableTiming));
    OK(cudaMalloc(&x, 4 * sizeof *x));
    OK(cudaMallocHost(&h, 4 * sizeof *h));
  }
  void TearDown() override {
    on_host::runtime_options() = {};
    on_host::restart();
  }
  /// x[0] as of now: the work that is queued in a and b stays where it is.
  int now() const {
    int value = 0;
    EXPECT_EQ(cudaMemcpy(&value, x, sizeof value, cudaMemcpyDeviceToHost), cudaSuccess);
    return value;
  }
  cudaError_t put(cudaStream_t stream, int value) { return launch(set, {1, 4}, stream, x, 4, value); }
  cudaError_t digit(cudaStream_t stream, int digit) { return launch(times_ten_plus, {1, 1}, stream, x, digit); }
  /// Records what `body` does in a; the error of the end.
  template <class Body>
  cudaError_t capture(Body body, cudaStreamCaptureMode mode = cudaStreamCaptureModeThreadLocal) {
    EXPECT_EQ(cudaStreamBeginCapture(a, mode), cudaSuccess);
    body();
    return cudaStreamEndCapture(a, &graph);
  }
  void replay(int times) {
    cudaGraphExec_t exec = nullptr;
    OK(cudaGraphInstantiate(&exec, graph));
    OK(cudaGraphUpload(exec, a));
    for (int i = 0; i < times; ++i) OK(cudaGraphLaunch(exec, a));
    OK(cudaGraphExecDestroy(exec));
    OK(cudaGraphDestroy(graph));
  }

  cudaStream_t a = nullptr, b = nullptr;
  cudaEvent_t e = nullptr, f = nullptr;
  cudaGraph_t graph = nullptr;
  int *x = nullptr, *h = nullptr;  // four on the device, four pinned
};

// ---- streams

TEST_F(OnHostRuntime, WorkWaitsUntilSomethingForcesIt) {
  OK(put(a, 5));
  EXPECT_EQ(now(), kPoison);
  OK(cudaMemcpyAsync(h, x, 4 * sizeof *h, cudaMemcpyDeviceToHost, a));
  EXPECT_EQ(h[3], kPoison);  // what a program would see that forgot to wait
  OK(cudaStreamSynchronize(b));
  EXPECT_EQ(h[3], kPoison);
  OK(cudaStreamSynchronize(a));
  EXPECT_EQ(h[3], 5);

  h[0] = 7;
  OK(cudaMemcpyAsync(x, h, sizeof *h, cudaMemcpyHostToDevice, a));
  h[0] = 8;  // overwritten too early
  OK(cudaDeviceSynchronize());
  EXPECT_EQ(now(), 8);

  OK(cudaMemsetAsync(x, 0, sizeof *x, a));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(cudaStreamQuery(a), cudaErrorNotReady);
  EXPECT_EQ(now(), 8);
  EXPECT_EQ(cudaStreamQuery(a), cudaSuccess);
  EXPECT_EQ(now(), 0);

  on_host::runtime_options().longest_queue = 10;
  for (int i = 0; i < 11; ++i) {
    EXPECT_EQ(now(), 0);
    OK(put(a, 6));
  }
  EXPECT_EQ(now(), 6);
  OK(put(a, 9));
  OK(cudaStreamDestroy(a));
  EXPECT_EQ(now(), 9);
  EXPECT_EQ(cudaStreamSynchronize(a), cudaErrorInvalidResourceHandle);
}

TEST_F(OnHostRuntime, EagerStreamsRunAtOnce) {
  on_host::runtime_options().streams = Streams::eager;
  OK(put(a, 5));
  EXPECT_EQ(now(), 5);
  OK(cudaMemcpyAsync(h, x, sizeof *h, cudaMemcpyDeviceToHost, a));
  EXPECT_EQ(h[0], 5);
}

// A kernel that is launched early starts before the one in front of it, in a stream and in a graph.
TEST_F(OnHostRuntime, EarlyKernelsMustWaitBeforeTheyRead) {
  const auto two_early = [&](auto kernel) {
    OK(put(a, 4));  // nothing overlaps with the first item of a stream, which may be running
    OK(digit(a, 1));
    for (int i : {2, 3}) OK(launch_early(kernel, {1, 1}, a, x, i));
  };
  const auto replayed = [&](auto kernel) {
    OK(capture([&] { two_early(kernel); }));
    replay(1);
  };
  two_early(early_times_ten_plus<Waits::first>);
  OK(cudaStreamSynchronize(a));
  EXPECT_EQ(now(), 4123);
  replayed(early_times_ten_plus<Waits::first>);
  OK(cudaStreamSynchronize(a));
  EXPECT_EQ(now(), 4123);

  two_early(early_times_ten_plus<Waits::late>);
  OK(cudaStreamSynchronize(a));
  EXPECT_NE(now(), 4123);
  replayed(early_times_ten_plus<Waits::late>);
  OK(cudaStreamSynchronize(a));
  EXPECT_NE(now(), 4123);

  two_early(early_times_ten_plus<Waits::never>);
  EXPECT_THROW(cudaStreamSynchronize(a), on_host::Error);
  replayed(early_times_ten_plus<Waits::never>);
  EXPECT_THROW(cudaStreamSynchronize(a), on_host::Error);
}

TEST_F(OnHostRuntime, NullStreamWaitsForBlockingStreamsAlone) {
  cudaStream_t blocking;
  OK(cudaStreamCreate(&blocking));
  OK(put(a, 5));
  OK(digit(blocking, 3));
  OK(digit(nullptr, 4));
  EXPECT_EQ(now(), (kPoison * 10 + 3) * 10 + 4);
}

TEST_F(OnHostRuntime, LaunchTakesItsArgumentsByValue) {
  int value = 3;
  OK(put(a, value));
  value = 4;
  OK(cudaStreamSynchronize(a));
  EXPECT_EQ(now(), 3);
}

TEST_F(OnHostRuntime, AddressesOfTheHostsOwnMemoryAreNoArguments) {
  struct Pair {
    bool unused;  // with other things behind it
    int* at;
  };
  const auto with = [&](int* own) {
    on_host::launch_hook(a, cudaSuccess, {[] {}, nullptr, "", false, on_host::words_of(std::tuple(Pair{true, own}))});
  };
  int on_stack = 0;
  const auto on_heap = std::make_unique<int>();
  static int of_program;
  for (int* own : {&on_stack, on_heap.get(), &of_program}) EXPECT_THROW(with(own), on_host::Error);
  for (int* good : {x, h, static_cast<int*>(nullptr)}) EXPECT_NO_THROW(with(good));
  OK(cudaHostRegister(&of_program, sizeof of_program, cudaHostRegisterDefault));
  EXPECT_NO_THROW(with(&of_program));
}
TEST_F(OnHostRuntime, EventsOrderStreams) {
  OK(cudaStreamWaitEvent(b, e));  // never recorded: nothing to wait for
  EXPECT_EQ(cudaEventQuery(e), cudaSuccess);
  OK(put(a, 1));
  OK(cudaEventRecord(e, a));
  OK(digit(a, 9));
  OK(cudaStreamWaitEvent(b, e));
  OK(digit(b, 2));
  OK(cudaStreamSynchronize(b));
  EXPECT_EQ(now(), 12);  // of a only what was before the event
  OK(cudaEventRecord(f, a));
  EXPECT_EQ(cudaEventQuery(f), cudaErrorNotReady);
  OK(cudaEventSynchronize(f));
  EXPECT_EQ(now(), 129);
  EXPECT_EQ(cudaEventQuery(f), cudaSuccess);

  // Without the wait b does not see what a did.
  OK(put(a, 1));
  OK(digit(b, 2));
  OK(cudaStreamSynchronize(b));
  EXPECT_EQ(now(), 1292);
}

TEST_F(OnHostRuntime, EventsMeasureTime) {
  float ms = -1;
  EXPECT_EQ(cudaEventElapsedTime(&ms, e, f), cudaErrorInvalidResourceHandle);  // made without timing
  cudaEvent_t begin, end;
  OK(cudaEventCreate(&begin));
  OK(cudaEventCreate(&end));
  OK(cudaEventRecord(begin, a));
  OK(cudaEventRecord(end, a));
  EXPECT_EQ(cudaEventElapsedTime(&ms, begin, end), cudaErrorNotReady);
  OK(cudaEventSynchronize(end));
  OK(cudaEventElapsedTime(&ms, begin, end));
  EXPECT_GE(ms, 0);
}

TEST_F(OnHostRuntime, HostFunctionsAndDeviceFunctionsRunInTurn) {
  std::string order;
  OK(on_host::launch_on_device(a, [&] { order += *x == kPoison ? "device " : "wrong "; }));
  const auto host = [](void* data) { *static_cast<std::string*>(data) += cudaGetErrorName(cudaDeviceSynchronize()); };
  OK(cudaLaunchHostFunc(a, host, &order));
  EXPECT_EQ(order, "");
  OK(cudaStreamSynchronize(a));
  EXPECT_EQ(order, "device cudaErrorNotPermitted");
}

TEST_F(OnHostRuntime, KernelErrorsComeFromTheCallThatForcesThem) {
  OK(launch(diverges, {1, 2}, a));
  OK(put(a, 2));
  try {
    cudaStreamSynchronize(a);
    FAIL();
  } catch (const on_host::Error& error) {
    EXPECT_EQ(std::string(error.what()).rfind("kernel void (*)(): block (0, 0, 0): not all threads come", 0), 0u)
        << error.what();
  }
  OK(cudaStreamSynchronize(a));
  EXPECT_EQ(now(), 2);
}

TEST_F(OnHostRuntime, WrongLaunchesAreRefused) {
  EXPECT_EQ(launch(set, {1, 2000}, a, x, 4, 0), cudaErrorInvalidConfiguration);
  EXPECT_EQ(cudaPeekAtLastError(), cudaErrorInvalidConfiguration);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidConfiguration);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  OK(cudaSetDevice(1));
  EXPECT_EQ(put(a, 1), cudaErrorInvalidResourceHandle);  // another device's stream
  EXPECT_STREQ(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory");
}

// ---- memory

/// Ends well if the host may read it.
[[noreturn]] void read_on_the_host(const int* y) {
  const volatile int* at = y;
  std::exit(*at == 12345 ? 1 : 0);
}

TEST_F(OnHostRuntime, HostCannotTouchDeviceMemory) {
  for (auto [name, wanted] :
       {std::pair{"none", Protection::none}, {"pages", Protection::pages}, {"keys", Protection::keys}}) {
    SCOPED_TRACE(name);
    const Environment environment("ON_HOST_PROTECT", name);
    const Protection protection = on_host::protection();
    if (wanted == Protection::keys)
      RecordProperty("protection_keys", protection == wanted ? "checked" : "this machine has none");
    else
      ASSERT_EQ(protection, wanted);
    int *y = nullptr, *pinned = nullptr;
    OK(cudaMalloc(&y, sizeof *y));
    OK(cudaMallocHost(&pinned, sizeof *pinned));
    OK(launch(set, {1, 1}, nullptr, y, 1, 3));  // a kernel can
    OK(cudaMemcpy(pinned, y, sizeof *y, cudaMemcpyDeviceToHost));
    EXPECT_EQ(*pinned, 3);
    if (protection == Protection::none)
      EXPECT_EQ(*y, 3);
    else
      EXPECT_DEATH(read_on_the_host(y), "");
    OK(cudaFree(y));
    if (protection == Protection::none) {
      EXPECT_DEATH(read_on_the_host(y), "");  // freed memory is nobody's
    }
  }
}

TEST_F(OnHostRuntime, MemoryIsPoisonAndCounted) {
  EXPECT_EQ(now(), kPoison);
  EXPECT_EQ(h[0], kPoison);
  const size_t before = on_host::allocated_bytes();
  EXPECT_EQ(before, 8 * sizeof(int));
  char* y = nullptr;
  size_t free_before = 0, free_after = 0, total = 0;
  OK(cudaMemGetInfo(&free_before, &total));
  OK(cudaMalloc(&y, 1000));
  OK(cudaMemGetInfo(&free_after, &total));
  EXPECT_EQ(free_before - free_after, 1000u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(y) % 256, 0u);
  EXPECT_EQ(on_host::allocated_bytes(), before + 1000);
  OK(cudaFree(y));
  EXPECT_EQ(cudaFree(y), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(h), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFreeHost(x), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(x + 1), cudaErrorInvalidValue);
  OK(cudaFree(nullptr));
  OK(cudaFree(x));
  OK(cudaFreeHost(h));
  EXPECT_EQ(on_host::allocated_bytes(), 0u);
  EXPECT_EQ(on_host::live_handles(), 4u);
  OK(cudaStreamDestroy(a));
  OK(cudaEventDestroy(e));
  EXPECT_EQ(on_host::live_handles(), 2u);
}

TEST_F(OnHostRuntime, StreamOrderedMemoryIsFreedInTurn) {
  int* y = nullptr;
  OK(cudaMallocAsync(&y, sizeof *y, a));
  const size_t before = on_host::allocated_bytes();
  OK(launch(set, {1, 1}, a, y, 1, 3));
  OK(cudaMemcpyAsync(h, y, sizeof *y, cudaMemcpyDeviceToHost, a));
  OK(cudaFreeAsync(y, a));
  EXPECT_EQ(on_host::allocated_bytes(), before);
  OK(cudaStreamSynchronize(a));
  EXPECT_EQ(h[0], 3);
  EXPECT_EQ(on_host::allocated_bytes(), before - sizeof *y);
  EXPECT_EQ(cudaFreeAsync(y, a), cudaErrorInvalidValue);
}

TEST_F(OnHostRuntime, FreeFindsWhatWasWrittenOutside) {
  const auto write = [](int* at) { return [=] { std::memcpy(at, "xxxx", 4); }; };
  for (int at : {-1, 4}) {
    int* y = nullptr;
    OK(cudaMalloc(&y, 4 * sizeof *y));
    if (__asan_poison_memory_region) {  // it tells where it happens
      EXPECT_DEATH(write(y + at)(), "use-after-poison");
    } else {
      OK(on_host::launch_on_device(nullptr, write(y + at)));
      EXPECT_THROW(cudaFree(y), on_host::Error) << at;
    }
  }
}

TEST_F(OnHostRuntime, WrongCopiesAreRefused) {
  std::array<int, 8> host = {};
  EXPECT_EQ(cudaMemcpy(x, host.data(), 5 * sizeof(int), cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpyAsync(h, x + 1, 4 * sizeof(int), cudaMemcpyDeviceToHost, a), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpyAsync(x, h, sizeof(int), cudaMemcpyDeviceToHost, a), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpyAsync(h, host.data(), sizeof(int), cudaMemcpyHostToDevice, a), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpyAsync(x, h, 4, static_cast<cudaMemcpyKind>(7), a), cudaErrorInvalidMemcpyDirection);
  EXPECT_EQ(cudaMemsetAsync(h, 0, 4, a), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemset(x, 0, 17), cudaErrorInvalidValue);
  OK(cudaMemcpyAsync(x, host.data(), 4 * sizeof(int), cudaMemcpyDefault, a));
  OK(cudaDeviceSynchronize());
  EXPECT_EQ(now(), 0);
}

TEST_F(OnHostRuntime, HostMemoryCanBeRegistered) {
  std::array<int, 8> host = {};
  cudaPointerAttributes is = {};
  OK(cudaPointerGetAttributes(&is, &host[3]));
  EXPECT_EQ(is.type, cudaMemoryTypeUnregistered);
  OK(cudaHostRegister(host.data(), sizeof host, cudaHostRegisterDefault));
  EXPECT_EQ(cudaHostRegister(&host[7], 4, cudaHostRegisterDefault), cudaErrorHostMemoryAlreadyRegistered);
  OK(cudaPointerGetAttributes(&is, &host[3]));
  EXPECT_EQ(is.type, cudaMemoryTypeHost);
  OK(cudaPointerGetAttributes(&is, x));
  EXPECT_EQ(is.type, cudaMemoryTypeDevice);
  EXPECT_EQ(is.hostPointer, nullptr);
  OK(cudaHostUnregister(host.data()));
  EXPECT_EQ(cudaHostUnregister(host.data()), cudaErrorHostMemoryNotRegistered);
}

TEST_F(OnHostRuntime, DeviceMemoryEnds) {
  const Environment environment("ON_HOST_MEMORY", "1000");
  char *y = nullptr, *z = nullptr;
  OK(cudaMalloc(&y, 600));
  EXPECT_EQ(cudaMalloc(&z, 401), cudaErrorMemoryAllocation);
  EXPECT_EQ(z, nullptr);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  OK(cudaSetDevice(1));
  OK(cudaMalloc(&z, 1000));
  OK(cudaSetDevice(0));
  OK(cudaFree(y));
  OK(cudaMalloc(&y, 1000));
}

// ---- devices

TEST_F(OnHostRuntime, DevicesAreWhatTheEnvironmentSays) {
  int count = -1;
  cudaDeviceProp first = {}, second = {};
  {
    const Environment devices("ON_HOST_DEVICES", "3"), capability("ON_HOST_CAPABILITY", "9.0,7.5");
    OK(cudaGetDeviceCount(&count));
    EXPECT_EQ(count, 3);
    OK(cudaGetDeviceProperties(&first, 0));
    OK(cudaGetDeviceProperties(&second, 2));
    EXPECT_EQ(first.major * 10 + first.minor, 90);
    EXPECT_EQ(second.major * 10 + second.minor, 75);
    EXPECT_EQ(first.totalGlobalMem, size_t{2} << 30);
    EXPECT_NE(std::memcmp(&first.uuid, &second.uuid, 16), 0);
    EXPECT_EQ(cudaGetDeviceProperties(&first, 3), cudaErrorInvalidDevice);
    EXPECT_EQ(cudaSetDevice(-1), cudaErrorInvalidDevice);
    int minor = 0;
    OK(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 1));
    EXPECT_EQ(minor, 5);
  }
  std::string uuid = "GPU-";
  for (int i : {0, 1}) {
    char hex[4];
    std::snprintf(hex, sizeof hex, "%02x", static_cast<unsigned char>(second.uuid.bytes[i]));
    uuid += hex;
  }
  for (const char* visible : {"2", uuid.c_str(), "2,17,0"}) {
    SCOPED_TRACE(visible);
    const Environment devices("ON_HOST_DEVICES", "3"), chosen("CUDA_VISIBLE_DEVICES", visible);
    OK(cudaGetDeviceCount(&count));
    EXPECT_EQ(count, 1);
    OK(cudaGetDeviceProperties(&first, 0));
    EXPECT_EQ(std::memcmp(&first.uuid, &second.uuid, 16), 0);
  }
}

TEST_F(OnHostRuntime, NoDeviceAndOldDrivers) {
  const std::tuple<const char*, const char*, cudaError_t> all[] = {
      {"ON_HOST_DEVICES", "0", cudaErrorNoDevice},
      {"CUDA_VISIBLE_DEVICES", "", cudaErrorNoDevice},
      {"ON_HOST_DRIVER", "11080", cudaErrorInsufficientDriver}};
  for (auto [name, value, error] : all) {
    const Environment environment(name, value);
    int count = -1, version = 0;
    EXPECT_EQ(cudaGetDeviceCount(&count), error);
    EXPECT_EQ(count, 0);
    int* y = nullptr;
    EXPECT_EQ(cudaMalloc(&y, 4), error);
    EXPECT_EQ(cudaSetDevice(0), error);
    EXPECT_EQ(launch(set, {1, 1}, nullptr, y, 0, 0), error);
    OK(cudaDriverGetVersion(&version));
    EXPECT_EQ(version, error == cudaErrorNoDevice ? 13000 : 11080);
  }
}

/// Two ranks on two devices, which hand each other a number and add to it; the other's is waited for in a stream.
TEST_F(OnHostRuntime, ThreadsHaveDevicesOfTheirOwn) {
  std::array<std::atomic<int>, 2> sent = {-1, -1};
  std::array<int, 2> results = {};
  const auto rank = [&](int me) {
    OK(cudaSetDevice(me));
    cudaStream_t stream;
    int *y = nullptr, *pinned = nullptr, device = -1;
    OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    OK(cudaMalloc(&y, sizeof *y));
    OK(cudaMallocHost(&pinned, sizeof *pinned));
    OK(launch(set, {2, 32}, stream, y, 1, me + 1));
    OK(on_host::launch_on_device(stream, [&, y] {
      sent[me] = *y;
      while (sent[1 - me] < 0) std::this_thread::yield();
      *y += 10 * sent[1 - me];
    }));
    for (int i = 0; i < 5; ++i) OK(launch(times_ten_plus, {1, 1}, stream, y, 0));
    for (int i = 0; i < 20; ++i) OK(launch(set, {1, 1}, stream, y, 1, 10 * me + i));
    OK(cudaMemcpyAsync(pinned, y, sizeof *y, cudaMemcpyDeviceToHost, stream));
    OK(cudaStreamSynchronize(stream));
    results[me] = *pinned;
    OK(cudaGetDevice(&device));
    EXPECT_EQ(device, me);
    OK(cudaFree(y));
    OK(cudaFreeHost(pinned));
    OK(cudaStreamDestroy(stream));
  };
  std::thread other(rank, 1);
  rank(0);
  other.join();
  EXPECT_EQ(results, (std::array<int, 2>{19, 29}));
  EXPECT_EQ(sent[0] * 10 + sent[1], 12);
}

TEST_F(OnHostRuntime, CallsFailAsAsked) {
  int* y = nullptr;
  on_host::fail_next("cudaMalloc", cudaErrorMemoryAllocation, 2);
  OK(cudaMalloc(&y, 4));
  OK(cudaMemset(y, 0, 4));
  EXPECT_EQ(cudaMalloc(&y, 4), cudaErrorMemoryAllocation);
  OK(cudaMalloc(&y, 4));
  on_host::fail_next("", cudaErrorUnknown);
  EXPECT_EQ(put(a, 1), cudaErrorUnknown);
  OK(put(a, 1));

  on_host::fail_next("cudaStreamSynchronize", cudaErrorLaunchFailure);
  EXPECT_EQ(cudaStreamSynchronize(a), cudaErrorLaunchFailure);  // the device is lost
  EXPECT_EQ(put(a, 1), cudaErrorLaunchFailure);
  EXPECT_EQ(cudaFree(x), cudaErrorLaunchFailure);
  EXPECT_EQ(cudaGetLastError(), cudaErrorLaunchFailure);
  EXPECT_EQ(cudaGetLastError(), cudaErrorLaunchFailure);
  OK(cudaSetDevice(1));
  OK(cudaMalloc(&y, 4));  // the other is not
}

// ---- graphs

TEST_F(OnHostRuntime, ReplayIsWhatWasRecorded) {
  for (Streams streams : {Streams::lazy, Streams::eager}) {
    on_host::runtime_options().streams = streams;
    OK(cudaMemset(x, 0, sizeof *x));
    OK(capture([&] {
      OK(digit(a, 1));
      OK(digit(a, 2));
      OK(cudaMemcpyAsync(h, x, sizeof *x, cudaMemcpyDeviceToHost, a));
      cudaStreamCaptureStatus status;
      OK(cudaStreamIsCapturing(a, &status));
      EXPECT_EQ(status, cudaStreamCaptureStatusActive);
    }));
    EXPECT_EQ(now(), 0);  // recorded, not run
    size_t nodes = 0;
    OK(cudaGraphGetNodes(graph, nullptr, &nodes));
    EXPECT_EQ(nodes, 3u);
    replay(2);
    OK(cudaStreamSynchronize(a));
    EXPECT_EQ(now(), 1212);
    EXPECT_EQ(h[0], 1212);
  }
  EXPECT_EQ(on_host::live_handles(), 4u);
}

TEST_F(OnHostRuntime, ForksRunAsLateAsEventsAllow) {
  for (Streams streams : {Streams::eager, Streams::lazy})
    for (bool forgotten : {false, true}) {
      on_host::runtime_options().streams = streams;
      OK(cudaMemset(x, 0, sizeof *x));
      OK(capture([&] {
        OK(digit(a, 1));
        OK(cudaEventRecord(e, a));
        OK(cudaStreamWaitEvent(b, e));
        OK(digit(b, 2));
        OK(cudaEventRecord(f, b));
        OK(cudaStreamWaitEvent(forgotten ? b : a, f));
        OK(digit(a, 3));
        OK(cudaStreamWaitEvent(a, f));
        OK(digit(a, 4));
      }));
      replay(1);
      OK(cudaStreamSynchronize(a));
      EXPECT_EQ(now(), forgotten && streams == Streams::lazy ? 1324 : 1234);
      cudaStreamCaptureStatus status;
      OK(cudaStreamIsCapturing(b, &status));
      EXPECT_EQ(status, cudaStreamCaptureStatusNone);
      EXPECT_EQ(cudaEventSynchronize(f), cudaErrorCapturedEvent);
    }
}

TEST_F(OnHostRuntime, CapturesThatDoNotEnd) {
  EXPECT_EQ(capture([&] {
              OK(cudaEventRecord(e, a));
              OK(cudaStreamWaitEvent(b, e));
              OK(digit(b, 2));
            }),
            cudaErrorStreamCaptureUnjoined);
  EXPECT_EQ(graph, nullptr);
  OK(put(b, 1));  // captures no more
  OK(cudaStreamSynchronize(b));
  EXPECT_EQ(now(), 1);
  EXPECT_EQ(cudaStreamEndCapture(a, &graph), cudaErrorIllegalState);
  EXPECT_EQ(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeRelaxed), cudaErrorStreamCaptureUnsupported);
  OK(cudaStreamBeginCapture(a, cudaStreamCaptureModeThreadLocal));
  EXPECT_EQ(cudaStreamBeginCapture(a, cudaStreamCaptureModeThreadLocal), cudaErrorIllegalState);
  std::thread([&] { EXPECT_EQ(cudaStreamEndCapture(a, &graph), cudaErrorStreamCaptureWrongThread); }).join();
  EXPECT_EQ(cudaStreamEndCapture(a, &graph), cudaErrorStreamCaptureInvalidated);
}

TEST_F(OnHostRuntime, CallsThatCaptureForbids) {
  int* y = nullptr;
  cudaEvent_t outside;
  OK(cudaEventCreate(&outside));
  OK(cudaEventRecord(outside, b));
  const std::pair<cudaError_t, std::function<cudaError_t()>> all[] = {
      {cudaErrorStreamCaptureUnsupported, [&] { return cudaStreamSynchronize(a); }},
      {cudaErrorStreamCaptureUnsupported, [&] { return cudaStreamQuery(a); }},
      {cudaErrorStreamCaptureUnsupported, [&] { return cudaDeviceSynchronize(); }},
      {cudaErrorStreamCaptureUnsupported, [&] { return cudaMalloc(&y, 4); }},
      {cudaErrorStreamCaptureUnsupported, [&] { return cudaMallocAsync(&y, 4, a); }},
      {cudaErrorStreamCaptureUnsupported, [&] { return cudaFree(x); }},
      {cudaErrorStreamCaptureUnsupported, [&] { return cudaFreeHost(h); }},
      {cudaErrorStreamCaptureUnsupported, [&] { return cudaMemcpy(h, x, 4, cudaMemcpyDeviceToHost); }},
      {cudaErrorStreamCaptureIsolation, [&] { return cudaStreamWaitEvent(a, outside); }},
      {cudaErrorCapturedEvent, [&] { return cudaEventRecord(e, a), cudaEventSynchronize(e); }},
      {cudaErrorCapturedEvent, [&] { return cudaEventQuery(e); }}};
  int which = 0;
  for (const auto& [error, forbidden] : all) {
    SCOPED_TRACE("call " + std::to_string(which++));
    EXPECT_EQ(capture([&] {
                OK(put(a, 1));
                OK(cudaEventRecord(e, a));
                EXPECT_EQ(forbidden(), error);
                EXPECT_EQ(put(a, 1), cudaErrorStreamCaptureInvalidated);
              }),
              cudaErrorStreamCaptureInvalidated);
  }
  cudaStream_t blocking;
  OK(cudaStreamCreate(&blocking));
  OK(cudaStreamBeginCapture(blocking, cudaStreamCaptureModeRelaxed));
  EXPECT_EQ(put(nullptr, 1), cudaErrorStreamCaptureImplicit);
}

TEST_F(OnHostRuntime, CaptureModesBindThreads) {
  using Mode = cudaStreamCaptureMode;
  for (Mode mode : {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal, cudaStreamCaptureModeRelaxed}) {
    cudaError_t here = cudaSuccess, there = cudaSuccess;
    const auto allocate = [](cudaError_t* error) {
      void* y = nullptr;
      *error = cudaMalloc(&y, 4);
    };
    capture([&] { std::thread(allocate, &there).join(); }, mode);
    capture([&] { allocate(&here); }, mode);
    EXPECT_EQ(here, mode == cudaStreamCaptureModeRelaxed ? cudaSuccess : cudaErrorStreamCaptureUnsupported);
    EXPECT_EQ(there, mode == cudaStreamCaptureModeGlobal ? cudaErrorStreamCaptureUnsupported : cudaSuccess);
  }
}

TEST_F(OnHostRuntime, CapturesStayApart) {
  OK(cudaStreamBeginCapture(b, cudaStreamCaptureModeThreadLocal));
  OK(cudaEventRecord(f, b));
  EXPECT_EQ(capture([&] { EXPECT_EQ(cudaStreamWaitEvent(a, f), cudaErrorStreamCaptureMerge); }),
            cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(cudaStreamEndCapture(b, &graph), cudaErrorStreamCaptureInvalidated);
}

}  // namespace
}  // namespace ct::kernels
