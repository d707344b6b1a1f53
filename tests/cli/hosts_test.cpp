#include "cli/launch/hosts.h"

#include <gtest/gtest.h>

#include <functional>
#include <iterator>

#include "base/error.h"
#include "base/random.h"

namespace ct {
namespace {

/// The hosts as Python prints them, or the error.
std::string text_of(const std::function<Hosts()>& act) {
  try {
    std::string text;
    for (const HostSlots& host : act()) {
      text += (text.empty() ? "" : ", ") + host.name + ": [";
      for (size_t i = 0; i < host.slots.size(); ++i) text += (i > 0 ? ", " : "") + std::to_string(host.slots[i]);
      text += "]";
    }
    return "{" + text + "}";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    return error.what();
  }
}

std::string hostfile(const std::string& text) {
  return text_of([&] { return parse_hostfile(text, "hosts"); });
}

TEST(Hostfile, AsDeepSpeedReadsIt) {
  EXPECT_EQ(hostfile("worker-0 slots=2\nworker-1 slots=4\n"), "{worker-0: [0, 1], worker-1: [0, 1, 2, 3]}");
  EXPECT_EQ(hostfile("# local machine first\n\n  \ngpu1.lan slots=3\n#gpu2.lan slots=3"), "{gpu1.lan: [0, 1, 2]}");
  EXPECT_EQ(hostfile("w0 slots=2 max_slots=4 # more\r\n"), "{w0: [0, 1]}");
  EXPECT_EQ(hostfile("\xef\xbb\xbfw0 slots=2\r\n"), "{w0: [0, 1]}");  // from an editor of Windows
  EXPECT_EQ(hostfile("w0\tslots=2"), "{w0: [0, 1]}");
  EXPECT_EQ(hostfile("   w0 slots=2   "), "{w0: [0, 1]}");
  EXPECT_EQ(hostfile("w0 slots=0\nw1 slots=1"), "{w1: [0]}");  // which has nothing to give
  std::vector<std::string> notes;
  parse_hostfile("w0 slots=0\nw1 slots=1", "hosts", &notes);
  EXPECT_EQ(notes, std::vector<std::string>{"hosts: no rank is started on w0, which has slots=0"});
}

TEST(Hostfile, MistakesInDeepSpeedsWords) {
  for (const char* bad : {"w0", "slots=4 w0", "w0 slots=x", "w0 slots=", "w0 slots=-1", "w0 slots =2",
                          "w0 slots=99999999999", "w0 slots=70000"}) {
    EXPECT_EQ(hostfile(std::string("# one\n") + bad),
              std::string("Hostfile contains a bad entry: ") + bad +
                  ", unable to proceed with launching; hosts:2 should read NAME slots=N");
  }
  EXPECT_EQ(hostfile("w0 slots=1\nw1 slots=1\nw0 slots=2"),
            "Hostfile contains multiple entries for w0, unable to proceed with launching; hosts:3: give the host one "
            "line");
  for (const char* empty : {"", "\n\n", "# nothing\n", "w0 slots=0\n"})
    EXPECT_TRUE(
        hostfile(empty).starts_with("Hostfile is empty or not formatted correctly, unable to proceed with launching."))
        << hostfile(empty);
}

TEST(Hostfile, NamesThatAProgramCouldTakeForAnOptionAreRefused) {
  for (const char* name : {"-oProxyCommand=touch${IFS}x", "-w", "user@-oProxyCommand=x", "a;b", "$(id)", "h'x", "a,b"})
    EXPECT_EQ(hostfile(std::string(name) + " slots=1"),
              std::string("Hostfile contains a bad entry: ") + name +
                  " slots=1, unable to proceed with launching; hosts:1: " + name + " cannot be the name of a host");
  for (const char* name : {"worker-0", "10.0.0.1", "user@node_7.cluster", "fe80::1%eth0", "[::1]"})
    EXPECT_FALSE(hostfile(std::string(name) + " slots=1").starts_with("Hostfile")) << name;
}

TEST(Hostfile, GarbageIsOneLine) {
  std::string garbage;
  for (int i = 0; i < 100000; ++i) garbage += static_cast<char>(i * 37 % 256);
  const std::string said = hostfile(garbage);
  EXPECT_TRUE(said.starts_with("Hostfile contains a bad entry: ")) << said;
  EXPECT_EQ(said.find('\n'), said.npos);
  EXPECT_LT(said.size(), 1000u);
}

TEST(Hostfile, AnyBytesAreHostsOrOneLine) {
  const std::string words[] = {"w0", "w1", " slots=", "slots=", "2", "4294967296",         "\n",
                               "#",  "\t", ":",       ",",      "@", std::string(1, '\0'), "\xff",
                               " ",  "-1", "\r"};
  Random random(7, Purpose::init, 1);
  for (int i = 0; i < 20000; ++i) {
    std::string text;
    for (uint32_t n = random.next_u32() % 12; n > 0; --n) text += words[random.next_u32() % std::size(words)];
    for (const auto& act :
         {std::function<Hosts()>([&] { return parse_hostfile(text, "hosts"); }), std::function<Hosts()>([&] {
            return filter_hosts({{"w0", {0, 1}}, {"w1", {0}}}, text, "");
          }),
          std::function<Hosts()>([&] {
            return filter_hosts({{"w0", {0, 1}}, {"w1", {0}}}, "", text);
          })})
      EXPECT_EQ(text_of(act).find('\n'), std::string::npos) << text;
  }
}

const Hosts kTwo = {{"worker-0", first_slots(4)}, {"worker-1", first_slots(4)}};

std::string filter(const std::string& include, const std::string& exclude, const Hosts& hosts = kTwo,
                   KnownSlots known = KnownSlots::of_hosts) {
  return text_of([&] { return filter_hosts(hosts, include, exclude, known); });
}

TEST(HostFilter, AsDocumented) {
  EXPECT_EQ(filter("", ""), "{worker-0: [0, 1, 2, 3], worker-1: [0, 1, 2, 3]}");
  EXPECT_EQ(filter("worker-0", ""), "{worker-0: [0, 1, 2, 3]}");
  EXPECT_EQ(filter("worker-0@worker-1:0,2", ""), "{worker-0: [0, 1, 2, 3], worker-1: [0, 2]}");
  EXPECT_EQ(filter("worker-1@worker-0", ""), "{worker-0: [0, 1, 2, 3], worker-1: [0, 1, 2, 3]}");
  EXPECT_EQ(filter("worker-1:0,1@worker-1:0,3", ""), "{worker-1: [0, 1, 3]}");
  EXPECT_EQ(filter("worker-1:1,1", ""), "{worker-1: [1]}");
  EXPECT_EQ(filter("", "worker-1:0"), "{worker-0: [0, 1, 2, 3], worker-1: [1, 2, 3]}");
  EXPECT_EQ(filter("", "worker-1"), "{worker-0: [0, 1, 2, 3]}");
  EXPECT_EQ(filter("", "worker-1:0,1,2,3"), "{worker-0: [0, 1, 2, 3]}");
  EXPECT_EQ(filter("", "worker-0@worker-1"), "{}");
}

TEST(HostFilter, MistakesInDeepSpeedsWords) {
  EXPECT_TRUE(filter("worker-5", "").starts_with("Hostname 'worker-5' not found in hostfile"));
  EXPECT_TRUE(filter("worker-0@", "").starts_with("Hostname '' not found in hostfile"));
  EXPECT_TRUE(filter("worker-0:9", "").starts_with("No slot '9' specified on host 'worker-0'"));
  EXPECT_TRUE(filter("", "worker-0:9").starts_with("No slot '9' specified on host 'worker-0'"));
  EXPECT_TRUE(filter("worker-0", "worker-1").starts_with("include_str and exclude_str are mutually exclusive."));
  EXPECT_TRUE(filter("worker-0:x", "").starts_with("invalid literal for int() with base 10: 'x'"));
  EXPECT_TRUE(filter("worker-0:0,", "").starts_with("invalid literal for int() with base 10: ''"));
  EXPECT_TRUE(filter("worker-0:-1", "").starts_with("invalid literal for int() with base 10: '-1'"));
  EXPECT_TRUE(filter("worker-0:0:1", "").starts_with("too many values to unpack"));
}

TEST(HostFilter, NumbersOfVisibleDevicesMayBeBeyondTheCount) {
  const Hosts here = {{"localhost", first_slots(2)}};
  EXPECT_EQ(filter("localhost:1", "", here), "{localhost: [1]}");
  EXPECT_EQ(filter("localhost:5", "", here, KnownSlots::any), "{localhost: [5]}");
}

}  // namespace
}  // namespace ct
