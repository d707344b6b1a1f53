#include "comm/mpi_messages.h"

#include <mpi.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <climits>
#include <cstring>
#include <new>
#include <thread>

#include "base/error.h"
#include "comm/tree_sum.h"

namespace ct {

void check_mpi(int result, const char* call) {
  if (result == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(result, text.data(), &length);
  fail(ExitCode::peer, call, " failed (", std::string(text.data(), static_cast<size_t>(length)),
       "): a rank was lost, or the network is down; see the launcher's messages");
}

namespace {

/// MPI counts in ints: longer messages go in pieces.
constexpr size_t kPieceBytes = size_t{1} << 30;

/// Messages under way. MPI waits by burning the core; here it is offered to others, and left alone in long waits.
class Pending {
 public:
  void send(const void* data, size_t bytes, int to) {
    for_pieces(bytes, [&](size_t at, int length) {
      check_mpi(MPI_Isend(static_cast<const std::byte*>(data) + at, length, MPI_BYTE, to, 0, MPI_COMM_WORLD, next()),
                "MPI_Isend");
    });
  }
  void receive(void* data, size_t bytes, int from) {
    for_pieces(bytes, [&](size_t at, int length) {
      check_mpi(MPI_Irecv(static_cast<std::byte*>(data) + at, length, MPI_BYTE, from, 0, MPI_COMM_WORLD, next()),
                "MPI_Irecv");
    });
  }
  MPI_Request* next() { return &requests_.emplace_back(MPI_REQUEST_NULL); }

  void wait() {
    using Clock = std::chrono::steady_clock;
    const auto begin = Clock::now();
    for (;;) {
      int done = 0;
      check_mpi(MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &done, MPI_STATUSES_IGNORE),
                "MPI_Testall");
      if (done != 0) break;
      const auto waited = Clock::now() - begin;
      if (waited < std::chrono::milliseconds(2)) {
        std::this_thread::yield();
      } else {
        std::this_thread::sleep_for(std::min<Clock::duration>(std::chrono::milliseconds(1), waited / 16));
      }
    }
    requests_.clear();
  }

 private:
  template <class Do>
  static void for_pieces(size_t bytes, Do act) {
    for (size_t at = 0; at < bytes; at += kPieceBytes) act(at, static_cast<int>(std::min(kPieceBytes, bytes - at)));
  }
  std::vector<MPI_Request> requests_;
};

struct World {
  int rank, size;
};

/// Every rank gets slice r of all ranks' data, sums it as the canonical tree says; the own slice is read in place.
class Scatter {
 public:
  Scatter(World world, std::span<float> data, ShardBounds bounds)
      : world_(world), data_(data), bounds_(std::move(bounds)), leaves_(static_cast<size_t>(world.size)) {
    const auto mine = static_cast<size_t>(world.rank);
    length_ = bounds_[mine + 1] - bounds_[mine];
    received_.resize(static_cast<size_t>(length_ * (world.size - 1)));
    for (int r = 0, slot = 0; r < world.size; ++r) {
      leaves_[static_cast<size_t>(r)] =
          r == world.rank ? data.data() + bounds_[mine] : received_.data() + length_ * slot++;
    }
  }

  std::span<const float* const> exchange() {
    for (int i = 1; i < world_.size; ++i) {
      const int from = (world_.rank + world_.size - i) % world_.size, to = (world_.rank + i) % world_.size;
      const int64_t begin = bounds_[static_cast<size_t>(to)], end = bounds_[static_cast<size_t>(to) + 1];
      pending_.receive(const_cast<float*>(leaves_[static_cast<size_t>(from)]), bytes(length_), from);
      pending_.send(data_.data() + begin, bytes(end - begin), to);
    }
    pending_.wait();
    return leaves_;
  }

  void gather() {
    const auto mine = static_cast<size_t>(world_.rank);
    for (int i = 1; i < world_.size; ++i) {
      const int from = (world_.rank + world_.size - i) % world_.size, to = (world_.rank + i) % world_.size;
      const int64_t begin = bounds_[static_cast<size_t>(from)], end = bounds_[static_cast<size_t>(from) + 1];
      pending_.receive(data_.data() + begin, bytes(end - begin), from);
      pending_.send(data_.data() + bounds_[mine], bytes(length_), to);
    }
    pending_.wait();
  }

  float* mine() { return data_.data() + bounds_[static_cast<size_t>(world_.rank)]; }
  int64_t length() const { return length_; }

 private:
  static size_t bytes(int64_t floats) { return static_cast<size_t>(floats) * sizeof(float); }

  World world_;
  std::span<float> data_;
  ShardBounds bounds_;
  int64_t length_;
  std::vector<float> received_;
  std::vector<const float*> leaves_;
  Pending pending_;
};

ShardBounds even_bounds(int ranks, size_t numel) {
  ShardBounds bounds;
  for (int64_t r = 0; r <= ranks; ++r) bounds.push_back(static_cast<int64_t>(numel) * r / ranks);
  return bounds;
}

class AllReduceMessages : public Collective {
 public:
  AllReduceMessages(World world, std::span<float> data)
      : scatter_(world, data, even_bounds(world.size, data.size())), tree_(scatter_.length(), world.size) {}
  void launch() override {
    tree_.finish(scatter_.exchange(), scatter_.mine());
    scatter_.gather();
  }

 private:
  Scatter scatter_;
  TreeSum tree_;
};

class ReduceScatterMessages : public Collective {
 public:
  ReduceScatterMessages(Scatter scatter, TreeSum& tree, float* sum)
      : scatter_(std::move(scatter)), tree_(tree), sum_(sum) {}
  void launch() override {
    const auto leaves = scatter_.exchange();
    sum_ != nullptr ? tree_.finish(leaves, sum_) : tree_.push(leaves);
  }

 private:
  Scatter scatter_;
  TreeSum& tree_;
  float* sum_;
};

class AllGatherMessages : public Collective {
 public:
  explicit AllGatherMessages(Scatter scatter) : scatter_(std::move(scatter)) {}
  void launch() override { scatter_.gather(); }

 private:
  Scatter scatter_;
};

class MpiMessages : public Communicator {
 public:
  MpiMessages() {
    check_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &world_.rank), "MPI_Comm_rank");
    check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &world_.size), "MPI_Comm_size");
  }
  int rank() const override { return world_.rank; }
  int size() const override { return world_.size; }
  std::string description() const override { return str(world_.size, " processes (MPI messages)"); }

  std::byte* allocate(size_t bytes) override {
    blocks_.emplace_back(new (kAlignment) std::byte[bytes]{});
    return blocks_.back().get();
  }
  std::unique_ptr<Collective> all_reduce(std::span<float> data) override {
    return std::make_unique<AllReduceMessages>(world_, data);
  }
  std::unique_ptr<Collective> reduce_scatter(std::span<float> data, ShardBounds bounds, TreeSum& mine,
                                             float* sum) override {
    check_bounds(bounds, world_.size, data.size());
    Scatter scatter(world_, data, std::move(bounds));
    check(mine.numel() == scatter.length(), "a tree of another length than the shard");
    return std::make_unique<ReduceScatterMessages>(std::move(scatter), mine, sum);
  }
  std::unique_ptr<Collective> all_gather(std::span<float> data, ShardBounds bounds) override {
    check_bounds(bounds, world_.size, data.size());
    return std::make_unique<AllGatherMessages>(Scatter(world_, data, std::move(bounds)));
  }

  void gather_all(std::span<const std::byte> mine, std::span<std::byte> all) override {
    check(all.size() == mine.size() * static_cast<size_t>(world_.size) && mine.size() <= kPieceBytes, "gather_all of ",
          mine.size(), " bytes into ", all.size());
    const int bytes = static_cast<int>(mine.size());
    Pending pending;
    check_mpi(MPI_Iallgather(mine.data(), bytes, MPI_BYTE, all.data(), bytes, MPI_BYTE, MPI_COMM_WORLD, pending.next()),
              "MPI_Iallgather");
    pending.wait();
  }
  void broadcast(std::span<std::byte> data, int root) override {
    check(data.size() <= kPieceBytes, "broadcast of ", data.size(), " bytes");
    Pending pending;
    check_mpi(MPI_Ibcast(data.data(), static_cast<int>(data.size()), MPI_BYTE, root, MPI_COMM_WORLD, pending.next()),
              "MPI_Ibcast");
    pending.wait();
  }
  void barrier() override {
    Pending pending;
    check_mpi(MPI_Ibarrier(MPI_COMM_WORLD, pending.next()), "MPI_Ibarrier");
    pending.wait();
  }
  // Other hosts learn of it from the launcher, which ends the job as soon as this process has exited.
  bool abort(int) noexcept override { return !aborted_.exchange(true); }
  bool aborted() const noexcept override { return aborted_; }
  void finish() override {
    barrier();
    check_mpi(MPI_Finalize(), "MPI_Finalize");
  }

 private:
  static constexpr std::align_val_t kAlignment{64};
  struct Free {
    void operator()(std::byte* p) const { operator delete[](p, kAlignment); }
  };
  World world_{};
  std::atomic<bool> aborted_{false};
  std::vector<std::unique_ptr<std::byte[], Free>> blocks_;
};

}  // namespace

std::unique_ptr<Communicator> make_mpi_messages() { return std::make_unique<MpiMessages>(); }

}  // namespace ct
