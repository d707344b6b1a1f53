// Ranks as processes of one host that share mapped files. Knows nothing of how they were started.
#pragma once

#include <memory>
#include <string>

#include "comm/host/shared.h"
#include "comm/host/shared_file.h"

namespace ct {

/// The file of the board of `ranks` processes, made by one of them and opened by the others (size: board_bytes).
/// Throws ExitCode::memory.
SharedFile create_board_file(int ranks);
size_t board_bytes(int ranks);

class ProcessCommunicator : public SharedCommunicator {
 public:
  ProcessCommunicator(SharedFile board_file, int rank, int size);
  std::string description() const override;

 private:
  ProcessCommunicator(std::shared_ptr<SharedFile> board_file, int rank, int size);
  std::vector<std::byte*> share(size_t bytes) override;
  std::vector<SharedFile> files_;
  std::string folder_ = "/dev/shm";  // of the last segment: it says how fast and how large they are
};

}  // namespace ct
