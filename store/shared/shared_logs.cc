#include "store/shared/shared_logs.h"

#include <utility>

#include <fmt/format.h>

#include "base/digest.h"
#include "base/ids.h"
#include "store/file/byte_codec.h"
#include "store/shared/unexpected_reply.h"

namespace kvgate::store::shared {
namespace {

constexpr std::string_view kEntryPurpose = "shared log";
constexpr std::string_view kRootPurpose = "shared root";

// KEYS: the log, and "CLEARED:EPOCH": the number of entries that were cleared, and which life of
// the log this is. A server that forgets one of them has forgotten both.
constexpr std::string_view kState = R"lua(
local stored = redis.call('GET', KEYS[2])
local size = redis.call('LLEN', KEYS[1])
local base, epoch = 0, ''
if stored and size > 0 then
  local number, life = string.match(stored, '^(%d+):(.*)$')
  base, epoch = tonumber(number), life
else
  size = 0
end
local length = base + size
)lua";

// ARGV: the first number wanted. Returns the length, the first number, the entries, the epoch.
constexpr std::string_view kRead = R"lua(
local from = math.max(tonumber(ARGV[1]), base)
local entries = {}
if size > 0 then entries = redis.call('LRANGE', KEYS[1], from - base, -1) end
return {length, from, entries, epoch}
)lua";

// ARGV: the length and the epoch expected, the epoch of a new log, whether all before is cleared,
// the time to live or 0, then the entries. Returns the length and the epoch, or the length -1. An
// addition that is carried out again finds its first entry where it put it.
constexpr std::string_view kAppend = R"lua(
local expected = tonumber(ARGV[1])
if (epoch == ARGV[2] or epoch == ARGV[3]) and expected >= base and
    redis.call('LINDEX', KEYS[1], expected - base) == ARGV[6] then
  return {expected + #ARGV - 5, epoch}
end
if length ~= expected or epoch ~= ARGV[2] then return {-1, epoch} end
if epoch == '' then
  redis.call('DEL', KEYS[1])
  epoch = ARGV[3]
end
if ARGV[4] == '1' then
  redis.call('DEL', KEYS[1])
  base = length
end
for i = 6, #ARGV do redis.call('RPUSH', KEYS[1], ARGV[i]) end
redis.call('SET', KEYS[2], string.format('%d', base) .. ':' .. epoch)
if ARGV[5] ~= '0' then
  redis.call('EXPIRE', KEYS[1], ARGV[5])
  redis.call('EXPIRE', KEYS[2], ARGV[5])
end
return {length + #ARGV - 5, epoch}
)lua";

const std::string& ReadScript() {
  static const std::string script = std::string(kState) + std::string(kRead);
  return script;
}

const std::string& AppendScript() {
  static const std::string script = std::string(kState) + std::string(kAppend);
  return script;
}

std::string NewEpoch() { return ToHex(RandomSeed(), RandomSeed()); }

// A tenant and an id as one text that no other two give.
std::string Joined(std::string_view tenant, std::string_view id) {
  std::string joined;
  file::AppendVarText(joined, tenant);
  joined += id;
  return joined;
}

}  // namespace

// Both keys of a log are in one slot.
std::string SharedLogs::KeyOf(const Name& name) const {
  return fmt::format("kvg:s:{{{}}}:log",
                     ToHex(ring_.Derive("shared log", Joined(name.tenant, name.root))));
}

std::string SharedLogs::IndexKeyOf(std::string_view tenant, std::string_view id) const {
  return fmt::format("kvg:i:{}", ToHex(ring_.Derive("shared id", Joined(tenant, id))));
}

