// A gateway in this process from its beginning to its end: what it keeps, what it leaves behind.
#include <dirent.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <future>
#include <thread>

#include "tests/sdk/tiny_gateway.h"

namespace kvgate::test {
namespace {

using ::testing::HasSubstr;

size_t EntriesOf(const char* folder) {
  size_t count = 0;
  DIR* const opened = ::opendir(folder);
  while (opened != nullptr && ::readdir(opened) != nullptr) ++count;
  if (opened != nullptr) ::closedir(opened);
  return count;
}
size_t NumThreads() { return EntriesOf("/proc/self/task"); }
size_t NumFiles() { return EntriesOf("/proc/self/fd"); }

constexpr const char* kFlushSoon = "[store]\nflush_interval_ms = 100\n";

ChatRequest Long() {
  std::string text;
  for (int i = 0; i < 300; ++i) text += "keep this ";
  return {.messages = {Message::User(text)}, .max_tokens = 4, .temperature = 0};
}

// A hundred times with KVGATE_TEST_FULL, else some.
TEST(LifecycleTest, OpenedAndClosedAgainAndAgainItLeavesNothing) {
  const int num_times = std::getenv("KVGATE_TEST_FULL") != nullptr ? 100 : 8;
  TinyGateway gateway;
  gateway.Close();
  const auto once = [&] {
    Client client = Client::Open(gateway.Options()).value();
    ASSERT_TRUE(client.Chat({.messages = {Message::User("Hi")}, .max_tokens = 2}).Collect());
    Server server(client);
    ASSERT_TRUE(server.Listen("127.0.0.1:0"));
  };
  once();
  const size_t num_threads = NumThreads();
  const size_t num_files = NumFiles();
  for (int i = 0; i < num_times; ++i) once();
  // A thread that has nothing left to do may not have ended yet.
  for (int i = 0; i < 500 && NumThreads() > num_threads; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_LE(NumThreads(), num_threads);
  EXPECT_LE(NumFiles(), num_files);
}

TEST(LifecycleTest, ADataDirectoryBelongsToOneClientAtATime) {
  TinyGateway gateway;
  const Result<Client> second = Client::Open(gateway.Options());
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().status, Status::kUnavailable);
}

// In the C interface a stream may outlive its client, and another thread may wait in it.
TEST(LifecycleTest, AClosedClientEndsItsStreamsWithCancelled) {
  TinyGateway gateway;
  const OpenOptions options = gateway.Options();
  gateway.Close();
  kvgate_open_options given{};
  given.struct_size = sizeof given;
  given.config_toml = options.config_toml.c_str();
  given.model = options.model.c_str();
  given.data_dir = options.data_dir.c_str();
  kvgate_client* client = nullptr;
  ASSERT_EQ(kvgate_open(&given, &client, nullptr), KVGATE_OK);
  const std::string body = ToJson(ChatRequest{.messages = {Message::User("go on and on")},
                                              .max_tokens = 1900,
                                              .more_json = R"({"ignore_eos":true})"});
  kvgate_stream* stream = nullptr;
  ASSERT_EQ(kvgate_chat(client, body.data(), body.size(), nullptr, &stream, nullptr), KVGATE_OK);
  std::promise<void> has_begun;
  kvgate_status status = KVGATE_OK;
  const auto next = [&] {
    kvgate_event event{};
    event.struct_size = sizeof event;
    status = kvgate_stream_next(stream, &event, nullptr);
  };
  std::thread reader([&] {
    next();
    has_begun.set_value();
    while (status == KVGATE_OK) next();
  });
  has_begun.get_future().wait();
  kvgate_close(client);
  reader.join();
  EXPECT_EQ(status, KVGATE_CANCELLED);
  next();
  EXPECT_EQ(status, KVGATE_CANCELLED);
  kvgate_stream_free(stream);
}

TEST(LifecycleTest, TheClientLivesAsLongAsItsStream) {
  TinyGateway gateway;
  std::optional<Stream> stream;
  {
    Client client = Client::Connect(gateway.url()).value();
    stream = client.Chat({.messages = {Message::User("Hi")}, .max_tokens = 20});
  }
  EXPECT_TRUE(stream->Collect());
}

TEST(LifecycleTest, ADroppedServerFreesItsPortAndTheClientGoesOn) {
  TinyGateway gateway;
  Client client = gateway.embedded();
  const std::string url = gateway.url();
  const Result<Answer> health = Client::Connect(url).value().Call("GET", "/health");
  ASSERT_TRUE(health) << health.error().ToString();
  Server second(client);
  const Result<std::string> refused = second.Listen("127.0.0.1:0");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().status, Status::kInvalidArgument);
  EXPECT_THAT(refused.error().message, HasSubstr(url));
  Client remote = gateway.Remote();
  EXPECT_EQ(Server(remote).Listen("127.0.0.1:0").error().status, Status::kInvalidArgument);
}

TEST(LifecycleTest, APublicAddressNeedsAKey) {
  TinyGateway gateway;
  gateway.Close();
  Client client = Client::Open(gateway.Options()).value();
  const Result<std::string> refused = Server(client).Listen("0.0.0.0:0");
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("[[key]]"));
}

