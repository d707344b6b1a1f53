// Ranks that are processes of one host and share mapped files, independent of their launcher.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "comm/host/shared.h"
#include "comm/host/shared_file.h"

namespace ct {

/// Do all ranks share in-memory files and process numbers? Collective.
bool on_one_host(Bootstrap& ranks);

/// The board of these ranks (comm/host/shared_board.h) in a mapped file that all ranks have opened. Collective. Throws
/// the same Error(memory) on all of them.
SharedFile share_board(Bootstrap& ranks);

class ProcessCommunicator : public SharedCommunicator {
 public:
  /// finish() calls `at_end` when all ranks have called finish().
  ProcessCommunicator(
      SharedFile board, int rank, int size, std::function<void()> at_end = [] {});
  std::string description() const override;
  void finish() override;

 private:
  ProcessCommunicator(std::shared_ptr<SharedFile> board, int rank, int size, std::function<void()> at_end);
  std::vector<std::byte*> share(size_t bytes) override;
  std::vector<SharedFile> files_;
  std::string folder_ = "/dev/shm";  // of the last segment; it determines speed and capacity
  std::function<void()> at_end_;
};

}  // namespace ct