Result<SharedLogs::Part> SharedLogs::Read(const Name& name, uint64_t from) const {
  const std::string key = KeyOf(name);
  const std::string base = key + ":base";
  const std::string wanted = std::to_string(from);
  KVGATE_TRY(const remote::RespReply reply,
             client_.CallScript(
                 {.script = ReadScript(), .keys = {key, base}, .arguments = {wanted}}, Deadline()));
  if (reply.items.size() != 4 || !reply.items[0].is_integer() || !reply.items[1].is_integer() ||
      !reply.items[3].is_text()) {
    return UnexpectedReply(reply);
  }
  Part part{.state = {.length = static_cast<uint64_t>(reply.items[0].integer),
                      .epoch = reply.items[3].text},
            .first = static_cast<uint64_t>(reply.items[1].integer)};
  for (const remote::RespReply& entry : reply.items[2].items) {
    Result<std::string> opened =
        ring_.Open({.purpose = kEntryPurpose, .tenant = name.tenant, .name = key}, entry.text);
    if (opened) {
      part.entries.push_back(*std::move(opened));
    } else {
      ++part.num_damaged;
    }
  }
  return part;
}

// The ids are written first: one that leads to a log without its entry finds nothing.
Result<std::optional<SharedLogs::State>> SharedLogs::Append(const Name& name,
                                                            const Addition& addition) const {
  const std::string key = KeyOf(name);
  const std::string base = key + ":base";
  const std::string time_to_live = std::to_string(options_.time_to_live.count());
  std::vector<std::string> index;  // keys and values in turn
  for (const std::string& id : addition.ids) {
    index.push_back(IndexKeyOf(name.tenant, id));
    index.push_back(ring_.Seal(
        {.purpose = kRootPurpose, .tenant = name.tenant, .name = index.back()}, name.root));
  }
  std::vector<remote::RespCommand> commands;
  for (size_t i = 0; i < index.size(); i += 2) {
    remote::RespCommand& command = commands.emplace_back(
        remote::RespCommand{.words = {"SET", index[i], index[i + 1]}, .key = index[i]});
    if (options_.time_to_live.count() > 0) {
      command.words.insert(command.words.end(), {"EX", time_to_live});
    }
  }
  if (!commands.empty()) {
    KVGATE_TRY(const std::vector<remote::RespReply> replies, client_.Call(commands, Deadline()));
    for (const remote::RespReply& reply : replies) {
      if (reply.is_error()) return UnexpectedReply(reply);
    }
  }
  const std::string length = std::to_string(addition.expected.length);
  const std::string new_epoch = NewEpoch();
  std::vector<std::string> sealed;
  for (const std::string& entry : addition.entries) {
    sealed.push_back(
        ring_.Seal({.purpose = kEntryPurpose, .tenant = name.tenant, .name = key}, entry));
  }
  remote::RespClient::ScriptCall call{
      .script = AppendScript(), .keys = {key, base}, .arguments = {}};
  call.arguments = {length, addition.expected.epoch, new_epoch, addition.clears ? "1" : "0",
                    time_to_live};
  call.arguments.insert(call.arguments.end(), sealed.begin(), sealed.end());
  KVGATE_TRY(const remote::RespReply reply, client_.CallScript(call, Deadline()));
  if (reply.items.size() != 2 || !reply.items[0].is_integer()) return UnexpectedReply(reply);
  if (reply.items[0].integer < 0) return std::optional<State>();
  return std::optional<State>(
      {.length = static_cast<uint64_t>(reply.items[0].integer), .epoch = reply.items[1].text});
}

Result<std::optional<std::string>> SharedLogs::RootOf(std::string_view tenant,
                                                      std::string_view id) const {
  const std::string key = IndexKeyOf(tenant, id);
  KVGATE_TRY(const remote::RespReply reply,
             client_.CallOne({.words = {"GET", key}, .key = key}, Deadline()));
  if (reply.is_error()) return UnexpectedReply(reply);
  if (!reply.is_text()) return std::optional<std::string>();
  Result<std::string> root =
      ring_.Open({.purpose = kRootPurpose, .tenant = tenant, .name = key}, reply.text);
  // What somebody else put there leads nowhere.
  return root ? std::optional<std::string>(*std::move(root)) : std::nullopt;
}

}  // namespace kvgate::store::shared
