// Messages between ranks, whatever library carries them: what the collectives of ranks on several hosts are made of.
// Two threads may use a wire at once, one on each plane; it takes care of its library's own rules about threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "comm/communicator.h"

namespace ct {

/// Bytes of some buffer.
struct ByteRun {
  int64_t at = 0, bytes = 0;
};

/// Runs that travel together, as the wire wants them: made once, used every step. Sender and receiver of a message have
/// runs of the same lengths, in the same order.
class MessageShape {
 public:
  virtual ~MessageShape() = default;
};

/// Messages under way. What is begun goes on until done() says so; a batch that is dropped before leaves it alone, and
/// its buffers may still be written to: the process is about to end then.
class MessageBatch {
 public:
  virtual ~MessageBatch() = default;
  virtual void send(const void* buffer, const MessageShape& shape, int to) = 0;
  virtual void receive(void* buffer, const MessageShape& shape, int from) = 0;
  /// Of control calls, which all ranks make in the same order: see Communicator.
  virtual void gather_all(std::span<const std::byte> mine, std::span<std::byte> all) = 0;
  virtual void broadcast(std::span<std::byte> data, int root) = 0;
  virtual void barrier() = 0;
  /// Sums in place, in the wire's own order: only where MessageWire::adds().
  virtual void add(std::span<float> data) = 0;
  /// Moves what is under way. Once it is true all is done, and the batch may be used again. Throws Error(peer) where a
  /// message has failed.
  virtual bool done() = 0;
};

class MessageWire {
 public:
  /// Messages of one plane keep their order between two ranks, and do not wait for those of the other.
  enum class Plane : uint8_t { data, control };

  virtual ~MessageWire() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// "4 processes (MPI messages)"
  virtual std::string description() const = 0;
  /// None where there are no bytes. Shapes may outlive finish(), not the wire.
  virtual std::unique_ptr<MessageShape> shape(std::span<const ByteRun> runs) = 0;
  virtual std::unique_ptr<MessageBatch> batch(Plane plane) = 0;
  virtual bool adds() const { return false; }
  /// The orderly end, when all ranks have come so far.
  virtual void finish() = 0;
};

/// The collectives of ranks on several hosts, with the bits of every other transport. Collective over the wire's ranks.
std::unique_ptr<Communicator> make_message_communicator(std::unique_ptr<MessageWire> wire);

}  // namespace ct
