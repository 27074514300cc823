// A server of the Redis protocol in memory, for tests of what stands on RespClient: the commands
// and scripts that are used, with switches for what a server may do. The real one's tests are those
// of resp_client.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "store/remote/resp_client.h"

namespace kvgate::store::shared {

// What several clients see.
struct MemoryServer {
  std::mutex mutex;
  std::map<std::string, std::string, std::less<>> values;
  std::map<std::string, std::vector<std::string>, std::less<>> lists;
  struct Entry {
    std::string id = {};
    std::string field = {};
    std::string value = {};
  };
  std::map<std::string, std::vector<Entry>, std::less<>> streams;
  int64_t num_entries = 0;  // ever added to a stream
  std::map<std::string, std::map<std::string, std::string>, std::less<>> hashes;
  std::map<std::string, std::string, std::less<>> times_to_live;  // of hashes, as they were said
  std::map<std::string, std::map<std::string, int64_t>, std::less<>> sets;  // sorted by number

  void Flush() {
    const std::lock_guard lock(mutex);
    values.clear();
    lists.clear();
    streams.clear();
    hashes.clear();
    times_to_live.clear();
    sets.clear();
  }
};

class MemoryClient final : public remote::RespClient {
 public:
  explicit MemoryClient(MemoryServer& server) : server_(server) {}

  std::vector<std::string> said;  // the commands without what follows
  std::atomic<bool> is_down{false};
  std::atomic<bool> is_full{false};        // takes no values
  std::atomic<bool> loses_answers{false};  // carries out, and then fails
  std::atomic<bool> repeats{false};        // carries out each command twice
  std::string refused;                     // the name of a command that is not allowed
  std::atomic<int> num_begun{0};           // calls, those that wait for the server included

  Result<std::vector<remote::RespReply>> Call(std::span<const remote::RespCommand> commands,
                                              TimePoint) override {
    const auto down = MakeError(ErrorCode::kUnavailable, "memory_client", "it is down");
    if (is_down) return down;
    ++num_begun;
    const std::lock_guard lock(server_.mutex);
    std::vector<remote::RespReply> replies;
    for (const remote::RespCommand& command : commands) {
      said.push_back(std::string(command.words[0]));
      remote::RespReply reply = Answer(command.words);
      if (repeats) reply = Answer(command.words);
      replies.push_back(std::move(reply));
    }
    if (loses_answers) return down;
    return replies;
  }
  bool is_paused() const override { return is_down; }
  remote::RespStats Stats() const override { return {}; }

 private:
  using Words = std::vector<std::string_view>;

