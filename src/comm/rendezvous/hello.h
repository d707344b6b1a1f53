// What travels when ranks connect. Plain data: all ranks run the same program on the same kind of machine, or are
// refused.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace ct {

inline constexpr std::array<char, 16> kMagic = {'c', 'i', 'f', 'a', 'r', '-', 't',  'r',
                                                'a', 'i', 'n', '-', 'm', '2', '\n', 0};

struct Hello {
  std::array<char, 16> magic = kMagic;
  std::array<char, 80> job{};  // a digest of the job's word
  std::array<char, 96> program{};
  std::array<char, 64> host{};
  std::array<char, 40> caller{};  // a word of this process's attempts
  int32_t rank = 0, size = 0, pid = 0;
};

struct Reply {
  enum Verdict : int32_t {
    welcome,      // wait for `begin` or `over`
    another_job,  // connect to another endpoint
    refused,      // for the reason in `text`, with `code`
    begin,        // all ranks have connected
    over,         // the rendezvous has failed, which rank 0 prints
  };
  std::array<char, 16> magic = kMagic;
  int32_t verdict = welcome, code = 0;
  std::array<char, 1008> text{};
};

/// A Hello of this program to rank 0 of the job with that word.
Hello hello_of(const std::string& job);

}  // namespace ct
