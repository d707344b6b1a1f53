// Ranks as processes of one host that share mapped files. Knows nothing of how they were started.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "comm/host/shared.h"
#include "comm/host/shared_file.h"

namespace ct {

/// Do all ranks see the same files in memory, and each other's processes by the same numbers? Collective.
bool on_one_host(Bootstrap& ranks);

/// The board of these ranks (comm/host/shared_board.h) in a mapped file that all of them have open. Collective. Throws
/// the same Error(memory) on all of them.
SharedFile share_board(Bootstrap& ranks);

class ProcessCommunicator : public SharedCommunicator {
 public:
  /// `at_end` is called by finish(), when all ranks have come so far.
  ProcessCommunicator(
      SharedFile board, int rank, int size, std::function<void()> at_end = [] {});
  std::string description() const override;
  void finish() override;

 private:
  ProcessCommunicator(std::shared_ptr<SharedFile> board, int rank, int size, std::function<void()> at_end);
  std::vector<std::byte*> share(size_t bytes) override;
  std::vector<SharedFile> files_;
  std::string folder_ = "/dev/shm";  // of the last segment: it says how fast and how large they are
  std::function<void()> at_end_;
};

}  // namespace ct
