// CIFAR-10's binary files as their author published them.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>

namespace ct {

/// SHA-1 of data_batch_1..5.bin and test_batch.bin, in this order.
inline constexpr std::array<std::string_view, 6> kCifarSha1 = {
    "aadd24acce27caa71bf4b10992e9e7b2d74c2540", "c0ba65cce70568cd57b4e03e9ac8d2a5367c1795",
    "1dd00a74ab1d17a6e7d73e185b69dbf31242f295", "aab85764eb3584312d3c7f65fd2fd016e36a258e",
    "26e2849e66a845b7f1e4614ae70f4889ae604628", "67eb016db431130d61cd03c7ad570b013799c88c"};

/// What is worth knowing of files that have these SHA-1, in the same order (empty: unknown): which are not the
/// published ones. Empty: all are.
std::string note_of_published(std::span<const std::string> sha1);

}  // namespace ct
