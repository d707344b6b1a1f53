// Writes and reads tensors by rows (dimension 0): a rank writes the rows that it owns, into a file shared by all ranks
// or into its own file, and reads the rows that it holds from any files that contain them.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/safetensors.h"
#include "comm/communicator.h"

namespace ct {

// ---- writing

/// Consecutive rows of tensor `tensor` of a SafetensorsPlan.
struct Rows {
  size_t tensor = 0;
  int64_t begin = 0, end = 0;
};

/// Copies rows, in the file's format, into `out`, which has exactly their length.
using ReadRows = std::function<void(const Rows& rows, std::span<std::byte> out)>;

/// Written rows, the CRC32C of their bytes, and whether all their elements are finite.
struct WrittenRows {
  Rows rows;
  uint32_t crc = 0;
  bool finite = true;
};
/// The indices in a plan of the tensors with non-finite rows, ascending.
std::vector<size_t> not_finite(std::span<const WrittenRows> rows);

/// Elements are read and written through buffers of at most this size, or of one row if that is longer: what is copied
/// is still in the cache when its checksum is computed.
inline constexpr size_t kBucketBytes = size_t{2} << 20;

/// Writes rows to their places in a file of `plan`; calls `after_bucket` after every bucket.
std::vector<WrittenRows> write_rows(File& file, const SafetensorsPlan& plan, std::span<const Rows> rows,
                                    const ReadRows& read, const std::function<void()>& after_bucket);

/// Every tensor's CRC32C, from those of all its rows; each row must occur once.
std::vector<uint32_t> join(const SafetensorsPlan& plan, std::vector<WrittenRows> rows);

/// Atomically replaces `path`, as write_file_atomic does, by a safetensors file that all ranks write together.
/// Collective. The file contains `tensors` and rank 0's metadata; `own` are the rows that this rank writes.
void write_together(Communicator& comm, FileSystem& files, const Path& path, const std::vector<TensorSpec>& tensors,
                    const Metadata& metadata, std::span<const Rows> own, const ReadRows& read);

// ---- reading

/// "128:256 of 512": the rows of a tensor in a file, in its metadata under "rows.<tensor>". Without that entry the file
/// contains the whole tensor.
std::string rows_text(int64_t begin, int64_t end, int64_t of);
inline const std::string kRowsKey = "rows.";

/// A tensor whose rows may be stored in several files. Valid for the lifetime of the files.
struct LogicalTensor {
  struct Piece {
    int64_t begin = 0, end = 0;
    const StoredTensor* stored = nullptr;
    const SafetensorsFile* file = nullptr;
  };
  std::string name;
  StoredType dtype = StoredType::f32;
  std::vector<int64_t> shape;
  std::vector<Piece> pieces;  // ascending; they contain every row once

  /// All elements: directly in the file if one file contains them, otherwise copied into `storage`.
  TensorView view(std::vector<std::byte>& storage) const;
  /// Calls f(first row, bytes of whole rows) for each contiguous run within rows begin..end.
  void visit(int64_t begin, int64_t end, const std::function<void(int64_t, std::span<const std::byte>)>& f) const;
};

/// The tensors of all given files, sorted by name. Error(checkpoint) with file and tensor if rows are missing or
/// duplicate, or if files contradict each other.
std::vector<LogicalTensor> logical_tensors(std::span<const SafetensorsFile> files);
/// Null: there is no tensor of that name.
const LogicalTensor* find(const std::vector<LogicalTensor>& tensors, std::string_view name);

/// The names of the tensors that contain an infinity or a NaN.
std::vector<std::string> not_finite(const std::vector<LogicalTensor>& tensors);

}  // namespace ct
