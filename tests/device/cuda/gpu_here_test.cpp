#include "device/cuda/gpu_here.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/temporary_folder.h"

namespace ct::cuda {
namespace {

namespace fs = std::filesystem;

class GpuHere : public ::testing::Test {
 protected:
  void write(const fs::path& name, const std::string& text = "") {
    fs::create_directories((root() / name).parent_path());
    std::ofstream(root() / name) << text;
  }
  void put_on_bus(const std::string& vendor, const std::string& kind) {
    write("sys/bus/pci/devices/0000:01:00.0/vendor", vendor + "\n");
    write("sys/bus/pci/devices/0000:01:00.0/class", kind + "\n");
  }
  fs::path root() const { return folder_.path(); }

 private:
  TemporaryFolder folder_;
};

TEST_F(GpuHere, NotWhereNothingIs) { EXPECT_FALSE(gpu_here(root())); }
TEST_F(GpuHere, ByItsDeviceFile) {
  write("dev/nvidiactl");
  write("dev/nvidia-uvm");
  EXPECT_FALSE(gpu_here(root()));
  write("dev/nvidia3");
  EXPECT_TRUE(gpu_here(root()));
}
TEST_F(GpuHere, InWsl) {
  write("dev/dxg");  // of any maker
  EXPECT_FALSE(gpu_here(root()));
  write("usr/lib/wsl/lib/libcuda.so.1");
  EXPECT_TRUE(gpu_here(root()));
}
TEST_F(GpuHere, OnTheBus) {
  put_on_bus("0x8086", "0x030000");  // of another maker
  EXPECT_FALSE(gpu_here(root()));
  put_on_bus("0x10de", "0x040300");  // its sound
  EXPECT_FALSE(gpu_here(root()));
  put_on_bus("0x10de", "0x030200");
  EXPECT_TRUE(gpu_here(root()));
}

}  // namespace
}  // namespace ct::cuda
