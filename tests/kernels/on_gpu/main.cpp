// Runs the kernel tests on a GPU: exit code 77 and one line where there is none, 3 where a test has left the device
// unusable, which no later test of this process could survive.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

namespace {

constexpr int kNoDevice = 77, kUnusable = 3;

class LostDevice : public testing::EmptyTestEventListener {
  void OnTestEnd(const testing::TestInfo& test) override {
    const cudaError_t error = cudaDeviceSynchronize();
    if (error == cudaSuccess) return;
    std::printf("the device is lost after %s.%s: %s\n", test.test_suite_name(), test.name(), cudaGetErrorString(error));
    std::fflush(stdout);
    std::_Exit(kUnusable);
  }
};

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (GTEST_FLAG_GET(list_tests)) return RUN_ALL_TESTS();
  cudaDeviceProp device = {};
  cudaError_t error = cudaGetDeviceProperties(&device, 0);
  if (error != cudaSuccess) {
    std::printf("there is no GPU: %s\n", cudaGetErrorString(error));
    return kNoDevice;
  }
  std::printf("on %s, sm_%d%d\n", device.name, device.major, device.minor);
  testing::UnitTest::GetInstance()->listeners().Append(new LostDevice);
  return RUN_ALL_TESTS();
}
