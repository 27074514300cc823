#include "store/shared/shared_rows.h"

#include <algorithm>
#include <deque>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include "base/digest.h"
#include "store/file/byte_codec.h"

namespace kvgate::store::shared {
namespace {

constexpr std::string_view kPurpose = "shared rows";
constexpr std::string_view kList = "list";
constexpr std::string_view kText = "text";
constexpr std::string_view kIndex = "key";
constexpr uint8_t kVersion = 1;
constexpr size_t kFieldDigits = 32;

// Commands whose words this owns.
class Commands {
 public:
  explicit Commands(std::chrono::seconds time_to_live)
      : time_to_live_(std::to_string(time_to_live.count())) {}

  std::string_view Own(std::string word) { return words_.emplace_back(std::move(word)); }
  // Returns the number of the command, which that of its reply is. REQUIRES: the second word is
  // the key.
  size_t Add(std::vector<std::string_view> words) {
    const std::string_view key = words[1];
    commands_.push_back({.words = std::move(words), .key = key});
    return commands_.size() - 1;
  }
  // Its reply is 1 if the key is there.
  size_t AddExpiry(std::string_view key) { return Add({"EXPIRE", key, time_to_live_}); }
  std::string_view time_to_live() const { return time_to_live_; }
  bool is_empty() const { return commands_.empty(); }
  Result<std::vector<remote::RespReply>> Call(remote::RespClient& client,
                                              SharedRows::TimePoint deadline) const {
    return client.Call(commands_, deadline);
  }

