// Messages between ranks over any library: the basis of the collectives between hosts. Two threads may use a wire
// concurrently, one on each plane; the wire handles the thread rules of its library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "comm/communicator.h"

namespace ct {

/// A range of bytes in a buffer.
struct ByteRun {
  int64_t at = 0, bytes = 0;
};

/// The runs of one message in the wire's own form, created once and used every step. Sender and receiver of a message
/// have runs of the same lengths, in the same order.
class MessageShape {
 public:
  virtual ~MessageShape() = default;
};

/// Messages in flight. They continue until done() returns true. A batch that is destroyed earlier does not cancel them,
/// so its buffers may still be written; this happens only when the process is about to end.
class MessageBatch {
 public:
  virtual ~MessageBatch() = default;
  virtual void send(const void* buffer, const MessageShape& shape, int to) = 0;
  virtual void receive(void* buffer, const MessageShape& shape, int from) = 0;
  /// For control calls, which all ranks make in the same order: see Communicator.
  virtual void gather_all(std::span<const std::byte> mine, std::span<std::byte> all) = 0;
  virtual void broadcast(std::span<std::byte> data, int root) = 0;
  virtual void barrier() = 0;
  /// Sums in place, in the wire's own order; only if MessageWire::adds().
  virtual void add(std::span<float> data) = 0;
  /// Progresses the messages. Returns true once all are complete; the batch can then be reused. Throws Error(peer) if a
  /// message has failed.
  virtual bool done() = 0;
};

class MessageWire {
 public:
  /// Between two ranks, messages of one plane keep their order, and do not wait for messages of the other plane.
  enum class Plane : uint8_t { data, control };

  virtual ~MessageWire() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// "4 processes (MPI messages)"
  virtual std::string description() const = 0;
  /// Null if there are no bytes. Shapes may outlive finish(), but not the wire.
  virtual std::unique_ptr<MessageShape> shape(std::span<const ByteRun> runs) = 0;
  virtual std::unique_ptr<MessageBatch> batch(Plane plane) = 0;
  virtual bool adds() const { return false; }
  /// The regular end, when all ranks have called it.
  virtual void finish() = 0;
};

/// The collectives of ranks on several hosts, with the same bits as every other transport. Collective over the wire's
/// ranks.
std::unique_ptr<Communicator> make_message_communicator(std::unique_ptr<MessageWire> wire);

}  // namespace ct
