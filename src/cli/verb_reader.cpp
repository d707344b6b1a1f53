#include "cli/verb_reader.h"

#include <utility>

namespace ct {
namespace {

const VerbReader* reading = nullptr;

}  // namespace

const VerbReader* verb_reader() { return reading; }

void read_verb(const Verb& verb, const VerbReader& reader) {
  const VerbReader* const before = std::exchange(reading, &reader);  // a reader may read the commands that it meets
  verb.run({});
  reading = before;
}

}  // namespace ct