 private:
  const std::string time_to_live_;
  std::deque<std::string> words_;
  std::vector<remote::RespCommand> commands_;
};

bool Says(const remote::RespReply& reply, uint64_t number) {
  return reply.is_integer() && reply.integer == static_cast<int64_t>(number);
}

std::string EncodeFound(const SharedRows::Addition& addition) {
  std::string bytes(1, static_cast<char>(kVersion));
  file::AppendText(bytes, addition.list);
  file::AppendValue(bytes, addition.time_us);
  file::AppendText(bytes, addition.about);
  return bytes;
}

}  // namespace

std::string SharedRows::KeyOf(std::string_view kind, std::string_view tenant,
                              std::string_view name) const {
  std::string of;
  file::AppendVarText(of, kind);
  file::AppendVarText(of, tenant);
  of += name;
  return fmt::format("kvg:r:{}", ToHex(ring_.Derive(kPurpose, of)));
}

std::string SharedRows::FieldOf(std::string_view tenant, std::string_view list) const {
  return KeyOf("field", tenant, list).substr(std::string_view("kvg:r:").size(), kFieldDigits);
}

std::optional<std::string> SharedRows::Open(std::string_view tenant, std::string_view place,
                                            const std::string& sealed) const {
  Result<std::string> opened =
      ring_.Open({.purpose = kPurpose, .tenant = tenant, .name = place}, sealed);
  return opened ? std::optional(*std::move(opened)) : std::nullopt;
}

std::optional<SharedRows::Found> SharedRows::OpenFound(std::string_view tenant,
                                                       std::string_view key, std::string_view field,
                                                       const std::string& sealed) const {
  const auto opened = Open(tenant, fmt::format("{}:{}", key, field), sealed);
  if (!opened) return std::nullopt;
  file::ByteReader reader(*opened);
  if (reader.Take<uint8_t>() != kVersion) return std::nullopt;
  Found found{.list = reader.TakeText(), .time_us = reader.Take<int64_t>()};
  found.about = reader.TakeText();
  return reader.at_end() ? std::optional(std::move(found)) : std::nullopt;
}

// Texts go out first and the keys last, so that whoever finds a list finds its row as well.
Result<std::vector<bool>> SharedRows::Add(std::span<const Addition> additions,
                                          TimePoint deadline) const {
  struct Asked {
    size_t row = 0;
    std::vector<size_t> texts = {};                               // that were sent
    std::vector<size_t> lives = {};                               // those of texts that are there
    std::vector<std::pair<size_t, std::string_view>> sizes = {};  // of the keys' lists
  };
  std::vector<Asked> asked;
  if (additions.empty()) return std::vector<bool>();
  Commands commands(options_.time_to_live);
  for (const Addition& addition : additions) {
    const std::string& tenant = addition.tenant;
    Asked& its = asked.emplace_back();
    for (const Text& text : addition.texts) {
      const std::string_view key = commands.Own(KeyOf(kText, tenant, text.name));
      if (text.is_there) {
        its.lives.push_back(commands.AddExpiry(key));
        continue;
      }
      const std::string_view sealed = commands.Own(
          ring_.Seal({.purpose = kPurpose, .tenant = tenant, .name = key}, text.bytes));
      its.texts.push_back(commands.Add({"SET", key, sealed, "EX", commands.time_to_live()}));
    }
    const std::string_view list = commands.Own(KeyOf(kList, tenant, addition.list));
    const std::string_view row = commands.Own(
        ring_.Seal({.purpose = kPurpose, .tenant = tenant, .name = list}, addition.row));
    if (addition.num_before == 0) commands.Add({"DEL", list});
    its.row = commands.Add({addition.num_before == 0 ? "RPUSH" : "RPUSHX", list, row});
    commands.AddExpiry(list);
    const std::string_view field = commands.Own(FieldOf(tenant, addition.list));
    for (const std::string& name : addition.keys) {
      const std::string_view key = commands.Own(KeyOf(kIndex, tenant, name));
      const std::string place = fmt::format("{}:{}", key, field);
      const std::string_view found = commands.Own(ring_.Seal(
          {.purpose = kPurpose, .tenant = tenant, .name = place}, EncodeFound(addition)));
      commands.Add({"HSET", key, field, found});
      commands.AddExpiry(key);
      its.sizes.emplace_back(commands.Add({"HLEN", key}), key);
    }
    for (const std::string& name : addition.former_keys) {
      commands.Add({"HDEL", commands.Own(KeyOf(kIndex, tenant, name)), field});
    }
  }
  KVGATE_TRY(const std::vector<remote::RespReply> replies, commands.Call(client_, deadline));
  std::vector<bool> is_whole;
  std::unordered_set<std::string_view> crowded;  // keys for which room was made
  for (size_t i = 0; i < additions.size(); ++i) {
    const auto& [row, texts, lives, sizes] = asked[i];
    const auto is_set = [&](size_t text) { return replies[text].is_text(); };
    const auto is_alive = [&](size_t text) { return Says(replies[text], 1); };
    is_whole.push_back(Says(replies[row], additions[i].num_before + 1) &&
                       std::all_of(texts.begin(), texts.end(), is_set) &&
                       std::all_of(lives.begin(), lives.end(), is_alive));
    for (const auto& [reply, key] : sizes) {
      const auto most = static_cast<int64_t>(options_.lists_max * 2);
      if (replies[reply].integer <= most || !crowded.insert(key).second) continue;
      MakeRoom(additions[i].tenant, key, key == sizes.front().second, deadline);
    }
  }
  return is_whole;
}

// Lets go of what is older than the newest lists of a key, and of what nobody can read. Where that
// fails, it is done with a later row.
void SharedRows::MakeRoom(std::string_view tenant, std::string_view key, bool deletes_lists,
                          TimePoint deadline) const {
  Commands read(options_.time_to_live);
  read.Add({"HGETALL", key});
  const auto replies = read.Call(client_, deadline);
  if (!replies) return;
  struct Entry {
    int64_t time_us = 0;  // 0: it cannot be read
    std::string_view field = {};
    std::string list = {};
  };
  std::vector<Entry> entries;
  const std::vector<remote::RespReply>& items = replies->front().items;
  for (size_t at = 0; at + 1 < items.size(); at += 2) {
    auto found = OpenFound(tenant, key, items[at].text, items[at + 1].text);
    Entry& entry = entries.emplace_back(Entry{.field = items[at].text});
    if (!found) continue;
    entry.time_us = found->time_us;
    entry.list = std::move(found->list);
  }
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.time_us < b.time_us; });
  Commands removals(options_.time_to_live);
  for (size_t old = 0; old + options_.lists_max < entries.size(); ++old) {
    removals.Add({"HDEL", key, entries[old].field});
    if (!deletes_lists || entries[old].time_us == 0) continue;
    removals.Add({"DEL", removals.Own(KeyOf(kList, tenant, entries[old].list))});
  }
  if (!removals.is_empty()) (void)removals.Call(client_, deadline);
}

