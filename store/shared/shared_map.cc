#include "store/shared/shared_map.h"

#include <charconv>
#include <utility>

#include <fmt/format.h>

#include "base/digest.h"
#include "base/ids.h"
#include "store/file/byte_codec.h"
#include "store/shared/unexpected_reply.h"

namespace kvgate::store::shared {
namespace {

constexpr std::string_view kSource = "store.shared";
constexpr std::string_view kPurpose = "shared map";
constexpr std::string_view kTenantPurpose = "shared map tenant";
constexpr char kFormat = 1;
constexpr size_t kVersionBytes = 32;  // hex digits, in front of what is sealed

// KEYS: the value. ARGV: the version expected, the new one, the value with it in front, the time to
// live or 0. Returns 1 if it was set, and 0 if another version is there.
constexpr std::string_view kSet = R"lua(
local version = redis.call('GETRANGE', KEYS[1], 0, 31)
if version == ARGV[2] then return 1 end
if version ~= ARGV[1] then return 0 end
if ARGV[4] == '0' then
  redis.call('SET', KEYS[1], ARGV[3])
else
  redis.call('SET', KEYS[1], ARGV[3], 'EX', ARGV[4])
end
)lua";

constexpr std::string_view kSetEnd = "return 1\n";

// Further KEYS: the index and the life. Further ARGV: how many keys the index holds, and the time
// to live of both or 0. A server that forgets one of them has forgotten both.
constexpr std::string_view kList = R"lua(
local newest = redis.call('ZREVRANGE', KEYS[2], 0, 0, 'WITHSCORES')
local number = 1
if newest[2] and redis.call('EXISTS', KEYS[3]) == 1 then
  number = tonumber(newest[2]) + 1
else
  redis.call('DEL', KEYS[2])
  redis.call('SET', KEYS[3], ARGV[2])
end
redis.call('ZADD', KEYS[2], string.format('%d', number), KEYS[1])
redis.call('ZREMRANGEBYRANK', KEYS[2], 0, -1 - tonumber(ARGV[5]))
if ARGV[6] ~= '0' then
  redis.call('EXPIRE', KEYS[2], ARGV[6])
  redis.call('EXPIRE', KEYS[3], ARGV[6])
end
return 1
)lua";

// KEYS: the index and the life. ARGV: the life and the number of a position, how many keys. Returns
// the life, and keys and numbers in turn.
constexpr std::string_view kChanged = R"lua(
local life = redis.call('GET', KEYS[2])
if not life or redis.call('EXISTS', KEYS[1]) == 0 then return {'', {}} end
local from = '0'
if life == ARGV[1] then from = ARGV[2] end
return {life, redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. from, '+inf', 'WITHSCORES',
                         'LIMIT', '0', ARGV[3])}
)lua";

const std::string& SetScript() {
  static const std::string script = std::string(kSet) + std::string(kSetEnd);
  return script;
}

const std::string& ListedSetScript() {
  static const std::string script = std::string(kSet) + std::string(kList);
  return script;
}

std::string NewVersion() { return ToHex(RandomSeed(), RandomSeed()); }

std::string Joined(std::string_view kind, std::string_view tenant, std::string_view name) {
  std::string joined;
  file::AppendVarText(joined, kind);
  file::AppendVarText(joined, tenant);
  joined += name;
  return joined;
}

std::string BeginOf(const SharedMap::Options& options, const Keyring& ring) {
  if (!options.is_listed) return "kvg:m:";
  return fmt::format("kvg:m:{{{}}}:", ToHex(ring.Derive("shared maps", options.kind)));
}

SharedMap::Value::State StateOf(const Error& error) {
  const bool is_foreign = error.code == ErrorCode::kPermissionDenied ||  // of a missing secret
                          error.code == ErrorCode::kUnsupported;
  return is_foreign ? SharedMap::Value::State::kForeign : SharedMap::Value::State::kDamaged;
}

}  // namespace

