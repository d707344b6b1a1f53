#include <gtest/gtest.h>

#include <fstream>

#include "base/error.h"
#include "base/temporary_folder.h"
#include "train/config/foreign.h"
#include "train/config/load.h"

namespace ct {
namespace {

// {"train_batch_size": 8, "optimizer": {"type": "SGD"}}  # <<???>>
const std::string kWord = "eyJ0cmFpbl9iYXRjaF9zaXplIjogOCwgIm9wdGltaXplciI6IHsidHlwZSI6ICJTR0QifX0gICMgPDw_Pz8-Pg==";

TEST(Encoded, IsUrlSafeBase64OfJson) {
  EXPECT_EQ(text_in_place_of(kWord),
            "{\"train_batch_size\": 8, \"optimizer\": {\"type\": \"SGD\"}}  # <<??"
            "?>>");
  EXPECT_EQ(text_in_place_of("e30"), "{}");  // padding may be left out
  EXPECT_EQ(text_in_place_of("e30="), "{}");
  for (const char* word : {"", "e", "e3=0", "e30.", "default.yaml", "e+0=", "W10=", "////", "________",
                           "ewA=" /* a zero behind the brace */, "e_8=" /* no UTF-8 */})
    EXPECT_FALSE(text_in_place_of(word)) << word;
  EXPECT_FALSE(text_in_place_of(std::string(3 << 20, 'e')));
}

TEST(Encoded, StandsInPlaceOfAFile) {
  std::vector<std::string> warnings;
  const Config config = load_config({.files = {kWord}}, &warnings);
  EXPECT_EQ(config.batch.train, 8);
  EXPECT_EQ(config.origins.at("train_batch_size"), "base64 eyJ0cmFpbl9i...:1:22");
  EXPECT_TRUE(warnings.empty());
  EXPECT_EQ(source_name(kWord), "base64 eyJ0cmFpbl9i...");
  try {
    load_config({.files = {"eyJ0cmFpbl9iYXRjaF9zaXplIjogLTF9"}}, &warnings);  // {"train_batch_size": -1}
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_EQ(std::string(error.what()).find("base64 eyJ0cmFpbl9i...: no optimizer"), 0u) << error.what();
  }
}

TEST(Encoded, AFileOfThatNameComesFirst) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "e30";
  EXPECT_FALSE(text_in_place_of(path));  // a path with folders in it is no base64
  std::ofstream(path) << "{}";
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  const bool hidden = text_in_place_of("e30").has_value(), found = text_in_place_of("e30=").has_value();
  std::filesystem::current_path(before);
  EXPECT_FALSE(hidden);
  EXPECT_TRUE(found);
}

TEST(Encoded, LongWordsOfItsLettersLookMeant) {
  EXPECT_TRUE(looks_encoded("eyJ0cmFpbl9iYXRjaF9zaXpl"));
  EXPECT_TRUE(looks_encoded("eyJ0cmFpbl9iYXRjaF9zaXpl!"));
  EXPECT_FALSE(looks_encoded("eyJjb25maWcgZmlsZQ.json"));
  EXPECT_FALSE(looks_encoded("ds_config"));
  EXPECT_FALSE(looks_encoded("configs/ds_config.json"));
}

}  // namespace
}  // namespace ct
