// The built-in synthetic set: ten classes of 32x32 RGB images, so that the program trains where no data lies.
// A class is a pair of a shape (disc, ring, square, triangle, cross) and a texture (stripes, checks). Position, size,
// angle, colours, polarity, background, stray dots and noise are drawn per image, so the pixel at one place says
// little: a linear model stays below half, and what remains is won by models that see local shape and texture.
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

inline constexpr uint64_t kSyntheticSeed = 20240229;  // part of the set: a test holds its checksums
inline constexpr int kSyntheticTrain = 50000;         // images 0..49999, 10,000 a file
inline constexpr int kSyntheticTest = 10000;          // images 50000..59999
inline constexpr std::array<std::string_view, 10> kSyntheticClasses = {
    "striped-disc",   "checked-disc",     "striped-ring",     "checked-ring",  "striped-square",
    "checked-square", "striped-triangle", "checked-triangle", "striped-cross", "checked-cross"};

/// The class of image `index`.
int synthetic_label(uint64_t seed, uint32_t index);

/// Writes record `index`: one label byte, then 1024 red, 1024 green and 1024 blue bytes, row by row. Each run of ten
/// consecutive images holds every class once, in a drawn order.
void synthetic_record(uint64_t seed, uint32_t index, uint8_t record[3073]);

/// Records first..first+count-1, on up to `threads` threads (0: one for each core at hand).
std::vector<uint8_t> synthetic_records(uint64_t seed, uint32_t first, uint32_t count, int threads = 0);

/// SHA-256 of data_batch_1..5.bin and test_batch.bin, in this order.
extern const std::array<std::string_view, 6> kSyntheticSha256;
/// What CifarSet::fingerprint() is of the images to train on, and of those to test on.
inline constexpr uint32_t kSyntheticFingerprints[2] = {0xf51af553, 0x9aa53003};
/// SHA-256 of file number `file` of kSyntheticSha256, in a set whose files have so many records.
std::string synthetic_sha256(size_t file, int64_t records_per_file);

/// Does the folder hold all of the set's files, each as long as it must be? (Their bytes: data/cifar/cifar_kind.h.)
/// False where there is nothing; Error(data) where something else stands in its place, such as a damaged set. A set
/// that was written with fewer images is there.
bool synthetic_there(const std::filesystem::path& folder);

/// Writes data_batch_1..5.bin, test_batch.bin and batches.meta.txt (the class names) into `folder`, atomically: a
/// folder beside it is filled, flushed and renamed, so no reader ever meets a part. Several processes may do so at
/// once: the first to finish wins, the others drop their copy. Returns false when the set was there already. Throws
/// Error(data) when something else stands in its place, Error(io) when it cannot be written. `progress` is called now
/// and then: it takes seconds. `records_per_file`: fewer make a small set, whose files begin as the whole one's images.
bool write_synthetic(const std::filesystem::path& folder, const std::function<void()>& progress = {},
                     int64_t records_per_file = kSyntheticTest);

}  // namespace ct