SharedMap::SharedMap(Options options, remote::RespClient& client, const Keyring& ring)
    : options_(std::move(options)),
      client_(client),
      ring_(ring),
      begin_(BeginOf(options_, ring)),
      index_key_(begin_ + "index"),
      life_key_(options_.is_listed
                    ? begin_ + "life"
                    : fmt::format("{}{}:life", begin_,
                                  ToHex(ring.Derive("shared maps", options_.kind)))) {}

std::string SharedMap::KeyOf(const Name& name) const {
  return begin_ + ToHex(ring_.Derive(kPurpose, Joined(options_.kind, name.tenant, name.name)));
}

// VERSION size:varint sealed(format tenant) sealed(bytes).
SharedMap::Value SharedMap::Read(const std::string& key, const remote::RespReply& reply) const {
  if (!reply.is_text()) return {};
  Value value{.state = Value::State::kDamaged, .version = reply.text.substr(0, kVersionBytes)};
  if (reply.text.size() < kVersionBytes) return value;
  std::string_view rest = std::string_view(reply.text).substr(kVersionBytes);
  const std::optional<std::string_view> sealed_tenant = file::TakeVarText(rest);
  if (!sealed_tenant) return value;
  const Result<std::string> tenant =
      ring_.Open({.purpose = kTenantPurpose, .name = key}, *sealed_tenant);
  if (!tenant || tenant->empty()) {
    if (!tenant) value.state = StateOf(tenant.error());
    return value;
  }
  if (tenant->front() != kFormat) {
    value.state = Value::State::kForeign;
    return value;
  }
  value.tenant = tenant->substr(1);
  Result<std::string> bytes =
      ring_.Open({.purpose = kPurpose, .tenant = value.tenant, .name = key}, rest);
  value.state = bytes ? Value::State::kThere : StateOf(bytes.error());
  if (bytes) value.bytes = *std::move(bytes);
  return value;
}

Result<std::vector<SharedMap::Value>> SharedMap::Get(std::span<const std::string> keys,
                                                     SteadyClock::time_point deadline) const {
  if (keys.empty()) return std::vector<Value>();
  const std::string time_to_live = std::to_string(options_.time_to_live.count());
  const bool renews = !options_.is_listed && options_.time_to_live.count() > 0;
  std::vector<remote::RespCommand> commands;
  for (const std::string& key : keys) commands.push_back({.words = {"GET", key}, .key = key});
  for (const std::string& key : keys) {
    if (renews) commands.push_back({.words = {"EXPIRE", key, time_to_live}, .key = key});
  }
  KVGATE_TRY(const std::vector<remote::RespReply> replies, client_.Call(commands, deadline));
  std::vector<Value> values;
  for (size_t i = 0; i < keys.size(); ++i) {
    if (replies[i].is_error()) return UnexpectedReply(replies[i]);
    values.push_back(Read(keys[i], replies[i]));
  }
  return values;
}

Result<std::optional<std::string>> SharedMap::Set(const Setting& setting,
                                                  SteadyClock::time_point deadline) const {
  if (setting.bytes.size() > options_.value_bytes_max) {
    return MakeError(ErrorCode::kTooLarge, kSource,
                     fmt::format("a value of {} bytes; gateways share at most {}",
                                 setting.bytes.size(), options_.value_bytes_max));
  }
  const std::string key = KeyOf(setting.name);
  const std::string version = NewVersion();
  const std::string tenant = std::string(1, kFormat) + std::string(setting.name.tenant);
  std::string value = version;
  file::AppendVarText(value, ring_.Seal({.purpose = kTenantPurpose, .name = key}, tenant));
  value +=
      ring_.Seal({.purpose = kPurpose, .tenant = setting.name.tenant, .name = key}, setting.bytes);
  const std::string own_time =
      std::to_string(setting.time_to_live.value_or(options_.time_to_live).count());
  const std::string time = std::to_string(options_.time_to_live.count());
  const std::string listed_max = std::to_string(options_.listed_max);
  remote::RespClient::ScriptCall call{.script = SetScript(), .keys = {key}, .arguments = {}};
  call.arguments = {setting.expected, version, value, own_time};
  if (options_.is_listed) {
    call.script = ListedSetScript();
    call.keys = {key, index_key_, life_key_};
    call.arguments.insert(call.arguments.end(), {listed_max, time});
  }
  KVGATE_TRY(const remote::RespReply reply, client_.CallScript(call, deadline));
  if (!reply.is_integer()) return UnexpectedReply(reply);
  return reply.integer == 1 ? std::optional(version) : std::nullopt;
}

