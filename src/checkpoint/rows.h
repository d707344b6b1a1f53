// Tensors written and read by rows (dimension 0): a rank writes those it owns, into a file that all ranks share or into
// its own, and reads those it holds, from whichever files have them.
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

/// Puts some rows, as the file has them, into `out`, which has just their bytes.
using ReadRows = std::function<void(const Rows& rows, std::span<std::byte> out)>;

/// Rows that a file has now, the CRC32C of their bytes, and whether all their elements are finite.
struct WrittenRows {
  Rows rows;
  uint32_t crc = 0;
  bool finite = true;
};
/// The tensors, by their index in a plan, some of whose rows are not finite; ascending.
std::vector<size_t> not_finite(std::span<const WrittenRows> rows);

/// Elements go to a file through a buffer of so many bytes, or of one row where that is longer.
inline constexpr size_t kBucketBytes = size_t{4} << 20;

/// Writes rows to their places in a file of `plan`; calls `after_bucket` after every bucket.
std::vector<WrittenRows> write_rows(File& file, const SafetensorsPlan& plan, std::span<const Rows> rows,
                                    const ReadRows& read, const std::function<void()>& after_bucket);

/// Every tensor's CRC32C from those of all its rows, which must be there once.
std::vector<uint32_t> join(const SafetensorsPlan& plan, std::vector<WrittenRows> rows);

/// Replaces `path` by a safetensors file that all ranks write together, as atomically as write_file_atomic does.
/// Collective; tensors and rank 0's metadata are the file's, `own` is what this rank writes of it.
void write_together(Communicator& comm, FileSystem& files, const Path& path, const std::vector<TensorSpec>& tensors,
                    const Metadata& metadata, std::span<const Rows> own, const ReadRows& read);

// ---- reading

/// "128:256 of 512": the rows that a file has of a tensor, in its metadata under "rows.<tensor>". Without that entry
/// the file has the whole tensor.
std::string rows_text(int64_t begin, int64_t end, int64_t of);
inline const std::string kRowsKey = "rows.";

/// A tensor, wherever its rows are stored. Lives as long as the files do.
struct LogicalTensor {
  struct Piece {
    int64_t begin = 0, end = 0;
    const StoredTensor* stored = nullptr;
    const SafetensorsFile* file = nullptr;
  };
  std::string name;
  StoredType dtype = StoredType::f32;
  std::vector<int64_t> shape;
  std::vector<Piece> pieces;  // ascending; they have every row once

  /// All elements: the file's own where one file has them, else copied into `storage`.
  TensorView view(std::vector<std::byte>& storage) const;
  /// Calls f(first row, bytes of whole rows) for each run of rows begin..end that lies together.
  void visit(int64_t begin, int64_t end, const std::function<void(int64_t, std::span<const std::byte>)>& f) const;
};

/// The tensors of some files together, sorted by name. Error(checkpoint) naming file and tensor where rows are missing
/// or there twice, or files disagree.
std::vector<LogicalTensor> logical_tensors(std::span<const SafetensorsFile> files);
/// Null if there is none of that name.
const LogicalTensor* find(const std::vector<LogicalTensor>& tensors, std::string_view name);

/// The names of the tensors that hold an infinity or a NaN.
std::vector<std::string> not_finite(const std::vector<LogicalTensor>& tensors);

}  // namespace ct