  static remote::RespReply Integer(int64_t value) {
    return {.kind = remote::RespReply::Kind::kInteger, .integer = value};
  }
  static remote::RespReply Text(std::string text) {
    return {.kind = remote::RespReply::Kind::kText, .text = std::move(text)};
  }
  static remote::RespReply Refusal(std::string text) {
    return {.kind = remote::RespReply::Kind::kError, .text = std::move(text)};
  }
  remote::RespReply Answer(const Words& words) {
    if (words[0] == "EVALSHA") {
      return Refusal("NOSCRIPT No matching script.");
    }
    if (words[0] == refused) return Refusal("NOPERM this user has no permissions");
    if (words[0] == "EVAL" && words[1].find("ZRANGEBYSCORE") != std::string_view::npos) {
      return EvaluateChanged(words);
    }
    if (words[0] == "EVAL" && words[1].find("GETRANGE") != std::string_view::npos) {
      return EvaluateSet(words);
    }
    if (words[0] == "EVAL") return Evaluate(words);
    if (words[0].starts_with("X")) return AnswerStream(words);
    if (words[0].starts_with("RPUSH") || words[0] == "LRANGE" || server_.lists.contains(words[1])) {
      return AnswerOfList(words);
    }
    if (words[0].starts_with("H") || server_.hashes.contains(words[1])) {
      return AnswerOfHash(words);
    }
    const auto found = server_.values.find(words[1]);
    const bool is_there = found != server_.values.end();
    if (words[0] == "EXISTS" || words[0] == "EXPIRE") {
      return Integer(is_there || server_.sets.contains(words[1]) ? 1 : 0);
    }
    if (words[0] == "GET") return is_there ? Text(found->second) : remote::RespReply();
    if (words[0] == "DEL") {
      if (is_there) server_.values.erase(found);
      return Integer(is_there ? 1 : 0);
    }
    EXPECT_EQ(words[0], "SET");
    if (is_full) return Refusal("OOM command not allowed");
    if (is_there && words.size() > 3 && words[3] == "NX") return {};
    server_.values[std::string(words[1])] = words[2];
    return Text("OK");
  }
  // XADD key MAXLEN ~ N * field value, XTRIM key MINID ~ ID, XRANGE key FROM + COUNT N. Ids are as
  // long as each other here, so that texts compare as they do.
  remote::RespReply AnswerStream(const Words& words) {
    if (words[0] == "XADD" && is_full) return Refusal("OOM command not allowed");
    std::vector<MemoryServer::Entry>& stream = server_.streams[std::string(words[1])];
    if (words[0] == "XADD") {
      const std::string id = std::to_string(1'000'000'000 + ++server_.num_entries) + "-0";
      stream.push_back({id, std::string(words[6]), std::string(words[7])});
      const auto most = static_cast<size_t>(std::atoll(std::string(words[4]).c_str()));
      if (stream.size() > most) stream.erase(stream.begin());
      return Text(id);
    }
    if (words[0] == "XTRIM") return Integer(0);
    EXPECT_EQ(words[0], "XRANGE");
    const auto most = static_cast<size_t>(std::atoll(std::string(words[5]).c_str()));
    remote::RespReply entries{.kind = remote::RespReply::Kind::kArray};
    for (const MemoryServer::Entry& entry : stream) {
      const bool is_asked = words[2] == "-" || entry.id > words[2].substr(1);
      if (!is_asked || entries.items.size() == most) continue;
      const remote::RespReply fields{.kind = remote::RespReply::Kind::kArray,
                                     .items = {Text(entry.field), Text(entry.value)}};
      entries.items.push_back(
          {.kind = remote::RespReply::Kind::kArray, .items = {Text(entry.id), fields}});
    }
    return entries;
  }
  remote::RespReply AnswerOfList(const Words& words) {
    if (words[0] == "DEL") {
      return Integer(static_cast<int64_t>(server_.lists.erase(std::string(words[1]))));
    }
    if (words[0] == "RPUSHX" && !server_.lists.contains(words[1])) return Integer(0);
    if (words[0].starts_with("RPUSH") && is_full) return Refusal("OOM command not allowed");
    std::vector<std::string>& list = server_.lists[std::string(words[1])];
    if (words[0] == "EXPIRE") return Integer(1);
    if (words[0].starts_with("RPUSH")) {
      list.emplace_back(words[2]);
      return Integer(static_cast<int64_t>(list.size()));
    }
    EXPECT_EQ(words[0], "LRANGE");
    remote::RespReply all{.kind = remote::RespReply::Kind::kArray};
    for (const std::string& item : list) all.items.push_back(Text(item));
    return all;
  }
  remote::RespReply AnswerOfHash(const Words& words) {
    if (words[0] == "EXPIRE") {
      server_.times_to_live[std::string(words[1])] = words[2];
      return Integer(1);
    }
    if (words[0] == "HSET") {
      if (is_full) return Refusal("OOM command not allowed");
      auto& hash = server_.hashes[std::string(words[1])];
      const bool is_new = hash.insert_or_assign(std::string(words[2]), words[3]).second;
      return Integer(is_new ? 1 : 0);
    }
    if (words[0] == "HDEL") {
      return Integer(server_.hashes[std::string(words[1])].erase(std::string(words[2])) ? 1 : 0);
    }
    if (words[0] == "HLEN") {
      return Integer(static_cast<int64_t>(server_.hashes[std::string(words[1])].size()));
    }
    EXPECT_EQ(words[0], "HGETALL");
    remote::RespReply all{.kind = remote::RespReply::Kind::kArray};
    for (const auto& [field, value] : server_.hashes[std::string(words[1])]) {
      all.items.push_back(Text(field));
      all.items.push_back(Text(value));
    }
    return all;
  }
  // What the scripts of SharedMap do that set a value: EVAL, the script, 1 or 3, its keys, the
  // arguments.
  remote::RespReply EvaluateSet(const Words& words) {
    const bool is_listed = words[2] == "3";
    const std::span<const std::string_view> arguments = std::span(words).subspan(is_listed ? 6 : 4);
    const auto found = server_.values.find(words[3]);
    const std::string version =
        found == server_.values.end() ? std::string() : found->second.substr(0, 32);
    if (version == arguments[1]) return Integer(1);
    if (version != arguments[0]) return Integer(0);
    if (is_full) return Refusal("OOM command not allowed");
    const std::string key(words[3]);
    server_.values[key] = arguments[2];
    server_.times_to_live[key] = arguments[3];
    if (!is_listed) return Integer(1);
    std::map<std::string, int64_t>& index = server_.sets[std::string(words[4])];
    if (!server_.values.contains(words[5])) index.clear();
    if (index.empty()) server_.values[std::string(words[5])] = arguments[1];
    int64_t number = 1;
    for (const auto& [member, at] : index) number = std::max(number, at + 1);
    index[key] = number;
    const auto by_number = [](const auto& a, const auto& b) { return a.second < b.second; };
    if (static_cast<int64_t>(index.size()) > std::atoll(std::string(arguments[4]).c_str())) {
      index.erase(std::min_element(index.begin(), index.end(), by_number));
    }
    return Integer(1);
  }
  // What the script of SharedMap does that lists: EVAL, the script, 2, its keys, the arguments.
  remote::RespReply EvaluateChanged(const Words& words) {
    remote::RespReply found{.kind = remote::RespReply::Kind::kArray};
    const auto index = server_.sets.find(words[3]);
    const auto life = server_.values.find(words[4]);
    const bool is_there = index != server_.sets.end() && life != server_.values.end();
    if (!is_there) {
      return {.kind = remote::RespReply::Kind::kArray, .items = {Text(""), found}};
    }
    const bool is_same = life->second == words[5];
    const int64_t from = is_same ? std::atoll(std::string(words[6]).c_str()) : 0;
    const auto most = 2 * static_cast<size_t>(std::atoll(std::string(words[7]).c_str()));
    std::map<int64_t, std::string> members;
    for (const auto& [member, number] : index->second) members[number] = member;
    for (const auto& [number, member] : members) {
      if (number <= from || found.items.size() >= most) continue;
      found.items.push_back(Text(member));
      found.items.push_back(Text(std::to_string(number)));
    }
    return {.kind = remote::RespReply::Kind::kArray, .items = {Text(life->second), found}};
  }
  // What the scripts of SharedLogs do: EVAL, the script, 2, both keys, the arguments.
  remote::RespReply Evaluate(const Words& words) {
    const std::string base_key(words[4]);
    const auto stored = server_.values.find(base_key);
    std::vector<std::string>& list = server_.lists[std::string(words[3])];
    if (stored == server_.values.end()) list.clear();
    int64_t base = 0;
    std::string epoch;
    if (!list.empty()) {
      base = std::atoll(stored->second.c_str());
      epoch = stored->second.substr(stored->second.find(':') + 1);
    }
    const int64_t length = base + static_cast<int64_t>(list.size());
    const int64_t number = std::atoll(std::string(words[5]).c_str());
    if (words[1].find("RPUSH") == std::string_view::npos) {
      const int64_t from = std::max(number, base);
      remote::RespReply entries{.kind = remote::RespReply::Kind::kArray};
      for (auto i = static_cast<size_t>(from - base); i < list.size(); ++i) {
        entries.items.push_back(Text(list[i]));
      }
      return {.kind = remote::RespReply::Kind::kArray,
              .items = {Integer(length), Integer(from), entries, Text(epoch)}};
    }
    const auto answer = [](int64_t now, const std::string& life) {
      return remote::RespReply{.kind = remote::RespReply::Kind::kArray,
                               .items = {Integer(now), Text(life)}};
    };
    const int64_t at = number - base;
    const bool is_same = epoch == words[6] || epoch == words[7];
    if (is_same && at >= 0 && at < static_cast<int64_t>(list.size()) &&
        list[static_cast<size_t>(at)] == words[10]) {
      return answer(number + static_cast<int64_t>(words.size()) - 10, epoch);
    }
    if (length != number || epoch != words[6]) return answer(-1, epoch);
    if (epoch.empty()) epoch = words[7];
    if (words[8] == "1") {
      list.clear();
      base = length;
    }
    for (size_t i = 10; i < words.size(); ++i) list.emplace_back(words[i]);
    server_.values[base_key] = std::to_string(base) + ":" + epoch;
    return answer(length + static_cast<int64_t>(words.size()) - 10, epoch);
  }

  MemoryServer& server_;
};

}  // namespace kvgate::store::shared
