#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/error.h"
#include "base/utf8.h"
#include "comm/all_ranks.h"
#include "comm/rendezvous/rendezvous.h"
#include "comm/watchdog/watchdog_wire.h"

namespace ct {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

// What travels. Plain data: all ranks run the same program on the same kind of machine.

struct Verdict {
  int32_t rank = -1, exit_code = 0;  // who claimed first; -1: all is well
};
struct Report {
  Signs signs;
  int32_t claim = -1;  // an exit code
  int32_t heard = 0;   // 1: it knows the verdict
};
struct Place {
  int64_t pid = 0;
  std::array<char, 64> host{};
};

class StarWire : public WatchdogWire {
 public:
  StarWire(Communicator& comm, int wake)
      : comm_(comm),
        heartbeat_(comm.heartbeat()),
        rank_(comm.rank()),
        size_(comm.size()),
        wake_(wake),
        signs_(slots()),
        view_(slots()),
        places_(slots()),
        heard_(slots()) {
    Place mine{.pid = getpid()};
    gethostname(mine.host.data(), mine.host.size() - 1);
    comm.gather_all(bytes_of(mine), std::as_writable_bytes(std::span(places_)));
    links_ = make_star(comm, kPatience).to;
  }

  void exchange(std::chrono::milliseconds time) override {
    if (Clock::now() >= next_beat_ || urgent_) beat();
    std::vector<pollfd> events{{wake_, POLLIN, 0}};
    for (const Connection& link : links_) {
      if (link.open()) events.push_back({link.fd(), static_cast<short>(POLLIN | (link.sending() ? POLLOUT : 0)), 0});
    }
    const auto until_beat = std::chrono::ceil<std::chrono::milliseconds>(next_beat_ - Clock::now());
    poll(events.data(), events.size(), static_cast<int>(std::clamp(until_beat, 0ms, time).count()));
    for (size_t r = 0; r < links_.size(); ++r) {
      links_[r].flush();
      hear(r);
    }
    look_around();
    if (urgent_) beat();
  }

  std::span<const Signs> signs() const override { return view_; }
  RankPlace place(int rank) const override {
    const Place& place = places_[static_cast<size_t>(rank)];
    return {place.pid, printable({place.host.data(), strnlen(place.host.data(), place.host.size())})};
  }
  std::optional<int> failure() const override {
    return verdict_.rank >= 0 ? std::optional(verdict_.exit_code) : std::nullopt;
  }

  bool claim(int exit_code) override {
    claim_ = exit_code;
    if (is_hub()) {
      judge(rank_, exit_code);
    } else {
      urgent_ = true;
      for (const auto end = Clock::now() + 400ms; verdict_.rank < 0 && links_[0].open() && Clock::now() < end;) {
        exchange(20ms);
      }
      if (verdict_.rank < 0) {  // rank 0 is lost: of its loss the lowest of those that are left speaks
        verdict_ = {is_lowest() || exit_code != static_cast<int>(ExitCode::peer) ? rank_ : 0, exit_code};
      }
    }
    return verdict_.rank == rank_;
  }

  void release(int exit_code) override { comm_.abort(exit_code); }

  void close() override {
    heartbeat_.ended.store(verdict_.rank < 0, std::memory_order_relaxed);
    // Nobody closes a connection with something unread in it: that would destroy what is on its way to the other end.
    const auto all = [&](auto holds) {
      for (size_t r = 0; r < links_.size(); ++r) {
        if (links_[r].open() && !holds(r)) return false;
      }
      return true;
    };
    beat();
    if (!is_hub()) links_[0].finish();
    const bool failed = verdict_.rank >= 0;
    for (const auto end = Clock::now() + (failed ? 300ms : 2000ms); Clock::now() < end;) {
      if (all([&](size_t r) { return failed && is_hub() && heard_[r] != 0; })) break;
      exchange(20ms);
    }
  }

 private:
  static constexpr double kPatience = 20;  // seconds for all to connect

  size_t slots() const { return static_cast<size_t>(size_); }
  bool is_hub() const { return rank_ == 0; }
  Signs& mine() { return signs_[static_cast<size_t>(rank_)]; }

  bool is_lowest() const {
    return std::all_of(signs_.begin() + 1, signs_.begin() + rank_, [](const Signs& s) { return s.gone || s.ended; });
  }

  void judge(int rank, int exit_code) {
    if (verdict_.rank >= 0) return;
    verdict_ = {rank, exit_code};
    urgent_ = true;
  }

  void beat() {
    urgent_ = false;
    next_beat_ = Clock::now() + kBeat;
    heartbeat_.beats.fetch_add(1, std::memory_order_relaxed);
    mine() = signs_of(heartbeat_);
    if (is_hub()) {
      std::vector<std::byte> board(sizeof(Verdict) + slots() * sizeof(Signs));
      std::memcpy(board.data(), &verdict_, sizeof verdict_);
      std::memcpy(board.data() + sizeof verdict_, signs_.data(), slots() * sizeof(Signs));
      for (Connection& link : links_) link.send_latest(board);
    } else {
      links_[0].send_latest(bytes_of(Report{.signs = mine(), .claim = claim_, .heard = verdict_.rank >= 0}));
    }
  }

  /// What the link's other end has said: a peer to rank 0, or rank 0 to a peer.
  void hear(size_t r) {
    Connection& link = links_[r];
    if (!link.open()) return;
    link.receive();
    if (is_hub()) {
      for (Report report; link.next(room_of(report));) {
        signs_[r] = report.signs;
        heard_[r] = report.heard != 0;
        if (report.claim >= 0) judge(static_cast<int>(r), static_cast<int>(exit_code_of_peer(report.claim)));
      }
    } else {
      std::vector<std::byte> board(sizeof(Verdict) + slots() * sizeof(Signs));
      while (link.next(board)) {
        const bool knew = verdict_.rank >= 0;
        if (!knew) std::memcpy(&verdict_, board.data(), sizeof verdict_);
        if (!knew && verdict_.rank >= 0) {
          verdict_.exit_code = static_cast<int>(exit_code_of_peer(verdict_.exit_code));
          urgent_ = true;  // rank 0 waits to know that we know
        }
        std::memcpy(signs_.data(), board.data() + sizeof verdict_, slots() * sizeof(Signs));
      }
    }
    if (!link.open()) signs_[r].gone = 1;
  }

  void look_around() {
    view_ = signs_;
    if (is_hub()) return;
    for (int r = 1; r < size_; ++r) view_[static_cast<size_t>(r)].ended = 1;  // rank 0 judges them
    view_[0].progress = view_[0].beats;                                       // and progress
  }

  Communicator& comm_;
  Heartbeat& heartbeat_;
  int rank_, size_, wake_;
  std::vector<Connection> links_;    // rank 0: by rank; the others: to rank 0
  std::vector<Signs> signs_, view_;  // as heard; as this rank may judge
  std::vector<Place> places_;
  std::vector<uint8_t> heard_;
  Verdict verdict_;
  int claim_ = -1;
  bool urgent_ = false;
  Clock::time_point next_beat_{};
};

}  // namespace

std::unique_ptr<WatchdogWire> make_star_wire(Communicator& comm, int wake) {
  return std::make_unique<StarWire>(comm, wake);
}

}  // namespace ct
