// The safetensors file format (github.com/huggingface/safetensors): 8 bytes little-endian header size, a JSON header
// {"__metadata__": {text: text}, name: {"dtype", "shape", "data_offsets"}}, then the elements without a gap.
//
// Files written here carry checksums in __metadata__, which other programs ignore:
//   header_crc32c   first key; CRC32C of the size and the header with zeros for its eight digits
//   crc32c_format   "1"
//   crc32c.<name>   CRC32C of the tensor's bytes
// so every damaged byte is found and named. Files of other programs lack these keys and are read without checks.
// Tensors are stored in the bytewise order of their names; the header is padded with spaces to a multiple of 8.
//
// SafetensorsFile also reads files of torch.save() (torch/archive.h), as a file without metadata.
//
// A damaged or foreign file is Error(ExitCode::checkpoint) with the file and, if possible, the tensor; one that cannot
// be read, Error(ExitCode::io).
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "checkpoint/tensors.h"

namespace ct {

using Metadata = std::map<std::string, std::string>;

/// The layout of a file before any element is known: the size of the header does not depend on the checksums in it. So
/// ranks can write their parts of the elements first, and the header last.
class SafetensorsPlan {
 public:
  /// The file will contain the tensors in the bytewise order of their names; indices below are those of `tensors`.
  /// Metadata keys that begin with "crc32c" or "header_crc32c" are reserved.
  SafetensorsPlan(std::vector<TensorSpec> tensors, Metadata metadata);

  const std::vector<TensorSpec>& tensors() const { return tensors_; }
  /// Bytes of the file.
  uint64_t bytes() const { return header_bytes_ + payload_bytes_; }
  /// The start of a tensor's elements in the file.
  uint64_t begin(size_t tensor) const { return header_bytes_ + offsets_[tensor]; }
  /// The file's first bytes, up to the first element, given the CRC32C of every tensor.
  std::string header(std::span<const uint32_t> crcs) const;
  /// The CRC32C of the whole file, given that of every tensor.
  uint32_t crc(std::span<const uint32_t> crcs) const;

 private:
  std::vector<TensorSpec> tensors_;
  Metadata metadata_;
  std::vector<size_t> order_;      // of tensors in the file
  std::vector<uint64_t> offsets_;  // by tensor, from the first element of all
  uint64_t header_bytes_ = 0, payload_bytes_ = 0;
};

/// Replaces `path` atomically (write_file_atomic), unless `before_rename` throws; metadata as above.
void write_safetensors(FileSystem& files, const Path& path, std::vector<TensorView> tensors, const Metadata& metadata,
                       const std::function<void()>& before_rename = {});

struct StoredTensor : TensorView {
  std::optional<uint32_t> crc;  // the file's stated checksum
};

/// The format of a file that is not safetensors, and the remedy: "a gzip archive: unpack it first". Determined from its
/// first bytes; empty: unknown. Defined in foreign.cpp.
std::string foreign_format(std::span<const std::byte> file, const Path& path);

/// A file mapped for reading. The tensors' data are valid for its lifetime.
class SafetensorsFile {
 public:
  enum class Check { all, header };  // header: damaged_tensors() checks the elements
  explicit SafetensorsFile(const Path& path, Check check = Check::all,
                           MappedFile::Links links = MappedFile::Links::follow);

  const Path& path() const { return path_; }
  std::span<const std::byte> bytes() const { return file_.bytes(); }
  /// The file's metadata without the checksums.
  const Metadata& metadata() const { return metadata_; }
  /// The file's tensors, sorted bytewise by name.
  const std::vector<StoredTensor>& tensors() const { return tensors_; }
  std::vector<TensorView> views() const { return {tensors_.begin(), tensors_.end()}; }
  const StoredTensor* find(std::string_view name) const;
  /// Does the file carry checksums?
  bool checksums() const { return checksums_; }
  /// Throws Error(checkpoint) if the file was truncated or overwritten since it was opened. Must be called before
  /// results of the elements are used.
  void require_unchanged() const { file_.require_unchanged(ExitCode::checkpoint); }
  /// One line for each tensor whose elements do not match their checksum. Throws Error if the file was truncated
  /// meanwhile.
  std::vector<std::string> damaged_tensors() const;
  /// Releases the memory of a part of a tensor's data, which is read from the file again when it is needed. Without
  /// this, a file counts in full as the process's memory once all of it was read.
  void let_go(std::span<const std::byte> part) const;

 private:
  void parse(Check check);

  Path path_;
  MappedFile file_;
  Metadata metadata_;
  std::vector<StoredTensor> tensors_;
  std::vector<std::vector<std::byte>> copies_;  // of elements that the file has in another order
  bool checksums_ = false;
};

}  // namespace ct
