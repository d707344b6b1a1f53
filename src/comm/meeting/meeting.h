// Ranks find each other over TCP (IPv4): rank 0 listens, the others call it. What they then say is a few words by which
// they set up faster ways.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "comm/detect_launch.h"
#include "comm/meeting/place.h"

namespace ct {

struct MeetingOptions {
  double timeout_s = 600;  // that a rank may be late
  /// What rank 0 tells people of callers that are none of its ranks.
  std::function<void(const std::string&)> notice = {};
  /// Asked now and then: true ends the wait with Error(stopped).
  std::function<bool()> give_up = {};
};

/// The error of a meeting that rank 0 has told this rank of: it is rank 0 that prints it, and one rank of every other
/// host.
class ToldError : public Error {
 public:
  using Error::Error;
};

class Meeting {
 public:
  /// Returns when all ranks of the job have come: those that know its word (MeetingPlace::job), with the same version
  /// of this program and the same WORLD_SIZE. Whoever else calls rank 0 is sent away; a rank of the same job that
  /// cannot be right (there twice, another version) ends the meeting for all. Throws Error(usage) for these, for a port
  /// in use and an address that is not rank 0's; Error(peer) naming ranks that did not come in time.
  Meeting(const Launch& launch, const MeetingPlace& place, const MeetingOptions& options);
  ~Meeting();
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  /// Every rank's text, by rank; the same call on all of them, `while_waiting` several times a millisecond. Throws
  /// Error(peer) naming a rank that has left.
  std::vector<std::string> gather(const std::string& mine, const std::function<void()>& while_waiting = {});
  /// Rank 0's.
  std::string from_rank_0(const std::string& text);

 private:
  class Line;
  struct Caller;
  void receive_all(const MeetingPlace& place);
  void call_rank_0(const MeetingPlace& place);
  void look_for_leavers();
  std::string waited_for() const;
  [[noreturn]] void end_for_all(ExitCode code, const std::string& why);
  void pause(int milliseconds) const;

  int rank_, size_;
  MeetingOptions options_;
  std::vector<std::unique_ptr<Line>> lines_;  // rank 0: by rank; the others: to rank 0
  std::vector<std::string> names_;            // by rank, "rank 2 (pid 71, host b)"; empty: unknown
};

}  // namespace ct
