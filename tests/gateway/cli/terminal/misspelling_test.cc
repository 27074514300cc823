#include "gateway/cli/terminal/misspelling.h"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace kvgate::cli::terminal {
namespace {

class MisspellingTest : public ::testing::Test {
 protected:
  MisspellingTest() {
    CLI::App* serve = app_.add_subcommand("serve", "");
    serve->add_option("--listen", value_);
    serve->add_flag("--no-disk", flag_);
    CLI::App* cache = app_.add_subcommand("cache", "");
    cache->add_subcommand("stats", "")->add_option("--data-dir", value_);
    cache->add_subcommand("ls", "")->add_option("id", value_);
  }
  std::string Find(const std::vector<const char*>& words) { return FindMisspelling(app_, words); }

  CLI::App app_;
  std::string value_;
  bool flag_ = false;
};

TEST_F(MisspellingTest, ACommandIsNamedWithWhatMayHaveBeenMeant) {
  EXPECT_EQ(Find({"serv"}), "there is no command 'serv'; did you mean 'serve'?");
  EXPECT_EQ(Find({"cache", "stat"}), "there is no command 'stat'; did you mean 'stats'?");
  EXPECT_EQ(Find({"frobnicate"}), "there is no command 'frobnicate'; `kvgate --help` lists them");
}

TEST_F(MisspellingTest, AnOptionIsNamedWithItsCommand) {
  EXPECT_EQ(Find({"serve", "--lissten", "x"}),
            "kvgate serve has no option --lissten; did you mean '--listen'?");
  EXPECT_EQ(Find({"cache", "stats", "--datadir=x"}),
            "kvgate cache stats has no option --datadir; did you mean '--data-dir'?");
}

TEST_F(MisspellingTest, ValuesAndArgumentsAreNotNames) {
  EXPECT_EQ(Find({"serve", "--listen", "serv", "--no-disk"}), "");
  EXPECT_EQ(Find({"serve", "--no-disk", "--listen=serv"}), "");
  EXPECT_EQ(Find({"cache", "ls", "0123"}), "");
  EXPECT_EQ(Find({"serve", "--", "--lissten"}), "");
}

}  // namespace
}  // namespace kvgate::cli::terminal
