#include "comm/meeting/join.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>

#include "base/host.h"
#include "comm/host/processes.h"
#include "comm/messages/message_communicator.h"
#include "comm/ucx/ucx.h"

namespace ct {
namespace {

/// Of processes that see each other's files in memory and numbers: a name alone may be that of two containers.
std::string host_identity() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  std::getline(file, boot);
  std::error_code error;
  return str(host_name(), "\n", boot, "\n", std::filesystem::read_symlink("/proc/self/ns/pid", error).string());
}

bool all_equal(const std::vector<std::string>& texts) {
  return std::ranges::all_of(texts, [&](const std::string& text) { return text == texts[0]; });
}

/// Rank 0 makes the file and tells its name; all open it, or all fail.
SharedFile share_board_file(Meeting& meeting) {
  std::optional<SharedFile> file;
  std::string path;
  if (meeting.rank() == 0) {
    try {
      file = create_board_file(meeting.size());
      path = file->path();
    } catch (const Error&) {  // the empty name tells
    }
  }
  path = meeting.from_rank_0(path);
  const size_t bytes = board_bytes(meeting.size());
  if (meeting.rank() != 0 && !path.empty()) file = SharedFile::open(path, bytes);
  const auto opened = meeting.gather(file ? "yes" : "no");
  if (!all_equal(opened) || !file) fail_no_shared_memory(bytes);
  return *std::move(file);
}

}  // namespace

std::unique_ptr<Communicator> join_ranks(Meeting& meeting, MeetTransport transport) {
  const bool one_host = all_equal(meeting.gather(host_identity()));
  if (one_host && transport == MeetTransport::automatic)
    return std::make_unique<ProcessCommunicator>(share_board_file(meeting), meeting.rank(), meeting.size());
  return make_message_communicator(make_ucx_wire(meeting));
}

}  // namespace ct
