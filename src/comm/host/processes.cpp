#include "comm/host/processes.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/error.h"
#include "base/host.h"

namespace ct {

size_t board_bytes(int ranks) { return SharedBoard::bytes(ranks); }

SharedFile create_board_file(int ranks) {
  const size_t bytes = board_bytes(ranks);
  for (const std::string& folder : shared_file_folders()) {
    if (auto file = SharedFile::create(folder, bytes); file && file->reserve(0, bytes)) return *std::move(file);
  }
  fail_no_shared_memory(bytes);
}

ProcessCommunicator::ProcessCommunicator(SharedFile board_file, int rank, int size)
    : ProcessCommunicator(std::make_shared<SharedFile>(std::move(board_file)), rank, size) {}

ProcessCommunicator::ProcessCommunicator(std::shared_ptr<SharedFile> board_file, int rank, int size)
    : SharedCommunicator(board_file, reinterpret_cast<SharedBoard*>(board_file->data()), rank, size) {
  board_file->remove_name();  // all have it open: the board's first barrier is behind us
}

std::string ProcessCommunicator::description() const {
  return str(size(), size() == 1 ? " process" : " processes", " on host ", host_name(), " (shared memory in ", folder_,
             ")");
}

std::vector<std::byte*> ProcessCommunicator::share(size_t bytes) {
  // Parts begin on pages of their own: each rank takes, and so places near itself, its own part.
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t part = (bytes + page - 1) / page * page, total = part * static_cast<size_t>(size());
  for (const std::string& folder : shared_file_folders()) {
    std::optional<SharedFile> file;
    std::array<char, 4096> path{};  // empty: rank 0 found no room
    if (rank() == 0) {
      file = SharedFile::create(folder, total);
      if (file && file->path().size() < path.size()) file->path().copy(path.data(), path.size() - 1);
    }
    broadcast(std::as_writable_bytes(std::span(path)), 0);
    if (rank() != 0 && path[0] != '\0') file = SharedFile::open(path.data(), total);
    const bool ok = path[0] != '\0' && file && file->reserve(static_cast<size_t>(rank()) * part, part);
    std::vector<char> all_ok(static_cast<size_t>(size()));
    gather_all(std::as_bytes(std::span(&ok, 1)), std::as_writable_bytes(std::span(all_ok)));
    if (file) file->remove_name();
    if (std::find(all_ok.begin(), all_ok.end(), 0) != all_ok.end()) continue;

    madvise(file->data(), total, MADV_POPULATE_WRITE);  // page faults now, not in the first step; where the kernel can
    std::vector<std::byte*> parts;
    for (size_t r = 0; r < static_cast<size_t>(size()); ++r) parts.push_back(file->data() + r * part);
    folder_ = std::string(path.data(), std::string(path.data()).rfind('/'));
    files_.push_back(*std::move(file));
    return parts;
  }
  fail_no_shared_memory(total);
}

}  // namespace ct