Result<std::vector<SharedRows::Found>> SharedRows::Find(std::string_view tenant,
                                                        std::span<const std::string> keys,
                                                        TimePoint deadline) const {
  std::vector<Found> all;
  if (keys.empty()) return all;
  Commands commands(options_.time_to_live);
  std::vector<std::string_view> index_keys;
  for (const std::string& name : keys) {
    index_keys.push_back(commands.Own(KeyOf(kIndex, tenant, name)));
    commands.Add({"HGETALL", index_keys.back()});
  }
  KVGATE_TRY(const std::vector<remote::RespReply> replies, commands.Call(client_, deadline));
  std::unordered_map<std::string, size_t> places;  // in `all`, by list
  for (size_t i = 0; i < replies.size(); ++i) {
    const std::vector<remote::RespReply>& items = replies[i].items;
    for (size_t at = 0; at + 1 < items.size(); at += 2) {
      auto found = OpenFound(tenant, index_keys[i], items[at].text, items[at + 1].text);
      if (!found) continue;
      const auto [place, is_new] = places.try_emplace(found->list, all.size());
      if (is_new) {
        all.push_back(*std::move(found));
      } else if (found->time_us > all[place->second].time_us) {
        all[place->second] = *std::move(found);
      }
    }
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Found& a, const Found& b) { return a.time_us > b.time_us; });
  if (all.size() > options_.lists_max) all.resize(options_.lists_max);
  return all;
}

Result<std::vector<std::vector<std::string>>> SharedRows::Read(std::string_view tenant,
                                                               std::span<const std::string> lists,
                                                               TimePoint deadline) const {
  Commands commands(options_.time_to_live);
  std::vector<std::string_view> places;
  for (const std::string& list : lists) {
    places.push_back(commands.Own(KeyOf(kList, tenant, list)));
    commands.Add({"LRANGE", places.back(), "0", "-1"});
  }
  KVGATE_TRY(const std::vector<remote::RespReply> replies, commands.Call(client_, deadline));
  std::vector<std::vector<std::string>> all;
  for (size_t i = 0; i < replies.size(); ++i) {
    std::vector<std::string>& rows = all.emplace_back();
    for (const remote::RespReply& item : replies[i].items) {
      std::optional<std::string> row = Open(tenant, places[i], item.text);
      if (!row) {
        rows.clear();
        break;
      }
      rows.push_back(*std::move(row));
    }
  }
  return all;
}

Result<std::vector<std::optional<std::string>>> SharedRows::ReadTexts(
    std::string_view tenant, std::span<const std::string> names, TimePoint deadline) const {
  std::vector<std::optional<std::string>> texts;
  if (names.empty()) return texts;
  Commands commands(options_.time_to_live);
  std::vector<std::string_view> places;
  for (const std::string& name : names) {
    places.push_back(commands.Own(KeyOf(kText, tenant, name)));
    commands.Add({"GET", places.back()});
  }
  KVGATE_TRY(const std::vector<remote::RespReply> replies, commands.Call(client_, deadline));
  for (size_t i = 0; i < replies.size(); ++i) {
    texts.push_back(replies[i].is_text() ? Open(tenant, places[i], replies[i].text) : std::nullopt);
  }
  return texts;
}

Result<void> SharedRows::Remove(std::span<const Removal> removals, TimePoint deadline) const {
  Commands commands(options_.time_to_live);
  for (const Removal& removal : removals) {
    commands.Add({"DEL", commands.Own(KeyOf(kList, removal.tenant, removal.list))});
    const std::string_view field = commands.Own(FieldOf(removal.tenant, removal.list));
    for (const std::string& name : removal.keys) {
      commands.Add({"HDEL", commands.Own(KeyOf(kIndex, removal.tenant, name)), field});
    }
  }
  if (commands.is_empty()) return {};
  KVGATE_TRY_VOID(commands.Call(client_, deadline));
  return {};
}

}  // namespace kvgate::store::shared
