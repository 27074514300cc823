#include "store/shared/shared_sums.h"

#include <cmath>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/digest.h"
#include "base/ids.h"
#include "store/file/byte_codec.h"

namespace kvgate::store::shared {
namespace {

constexpr std::string_view kSource = "store.shared";
constexpr std::string_view kPurpose = "shared sum";
constexpr uint8_t kVersion = 1;

// What a value is sealed for: its key and field, as one text that no other two give.
std::string PlaceOf(std::string_view key, std::string_view field) {
  std::string place;
  file::AppendVarText(place, key);
  place += field;
  return place;
}

std::string Encode(std::span<const double> values) {
  std::string bytes(1, static_cast<char>(kVersion));
  for (const double value : values) file::AppendValue(bytes, value);
  return bytes;
}

// Returns nothing if it is not a list of so many finite numbers.
std::optional<std::vector<double>> Decode(std::string_view bytes, size_t num_values) {
  file::ByteReader reader(bytes);
  if (reader.Take<uint8_t>() != kVersion) return std::nullopt;
  std::vector<double> values;
  for (size_t i = 0; i < num_values; ++i) {
    values.push_back(reader.Take<double>());
    if (!std::isfinite(values.back()) || values.back() < 0) return std::nullopt;
  }
  return reader.at_end() ? std::optional(std::move(values)) : std::nullopt;
}

Error NotUnderstood(const remote::RespReply& reply) {
  return MakeError(ErrorCode::kUnavailable, kSource,
                   reply.is_error() ? fmt::format("the shared store refuses: {}", reply.text)
                                    : "the shared store answers what nobody asked");
}

}  // namespace

std::string SharedSums::FieldOf(std::string_view gateway) const {
  return ToHex(ring_.Derive("shared gateway", gateway)).substr(0, 32);
}

std::string SharedSums::KeyOf(const Own& own) const {
  std::string name;
  file::AppendVarText(name, own.kind);
  name += own.tenant;
  return fmt::format("kvg:n:{}", ToHex(ring_.Derive(kPurpose, name)));
}

SharedSums::Others SharedSums::Read(const Own& own, const std::string& key,
                                    const remote::RespReply& reply) const {
  Others read;
  for (size_t at = 0; at + 1 < reply.items.size(); at += 2) {
    const std::string& field = reply.items[at].text;
    if (field == own.field) {
      read.has_own = true;
      continue;
    }
    const std::string place = PlaceOf(key, field);
    const Result<std::string> opened = ring_.Open(
        {.purpose = kPurpose, .tenant = own.tenant, .name = place}, reply.items[at + 1].text);
    std::optional<std::vector<double>> values;
    if (opened) values = Decode(*opened, own.values.size());
    if (values) {
      read.others.push_back({.field = field, .values = *std::move(values)});
    } else {
      ++read.num_damaged;
    }
  }
  return read;
}

Result<std::vector<SharedSums::Others>> SharedSums::Exchange(
    std::span<const Own> own, SteadyClock::time_point deadline) const {
  struct Texts {
    std::string key = {};
    std::string sealed = {};
    std::string time_to_live = {};
  };
  std::vector<Texts> texts;
  texts.reserve(own.size());  // commands refer to them
  std::vector<remote::RespCommand> commands;
  std::vector<size_t> reads;  // the commands whose replies are wanted
  for (const Own& one : own) {
    Texts& text = texts.emplace_back(Texts{.key = KeyOf(one)});
    if (one.is_said) {
      const std::string place = PlaceOf(text.key, one.field);
      text.sealed = ring_.Seal({.purpose = kPurpose, .tenant = one.tenant, .name = place},
                               Encode(one.values));
      text.time_to_live = std::to_string(one.time_to_live.count());
      commands.push_back({.words = {"HSET", text.key, one.field, text.sealed}, .key = text.key});
      commands.push_back({.words = {"EXPIRE", text.key, text.time_to_live}, .key = text.key});
    }
    for (const std::string& field : one.removed) {
      commands.push_back({.words = {"HDEL", text.key, field}, .key = text.key});
    }
    reads.push_back(commands.size());
    commands.push_back({.words = {"HGETALL", text.key}, .key = text.key});
  }
  KVGATE_TRY(const std::vector<remote::RespReply> replies, client_.Call(commands, deadline));
  for (const remote::RespReply& reply : replies) {
    if (reply.is_error()) return NotUnderstood(reply);
  }
  std::vector<Others> all;
  all.reserve(own.size());
  for (size_t i = 0; i < own.size(); ++i) {
    const remote::RespReply& reply = replies[reads[i]];
    if (!reply.is_array()) return NotUnderstood(reply);
    all.push_back(Read(own[i], texts[i].key, reply));
  }
  return all;
}

Result<bool> SharedSums::Claim(const Claimed& claimed, SteadyClock::time_point deadline) const {
  const std::string key =
      fmt::format("kvg:c:{}", ToHex(ring_.Derive("shared claim", claimed.what)));
  const std::string time = std::to_string(claimed.time_to_live.count());
  const remote::RespCommand commands[] = {
      {.words = {"SET", key, claimed.by, "NX", "EX", time}, .key = key},
      {.words = {"GET", key}, .key = key}};
  KVGATE_TRY(const std::vector<remote::RespReply> replies, client_.Call(commands, deadline));
  for (const remote::RespReply& reply : replies) {
    if (reply.is_error()) return NotUnderstood(reply);
  }
  return replies.back().text == claimed.by;
}

}  // namespace kvgate::store::shared