Result<std::vector<bool>> SharedMap::Renew(std::span<const std::string> keys,
                                           SteadyClock::time_point deadline) const {
  if (keys.empty()) return std::vector<bool>();
  const std::string time = std::to_string(options_.time_to_live.count());
  const bool expires = options_.time_to_live.count() > 0;
  std::vector<remote::RespCommand> commands;
  const auto add = [&](const std::string& key) {
    remote::RespCommand command{.words = {"EXISTS", key}, .key = key};
    if (expires) command.words = {"EXPIRE", key, time};
    commands.push_back(std::move(command));
  };
  for (const std::string& key : keys) add(key);
  if (options_.is_listed) {
    add(index_key_);
    add(life_key_);
  }
  KVGATE_TRY(const std::vector<remote::RespReply> replies, client_.Call(commands, deadline));
  std::vector<bool> are_there;
  for (size_t i = 0; i < keys.size(); ++i) {
    if (!replies[i].is_integer()) return UnexpectedReply(replies[i]);
    are_there.push_back(replies[i].integer == 1);
  }
  return are_there;
}

Result<std::string> SharedMap::Life(SteadyClock::time_point deadline) const {
  const std::string life = NewVersion();
  const std::string time = std::to_string(options_.time_to_live.count());
  std::vector<remote::RespCommand> commands = {
      {.words = {"SET", life_key_, life, "NX"}, .key = life_key_},
      {.words = {"GET", life_key_}, .key = life_key_}};
  if (options_.time_to_live.count() > 0) {
    commands.push_back({.words = {"EXPIRE", life_key_, time}, .key = life_key_});
  }
  KVGATE_TRY(const std::vector<remote::RespReply> replies, client_.Call(commands, deadline));
  if (replies[0].is_error()) return UnexpectedReply(replies[0]);
  if (!replies[1].is_text()) return UnexpectedReply(replies[1]);
  return replies[1].text;
}

Result<SharedMap::Changes> SharedMap::ChangedSince(const Position& position, size_t keys_max,
                                                   SteadyClock::time_point deadline) const {
  const std::string last = std::to_string(position.last);
  const std::string count = std::to_string(keys_max);
  KVGATE_TRY(const remote::RespReply reply,
             client_.CallScript({.script = kChanged,
                                 .keys = {index_key_, life_key_},
                                 .arguments = {position.life, last, count}},
                                deadline));
  if (reply.items.size() != 2 || !reply.items[0].is_text() || !reply.items[1].is_array()) {
    return UnexpectedReply(reply);
  }
  Changes changes{.position = {.life = reply.items[0].text}};
  if (changes.position.life == position.life) changes.position.last = position.last;
  const std::vector<remote::RespReply>& found = reply.items[1].items;
  changes.has_more = found.size() >= 2 * keys_max;
  for (size_t i = 0; i + 1 < found.size(); i += 2) {
    const std::string& number = found[i + 1].text;
    const auto read =
        std::from_chars(number.data(), number.data() + number.size(), changes.position.last);
    if (read.ec != std::errc()) return UnexpectedReply(reply);
    changes.keys.push_back(found[i].text);
  }
  return changes;
}

}  // namespace kvgate::store::shared
