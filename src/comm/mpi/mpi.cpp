#include "comm/mpi/mpi.h"

#include <mpi.h>
#include <stdlib.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <numeric>
#include <vector>

#include "base/error.h"

namespace ct {
namespace {

/// Throws Error(peer) with MPI's own words unless the call succeeded.
void check_mpi(int result, const char* call) {
  if (result == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(result, text.data(), &length);
  fail(ExitCode::peer, call, " failed (", std::string(text.data(), static_cast<size_t>(length)),
       "): a rank was lost, or the network is down; see the launcher's messages");
}

/// Two threads may call MPI, one at a time: prepared collectives on one communicator, the control plane on the other,
/// so that neither depends on the other's order.
struct World {
  std::mutex calls;
  MPI_Comm data = MPI_COMM_WORLD, control = MPI_COMM_WORLD;
};

/// One datatype for all runs: MPI takes them as one message.
class MpiShape : public MessageShape {
 public:
  MpiShape(std::span<const ByteRun> runs, World& world) : world_(world) {
    constexpr int64_t kLongest = int64_t{1} << 30;  // MPI counts in ints
    std::vector<int> lengths;
    std::vector<MPI_Aint> begins;
    for (const ByteRun& run : joined(runs)) {
      for (int64_t at = 0; at < run.bytes; at += kLongest) {
        lengths.push_back(static_cast<int>(std::min(kLongest, run.bytes - at)));
        begins.push_back(run.at + at);
      }
    }
    const std::lock_guard lock(world_.calls);
    check_mpi(
        MPI_Type_create_hindexed(static_cast<int>(lengths.size()), lengths.data(), begins.data(), MPI_BYTE, &type_),
        "MPI_Type_create_hindexed");
    check_mpi(MPI_Type_commit(&type_), "MPI_Type_commit");
  }
  MpiShape(const MpiShape&) = delete;
  MpiShape& operator=(const MpiShape&) = delete;
  ~MpiShape() override {
    const std::lock_guard lock(world_.calls);
    int over = 0;  // a collective may be let go after finish()
    if (type_ != MPI_DATATYPE_NULL && MPI_Finalized(&over) == MPI_SUCCESS && over == 0) MPI_Type_free(&type_);
  }
  MPI_Datatype type() const { return type_; }

 private:
  /// Neighbours as one.
  static std::vector<ByteRun> joined(std::span<const ByteRun> runs) {
    std::vector<ByteRun> result;
    for (const ByteRun& run : runs) {
      if (!result.empty() && result.back().at + result.back().bytes == run.at)
        result.back().bytes += run.bytes;
      else
        result.push_back(run);
    }
    return result;
  }

  World& world_;
  MPI_Datatype type_ = MPI_DATATYPE_NULL;
};

class MpiBatch : public MessageBatch {
 public:
  MpiBatch(World& world, MPI_Comm comm) : world_(world), comm_(comm) {}
  void send(const void* buffer, const MessageShape& shape, int to) override {
    begin("MPI_Isend", [&](MPI_Request* r) { return MPI_Isend(buffer, 1, type_of(shape), to, 0, comm_, r); });
  }
  void receive(void* buffer, const MessageShape& shape, int from) override {
    begin("MPI_Irecv", [&](MPI_Request* r) { return MPI_Irecv(buffer, 1, type_of(shape), from, 0, comm_, r); });
  }
  void gather_all(std::span<const std::byte> mine, std::span<std::byte> all) override {
    const int bytes = static_cast<int>(mine.size());
    begin("MPI_Iallgather", [&](MPI_Request* r) {
      return MPI_Iallgather(mine.data(), bytes, MPI_BYTE, all.data(), bytes, MPI_BYTE, comm_, r);
    });
  }
  void broadcast(std::span<std::byte> data, int root) override {
    const int bytes = static_cast<int>(data.size());
    begin("MPI_Ibcast", [&](MPI_Request* r) { return MPI_Ibcast(data.data(), bytes, MPI_BYTE, root, comm_, r); });
  }
  void barrier() override {
    begin("MPI_Ibarrier", [&](MPI_Request* r) { return MPI_Ibarrier(comm_, r); });
  }
  void add(std::span<float> data) override {
    constexpr size_t kMost = size_t{1} << 28;  // MPI counts in ints
    for (size_t at = 0; at < data.size(); at += kMost) {
      const int count = static_cast<int>(std::min(kMost, data.size() - at));
      begin("MPI_Iallreduce", [&](MPI_Request* r) {
        return MPI_Iallreduce(MPI_IN_PLACE, data.data() + at, count, MPI_FLOAT, MPI_SUM, comm_, r);
      });
    }
  }
  bool done() override {
    const std::lock_guard lock(world_.calls);
    int done = 0;
    check_mpi(MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &done, MPI_STATUSES_IGNORE),
              "MPI_Testall");
    if (done != 0) requests_.clear();
    return done != 0;
  }

 private:
  static MPI_Datatype type_of(const MessageShape& shape) { return static_cast<const MpiShape&>(shape).type(); }
  template <class Call>
  void begin(const char* name, Call call) {
    const std::lock_guard lock(world_.calls);
    check_mpi(call(&requests_.emplace_back(MPI_REQUEST_NULL)), name);
  }

  World& world_;
  MPI_Comm comm_;
  std::vector<MPI_Request> requests_;
};

class MpiWire : public MessageWire {
 public:
  MpiWire(int rank, int size) : rank_(rank), size_(size) {
    check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &world_.control), "MPI_Comm_dup");
  }
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string description() const override { return str(size_, " processes (MPI messages)"); }
  std::unique_ptr<MessageShape> shape(std::span<const ByteRun> runs) override {
    const bool empty = std::ranges::all_of(runs, [](const ByteRun& run) { return run.bytes == 0; });
    return empty ? nullptr : std::make_unique<MpiShape>(runs, world_);
  }
  std::unique_ptr<MessageBatch> batch(Plane plane) override {
    return std::make_unique<MpiBatch>(world_, plane == Plane::data ? world_.data : world_.control);
  }
  bool adds() const override { return true; }
  void finish() override { check_mpi(MPI_Finalize(), "MPI_Finalize"); }

