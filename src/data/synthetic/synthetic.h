// The built-in synthetic set: ten classes of 32x32 RGB images, for training without data. A class is a pair of a shape
// (disc, ring, square, triangle, cross) and a texture (stripes, checks). Position, size, angle, colours, polarity,
// background, stray dots and noise are drawn per image, so single pixels carry little information: a linear model stays
// below half, and models that use local shape and texture do better.
//
// Integer arithmetic only and every number keyed by (seed, index): the bytes are the same on every platform and with
// any number of threads.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace ct {

inline constexpr uint64_t kSyntheticSeed = 20240229;  // defines the set; a test checks its checksums
inline constexpr int kSyntheticTrain = 50000;         // images 0..49999, 10,000 a file
inline constexpr int kSyntheticTest = 10000;          // images 50000..59999
inline constexpr std::array<std::string_view, 10> kSyntheticClasses = {
    "striped-disc",   "checked-disc",     "striped-ring",     "checked-ring",  "striped-square",
    "checked-square", "striped-triangle", "checked-triangle", "striped-cross", "checked-cross"};

/// The class of image `index`.
int synthetic_label(uint64_t seed, uint32_t index);

/// Writes record `index`: one label byte, then 1024 red, 1024 green and 1024 blue bytes, row by row. Each run of ten
/// consecutive images contains every class once, in random order.
void synthetic_record(uint64_t seed, uint32_t index, uint8_t record[3073]);

/// Records first..first+count-1, on up to `threads` threads (0: one for each available core).
std::vector<uint8_t> synthetic_records(uint64_t seed, uint32_t first, uint32_t count, int threads = 0);

/// SHA-256 of data_batch_1..5.bin and test_batch.bin, in this order.
extern const std::array<std::string_view, 6> kSyntheticSha256;
/// CifarSet::fingerprint() of the training images and of the test images.
inline constexpr uint32_t kSyntheticFingerprints[2] = {0xf51af553, 0x9aa53003};
/// SHA-256 of file number `file` of kSyntheticSha256, in a set with `records_per_file` records per file.
std::string synthetic_sha256(size_t file, int64_t records_per_file);

/// Does the folder contain all files of the set with the right lengths? (data/cifar/cifar_kind.h compares the bytes.)
/// False if it does not exist; Error(data) if it contains something else, such as a damaged set. A set with fewer
/// images counts as complete.
bool synthetic_there(const std::filesystem::path& folder);

/// Writes data_batch_1..5.bin, test_batch.bin and batches.meta.txt (the class names) into `folder`, atomically: a
/// temporary folder next to it is filled, flushed and renamed, so no reader sees an incomplete set. Several processes
/// may write at once: the first to finish wins, the others drop their copy. Returns false if the set already exists.
/// Throws Error(data) if something else is in its place, Error(io) if it cannot be written. `progress` is called
/// repeatedly, because writing takes seconds. `records_per_file`: a smaller number gives a small set with the first
/// images of each split.
bool write_synthetic(const std::filesystem::path& folder, const std::function<void()>& progress = {},
                     int64_t records_per_file = kSyntheticTest);

}  // namespace ct
