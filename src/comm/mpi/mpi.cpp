#include "comm/mpi/mpi.h"

#include <mpi.h>
#include <stdlib.h>

#include <array>

#include "base/error.h"
#include "comm/host/processes.h"
#include "comm/messages/message_communicator.h"
#include "comm/mpi/mpi_messages.h"

namespace ct {
namespace {

/// MPI has brought the processes together; from then on they talk through shared memory, until the end.
class MpiProcesses : public ProcessCommunicator {
 public:
  using ProcessCommunicator::ProcessCommunicator;
  void finish() override {
    ProcessCommunicator::finish();
    check_mpi(MPI_Finalize(), "MPI_Finalize");
  }
};

/// Are all ranks on this host? Collective.
bool one_host(int size) {
  MPI_Comm host = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host), "MPI_Comm_split_type");
  int here = 0, least = 0;
  check_mpi(MPI_Comm_size(host, &here), "MPI_Comm_size");
  check_mpi(MPI_Comm_free(&host), "MPI_Comm_free");
  check_mpi(MPI_Allreduce(&here, &least, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD), "MPI_Allreduce");
  return least == size;
}

/// Rank 0 makes the file and tells its name; all open it, or all fail.
SharedFile share_board_file(int rank, int size) {
  std::optional<SharedFile> file;
  std::array<char, 4096> path{};
  if (rank == 0) {
    try {
      file = create_board_file(size);
      file->path().copy(path.data(), path.size() - 1);
    } catch (const Error&) {  // the empty name tells
    }
  }
  check_mpi(MPI_Bcast(path.data(), static_cast<int>(path.size()), MPI_BYTE, 0, MPI_COMM_WORLD), "MPI_Bcast");
  if (rank != 0 && path[0] != '\0') file = SharedFile::open(path.data(), board_bytes(size));
  const int mine = file.has_value();
  int all = 0;
  check_mpi(MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD), "MPI_Allreduce");
  if (all == 0) fail_no_shared_memory(board_bytes(size));
  return *std::move(file);
}

}  // namespace

std::unique_ptr<Communicator> join_mpi(const Launch& launch, MpiTransport transport) {
  check(launch.parallel(), "MPI is for several processes");
  setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);  // its waits would burn the core that a slower rank needs
  int provided = 0;
  check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided), "MPI_Init_thread");
  check_mpi(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  int rank = 0, size = 0;
  check_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &rank), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &size), "MPI_Comm_size");
  if (size != launch.size || rank != launch.rank) {
    MPI_Finalize();
    fail(ExitCode::usage, name(launch.kind), " started ", launch.size, " processes, but ", mpi_library(),
         ", with which this program was built, sees a world of ", size,
         ": start it with that MPI's own mpirun, or with srun --mpi=pmix");
  }
  if (transport == MpiTransport::messages_only || !one_host(size)) {
    if (provided < MPI_THREAD_SERIALIZED) {  // the same on every rank
      MPI_Finalize();
      fail(ExitCode::usage, mpi_library(),
           " was built without support for threads, which messages between hosts need (MPI_THREAD_SERIALIZED): use one "
           "that has it, or start all ranks on one host");
    }
    return make_message_communicator(make_mpi_wire());
  }
  return std::make_unique<MpiProcesses>(share_board_file(rank, size), rank, size);
}

bool built_with_mpi() { return true; }

std::string mpi_library() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  std::string version(text.data(), static_cast<size_t>(length));  // "Open MPI v4.1.4, package: ..."
  return version.substr(0, version.find_first_of(",\n"));
}

}  // namespace ct
