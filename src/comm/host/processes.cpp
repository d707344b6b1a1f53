#include "comm/host/processes.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <utility>

#include "base/error.h"
#include "base/host.h"
#include "comm/all_ranks.h"

namespace ct {
namespace {

bool all_are(const std::vector<std::string>& texts, const std::string& text) {
  return std::ranges::all_of(texts, [&](const std::string& other) { return other == text; });
}

/// A mapped file of `bytes` zeros that all ranks have open and nobody else can open; this rank takes the space of
/// `own` of its bytes.
SharedFile share_file(Bootstrap& ranks, size_t bytes, size_t own_begin, size_t own) {
  for (const std::string& folder : shared_file_folders()) {
    std::optional<SharedFile> file;
    if (ranks.rank() == 0) file = SharedFile::create(folder, bytes);
    const std::string path = from_rank_0(ranks, file ? file->path() : "");
    if (ranks.rank() != 0 && !path.empty()) file = SharedFile::open(path, bytes);
    const bool ok = file && (own == 0 || file->reserve(own_begin, own));
    const bool all_ok = all_are(ranks.gather(ok ? "" : "no"), "");
    if (file) file->remove_name();
    if (all_ok) return *std::move(file);
  }
  fail_no_shared_memory(bytes);
}

/// A name alone may be that of two containers.
std::string host_identity() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  std::getline(file, boot);
  std::error_code error;
  return str(host_name(), "\n", boot, "\n", std::filesystem::read_symlink("/proc/self/ns/pid", error).string());
}

}  // namespace

bool on_one_host(Bootstrap& ranks) {
  const std::vector<std::string> hosts = ranks.gather(host_identity());
  return all_are(hosts, hosts[0]);
}

SharedFile share_board(Bootstrap& ranks) {
  const size_t bytes = SharedBoard::bytes(ranks.size());
  return share_file(ranks, bytes, 0, ranks.rank() == 0 ? bytes : 0);
}

ProcessCommunicator::ProcessCommunicator(SharedFile board, int rank, int size, std::function<void()> at_end)
    : ProcessCommunicator(std::make_shared<SharedFile>(std::move(board)), rank, size, std::move(at_end)) {}

ProcessCommunicator::ProcessCommunicator(std::shared_ptr<SharedFile> board, int rank, int size,
                                         std::function<void()> at_end)
    : SharedCommunicator(board, reinterpret_cast<SharedBoard*>(board->data()), rank, size),
      at_end_(std::move(at_end)) {}

std::string ProcessCommunicator::description() const {
  return str(size(), size() == 1 ? " process" : " processes", " on host ", host_name(), " (shared memory in ", folder_,
             ")");
}

void ProcessCommunicator::finish() {
  SharedCommunicator::finish();
  at_end_();
}

std::vector<std::byte*> ProcessCommunicator::share(size_t bytes) {
  // Parts begin on pages of their own: each rank takes, and so places near itself, its own part.
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t part = (bytes + page - 1) / page * page, total = part * static_cast<size_t>(size());
  SharedFile file = share_file(*this, total, static_cast<size_t>(rank()) * part, part);
  madvise(file.data(), total, MADV_POPULATE_WRITE);  // page faults now, not in the first step; where the kernel can
  std::vector<std::byte*> parts;
  for (size_t r = 0; r < static_cast<size_t>(size()); ++r) parts.push_back(file.data() + r * part);
  folder_ = file.path().substr(0, file.path().rfind('/'));
  files_.push_back(std::move(file));
  return parts;
}

}  // namespace ct