 private:
  World world_;
  int rank_, size_;
};

class MpiBootstrap : public Bootstrap {
 public:
  MpiBootstrap() {
    check_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &rank_), "MPI_Comm_rank");
    check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &size_), "MPI_Comm_size");
  }
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::vector<std::string> gather(std::string_view mine) override {
    const int length = static_cast<int>(mine.size());
    std::vector<int> lengths(static_cast<size_t>(size_)), begins(lengths.size());
    check_mpi(MPI_Allgather(&length, 1, MPI_INT, lengths.data(), 1, MPI_INT, MPI_COMM_WORLD), "MPI_Allgather");
    std::exclusive_scan(lengths.begin(), lengths.end(), begins.begin(), 0);
    std::string all(static_cast<size_t>(begins.back() + lengths.back()), '\0');
    check_mpi(MPI_Allgatherv(mine.data(), length, MPI_BYTE, all.data(), lengths.data(), begins.data(), MPI_BYTE,
                             MPI_COMM_WORLD),
              "MPI_Allgatherv");
    std::vector<std::string> result;
    for (size_t r = 0; r < lengths.size(); ++r)
      result.push_back(all.substr(static_cast<size_t>(begins[r]), static_cast<size_t>(lengths[r])));
    return result;
  }

 private:
  int rank_ = 0, size_ = 0;
};

}  // namespace

std::unique_ptr<Communicator> join_mpi(const Launch& launch, Transport transport) {
  check(launch.parallel(), "MPI is for several processes");
  setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);  // its waits would burn the core that a slower rank needs
  int provided = 0;
  check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided), "MPI_Init_thread");
  check_mpi(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  MpiBootstrap ranks;
  if (ranks.size() != launch.size || ranks.rank() != launch.rank) {
    MPI_Finalize();
    fail(ExitCode::usage, name(launch.kind), " started ", launch.size, " processes, but ", mpi_library(),
         ", with which this program was built, sees a world of ", ranks.size(),
         ": start it with that MPI's own mpirun, or with srun --mpi=pmix");
  }
  const auto make_wire = [&] {
    if (provided < MPI_THREAD_SERIALIZED) {  // the same on every rank
      MPI_Finalize();
      fail(ExitCode::usage, mpi_library(),
           " was built without support for threads, which messages between hosts need (MPI_THREAD_SERIALIZED): use one "
           "that has it, or start all ranks on one host");
    }
    return std::make_unique<MpiWire>(ranks.rank(), ranks.size());
  };
  return join_ranks(ranks, transport, {make_wire, [] { check_mpi(MPI_Finalize(), "MPI_Finalize"); }});
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