TEST(LifecycleTest, AConfigurationThatIsWrongSaysWhere) {
  TinyGateway gateway;
  gateway.Close();
  OpenOptions options = gateway.Options();
  options.config_toml += "\nthraeds = 2\n";
  Error error = Client::Open(options).error();
  EXPECT_EQ(error.status, Status::kInvalidArgument);
  EXPECT_THAT(error.message, HasSubstr("thraeds"));
  options = gateway.Options();
  options.model = "/nowhere/x.gguf";
  error = Client::Open(options).error();
  EXPECT_EQ(error.status, Status::kNotFound);
  EXPECT_THAT(error.message, HasSubstr("/nowhere/x.gguf"));
  options = gateway.Options();
  options.config_file = "also.toml";
  EXPECT_EQ(Client::Open(options).error().field, "config_toml");
  error = Client::Connect("ftp://x").error();
  EXPECT_EQ(error.status, Status::kInvalidArgument);
  const Result<Reply> nobody = Client::Connect("http://127.0.0.1:9", {.retries = 0})
                                   .value()
                                   .Chat({.messages = {Message::User("Hi")}})
                                   .Collect();
  ASSERT_FALSE(nobody);
  EXPECT_EQ(nobody.error().status, Status::kUnavailable);
}

// A process of its own, which AProcessThatIsKilledKeepsItsPrefixes starts and kills.
TEST(LifecycleTest, DISABLED_HoldsAPrefixUntilItIsKilled) {
  const char* const folder = std::getenv("KVGATE_TEST_FOLDER");
  ASSERT_NE(folder, nullptr);
  const TinyGateway gateway = TinyGateway::In(folder, kFlushSoon);
  Client client = Client::Open(gateway.Options()).value();
  ASSERT_TRUE(client.Pin("kept", Long()));
  // Until it is on disk and flushed.
  for (Json stats; stats.Int("/store/records") == 0 || stats.Int("/store/unflushed") > 0;) {
    stats = client.Stats().value();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  ASSERT_EQ(::write(STDOUT_FILENO, "\nready\n", 7), 7);
  while (true) ::pause();
}

// The main promise, through the SDK: what a process computed is there for the next one, also if the
// first was killed.
TEST(LifecycleTest, AProcessThatIsKilledKeepsItsPrefixes) {
  TinyGateway gateway(kFlushSoon);
  gateway.Close();
  int output[2];
  ASSERT_EQ(::pipe(output), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::setenv("KVGATE_TEST_FOLDER", gateway.folder().c_str(), 1);
    ::dup2(output[1], STDOUT_FILENO);
    ::execl("/proc/self/exe", "sdk_test", "--gtest_also_run_disabled_tests",
            "--gtest_filter=LifecycleTest.DISABLED_HoldsAPrefixUntilItIsKilled", nullptr);
    ::_exit(1);
  }
  ::close(output[1]);
  std::string said;
  char bytes[4096];
  while (said.find("ready") == std::string::npos) {
    const ssize_t size = ::read(output[0], bytes, sizeof bytes);
    ASSERT_GT(size, 0) << said;
    said.append(bytes, static_cast<size_t>(size));
  }
  ::close(output[0]);
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  int64_t cached_tokens = 0;
  std::string text;
  // Where this machine's disk is busy, computing these few tokens anew is planned instead.
  for (int start = 0; start < 6 && cached_tokens == 0; ++start) {
    Client client = Client::Open(gateway.Options()).value();
    Result<Reply> reply = client.Chat(Long()).Collect();
    ASSERT_TRUE(reply) << reply.error().ToString();
    cached_tokens = reply->usage.cached_tokens;
    text = reply->text;
  }
  EXPECT_GT(cached_tokens, 64);
  TinyGateway cold;
  EXPECT_EQ(cold.embedded().Chat(Long()).Collect()->text, text);
}

std::string* g_lines = nullptr;

TEST(LifecycleTest, TheLogGoesWhereTheProgramWantsItAndNeverToStderr) {
  std::string lines;
  g_lines = &lines;
  kvgate_set_log(
      KVGATE_LOG_INFO,
      [](void* /*user*/, kvgate_log_level /*level*/, const char* line) {
        *g_lines += line;
        *g_lines += '\n';
      },
      nullptr);
  testing::internal::CaptureStderr();
  { TinyGateway gateway; }
  kvgate_set_log(KVGATE_LOG_INFO, nullptr, nullptr);
  { TinyGateway gateway; }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_THAT(lines, HasSubstr("loaded"));
  g_lines = nullptr;
}

}  // namespace
}  // namespace kvgate::test
