#include "gateway/ledger/prices.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/check.h"
#include "base/regular_file.h"
#include "gateway/ledger/data/prices_data.h"

namespace kvgate::ledger {
namespace {

using Json = nlohmann::json;

constexpr double kDollarsMax = 1000;  // per million tokens; keeps sums far from overflow
constexpr double kFactorMax = 100;
constexpr uint64_t kFileBytesMax = uint64_t{16} << 20;
constexpr double kTokensMax = 1e9;
constexpr double kPicodollars = 1e6;  // per token, for a dollar per million

// Reads one object by its known keys; Finish reports a key that was not asked for as an error.
class Fields {
 public:
  Fields(const Json& object, std::string path, std::string_view file)
      : object_(object), path_(std::move(path)), file_(file) {
    if (!object_.is_object()) Fail("must be an object");
  }

  bool has(const char* key) const { return object_.is_object() && object_.contains(key); }
  std::string At(const char* key) const { return path_.empty() ? key : path_ + "." + key; }

  std::optional<double> Number(const char* key, double max) {
    if (!Take(key)) return std::nullopt;
    const Json& value = object_[key];
    const double number = value.is_number() ? value.get<double>() : -1;
    if (number >= 0 && number <= max) return number;
    Fail(fmt::format("'{}' must be a number from 0 to {}", At(key), max));
    return std::nullopt;
  }

  std::string Text(const char* key) {
    if (Take(key) && object_[key].is_string()) return object_[key].get<std::string>();
    Fail(fmt::format("'{}' must be a text", At(key)));
    return {};
  }

  // Returns the 1-based index of the value in `names`; 0 if the key is missing or the value is
  // invalid.
  size_t OneOf(const char* key, std::initializer_list<std::string_view> names) {
    if (!Take(key)) return 0;
    const std::string text = Text(key);
    size_t index = 0;
    for (const std::string_view name : names) {
      ++index;
      if (text == name) return index;
    }
    Fail(fmt::format("'{}' must be one of: {}", At(key), fmt::join(names, ", ")));
    return 0;
  }

  bool Flag(const char* key) {
    if (!Take(key)) return false;
    if (!object_[key].is_boolean()) Fail(fmt::format("'{}' must be true or false", At(key)));
    return object_[key].is_boolean() && object_[key].get<bool>();
  }

  const Json* Any(const char* key) { return Take(key) ? &object_[key] : nullptr; }

  void Fail(std::string what) {
    if (!error_) {
      error_ = MakeError(ErrorCode::kInvalidArgument, "ledger.prices",
                         fmt::format("{}: {}", file_, what), path_);
    }
  }
  void Adopt(std::optional<Error> error) {
    if (!error_) error_ = std::move(error);
  }

  std::optional<Error> Finish() {
    if (error_ || !object_.is_object()) return std::move(error_);
    for (const auto& [key, value] : object_.items()) {
      if (taken_.find(" " + key + " ") != std::string::npos) continue;
      Fail(fmt::format("unknown key '{}'", At(key.c_str())));
    }
    return std::move(error_);
  }

 private:
  bool Take(const char* key) {
    taken_ += fmt::format(" {} ", key);
    return has(key);
  }

  const Json& object_;
  const std::string path_;
  const std::string_view file_;
  std::string taken_;
  std::optional<Error> error_;
};

std::optional<Error> ReadRules(const Json& json, const std::string& path, std::string_view file,
                               CacheRules& rules) {
  Fields fields(json, path, file);
  const auto read = [&](const char* key, int64_t& out) {
    out = static_cast<int64_t>(fields.Number(key, kTokensMax).value_or(0));
  };
  read("minimum_tokens", rules.minimum_tokens);
  read("increment_tokens", rules.increment_tokens);
  read("breakpoints_max", rules.breakpoints_max);
  read("lookback_blocks", rules.lookback_blocks);
  read("first_breakpoints_read", rules.first_breakpoints_read);
  read("last_breakpoints_read", rules.last_breakpoints_read);
  read("earlier_turns_read", rules.earlier_turns_read);
  read("ttl_seconds", rules.ttl_seconds);
  read("ttl_long_seconds", rules.ttl_long_seconds);
  rules.breakpoints = BreakpointSyntax(fields.OneOf("markers", {"cache_control", "breakpoint"}));
  rules.automatic_breakpoint = fields.Flag("automatic_marker");
  rules.implicit_breakpoint = fields.Flag("implicit_breakpoint");
  rules.cache_key =
      CacheKeyUse(fields.OneOf("prompt_cache_key", {"routing", "matched", "required"}));
  rules.key_of_conversation = fields.OneOf("key_of", {"shape", "conversation"}) == 2;
  read("key_requests_per_minute", rules.key_requests_per_minute);
  read("key_characters_max", rules.key_characters_max);
  if (fields.has("conversation_header")) {
    rules.conversation_header = fields.Text("conversation_header");
  }
  rules.unit_is_turn = fields.OneOf("unit", {"tokens", "turns"}) == 2;
  rules.tools_after_system = fields.Flag("tools_after_system");
  return fields.Finish();
}

std::optional<Error> ReadLongInput(const Json& json, const std::string& path, std::string_view file,
                                   PriceRow& row) {
  Fields fields(json, path, file);
  row.long_input_tokens =
      static_cast<int64_t>(fields.Number("above_tokens", kTokensMax).value_or(0));
  row.long_input_factor = fields.Number("input_factor", kFactorMax).value_or(1);
  row.long_output_factor = fields.Number("output_factor", kFactorMax).value_or(1);
  return fields.Finish();
}

std::optional<Error> ReadTiers(const Json& json, const std::string& path, std::string_view file,
                               std::map<std::string, double>& tiers) {
  Fields fields(json, path, file);
  if (json.is_object()) {
    for (const auto& [tier, factor] : json.items()) {
      tiers[tier] = fields.Number(tier.c_str(), kFactorMax).value_or(1);
    }
  }
  return fields.Finish();
}

// Prices and factors must be complete, because half of them would mean guessing the other half.
void ReadPrices(Fields& fields, PriceRow& row) {
  const auto input = fields.Number("input", kDollarsMax);
  const auto output = fields.Number("output", kDollarsMax);
  const auto read = fields.Number("cache_read_factor", kFactorMax);
  const auto write = fields.Number("cache_write_factor", kFactorMax);
  const auto write_1h = fields.Number("cache_write_1h_factor", kFactorMax);
  const auto rent_hour = fields.Number("cache_rent_hour_factor", kFactorMax);
  if (!input && !output && !read && !write && !write_1h && !rent_hour) return;
  const bool is_priced = input || output;
  if (!read || !write || input.has_value() != output.has_value()) {
    fields.Fail(fmt::format(
        "{} needs {}'{}' and '{}'", is_priced ? "a price" : "a factor",
        is_priced ? fmt::format("'{}', '{}', ", fields.At("input"), fields.At("output")) : "",
        fields.At("cache_read_factor"), fields.At("cache_write_factor")));
    return;
  }
  row.factors =
      CacheFactors{.read = *read,
                   .write = *write,
                   .write_long = write_1h.value_or(*write),
                   .rent_hour = rent_hour.value_or(0)};
  if (!is_priced) return;
  const auto picodollars = [](double dollars) {
    return static_cast<int64_t>(std::llround(dollars * kPicodollars));
  };
  row.prices = TokenPrices{.input = picodollars(*input),
                           .output = picodollars(*output),
                           .cache_read = picodollars(*input * row.factors->read),
                           .cache_write = picodollars(*input * row.factors->write),
                           .cache_write_1h = picodollars(*input * row.factors->write_long)};
}

std::optional<Error> ReadRow(const Json& json, const std::string& path, std::string_view file,
                             PriceRow& row) {
  Fields fields(json, path, file);
  const Json* models = fields.Any("models");
  if (models != nullptr && models->is_array()) {
    for (const Json& glob : *models) {
      if (glob.is_string()) row.models.push_back(glob.get<std::string>());
    }
  }
  if (models == nullptr || row.models.empty() || row.models.size() != models->size()) {
    fields.Fail(fmt::format("'{}' must be an array of texts", fields.At("models")));
  }
  ReadPrices(fields, row);
  if (const Json* rules = fields.Any("rules")) {
    fields.Adopt(ReadRules(*rules, fields.At("rules"), file, row.rules));
    row.has_rules = true;
  }
  if (const Json* long_input = fields.Any("long_input")) {
    fields.Adopt(ReadLongInput(*long_input, fields.At("long_input"), file, row));
  }
  if (const Json* tiers = fields.Any("service_tiers")) {
    fields.Adopt(ReadTiers(*tiers, fields.At("service_tiers"), file, row.service_tiers));
  }
  row.context_tokens =
      static_cast<int64_t>(fields.Number("context_tokens", kTokensMax).value_or(0));
  row.binds_thinking = fields.Flag("binds_thinking");
  row.system_turn = SystemTurn(fields.OneOf("system_turn", {"developer", "plain", "clear_at"}));
  row.source = fields.Text("source");
  row.date = fields.Text("date");
  return fields.Finish();
}

// Returns 1 for the standard tiers; others must be listed in the row.
std::optional<double> TierFactor(const PriceRow& row, std::string_view tier) {
  if (tier.empty() || tier == "default" || tier == "standard" || tier == "auto") return 1;
  const auto found = row.service_tiers.find(std::string(tier));
  if (found == row.service_tiers.end()) return std::nullopt;
  return found->second;
}

int64_t ToNanodollars(int64_t picodollars, double factor) {
  const long double value = static_cast<long double>(picodollars) * factor;
  return static_cast<int64_t>(std::floor(value / 1000 + 0.5L));
}

}  // namespace

bool FitsGlob(std::string_view glob, std::string_view text) {
  size_t g = 0;
  size_t t = 0;
  size_t star = std::string_view::npos;  // the last * seen, and how much text it covers
  size_t taken = 0;
  while (t < text.size()) {
    if (g < glob.size() && glob[g] == '*') {
      star = g++;
      taken = t;
    } else if (g < glob.size() && (glob[g] == '?' || glob[g] == text[t])) {
      ++g;
      ++t;
    } else if (star != std::string_view::npos) {
      g = star + 1;
      t = ++taken;
    } else {
      return false;
    }
  }
  while (g < glob.size() && glob[g] == '*') ++g;
  return g == glob.size();
}

const Prices& Prices::Builtin() {
  static const Prices prices = [] {
    Result<Prices> parsed = Parse(data::kPricesJson, "prices.json");
    KVGATE_CHECK(parsed.has_value(), "the built-in prices cannot be read");
    return std::move(*parsed);
  }();
  return prices;
}

Result<Prices> Prices::Parse(std::string_view json, std::string_view file_name) {
  const Json root = Json::parse(json, nullptr, false);
  Fields fields(root, "", file_name);
  Prices prices;
  prices.date_ = fields.Text("date");
  fields.Any("unit");  // for human readers
  fields.Any("how");
  const Json* providers = fields.Any("providers");
  if (providers == nullptr || !providers->is_object()) {
    fields.Fail("'providers' must be an object of arrays");
    return *fields.Finish();
  }
  for (const auto& [name, rows] : providers->items()) {
    const std::string path = "providers." + name;
    if (!rows.is_array()) fields.Fail(fmt::format("'{}' must be an array", path));
    for (size_t i = 0; rows.is_array() && i < rows.size(); ++i) {
      PriceRow row;
      fields.Adopt(ReadRow(rows[i], fmt::format("{}[{}]", path, i), file_name, row));
      prices.providers_[name].push_back(std::move(row));
    }
  }
  if (auto error = fields.Finish()) return std::move(*error);
  return prices;
}

Result<Prices> Prices::Load(const std::filesystem::path& path) {
  const Result<std::string> text = ReadRegularFile(path, {.bytes_max = kFileBytesMax});
  if (!text) {
    return MakeError(
        ErrorCode::kInvalidArgument, "ledger.prices",
        fmt::format("{}: the price file cannot be read: {}", path.string(), text.error().detail),
        "ledger.prices");
  }
  KVGATE_TRY(Prices prices, Parse(*text, path.string()));
  for (const auto& [provider, rows] : Builtin().providers_) {
    auto& own = prices.providers_[provider];
    for (PriceRow& row : own) {
      const PriceRow* builtin = Builtin().Find(provider, row.models.front());
      if (builtin == nullptr) continue;
      if (!row.has_rules) row.rules = builtin->rules;
      if (row.factors && row.factors->rent_hour == 0 && builtin->factors) {
        row.factors->rent_hour = builtin->factors->rent_hour;
      }
      row.binds_thinking = row.binds_thinking || builtin->binds_thinking;
      if (row.system_turn == SystemTurn::kNone) row.system_turn = builtin->system_turn;
    }
    own.insert(own.end(), rows.begin(), rows.end());
  }
  return prices;
}

const PriceRow* Prices::Find(std::string_view provider, std::string_view model) const {
  const auto found = providers_.find(provider);
  if (found == providers_.end()) return nullptr;
  // Most rows belong to models with another first letter, which is a cheap test.
  const auto may_fit = [&](const std::string& glob) {
    return model.empty() || glob[0] == model[0] || glob[0] == '*' || glob[0] == '?';
  };
  for (const PriceRow& row : found->second) {
    for (const std::string& glob : row.models) {
      if (may_fit(glob) && FitsGlob(glob, model)) return &row;
    }
  }
  return nullptr;
}

std::optional<Cost> CostOf(const PriceRow& row, const reply::TokenUsage& usage,
                           std::string_view tier) {
  const std::optional<double> factor = TierFactor(row, tier);
  if (!row.prices || !factor) return std::nullopt;
  const TokenPrices& prices = *row.prices;
  const bool is_long = row.long_input_tokens > 0 && usage.input_tokens() > row.long_input_tokens;
  const double input_factor = *factor * (is_long ? row.long_input_factor : 1);
  const double output_factor = *factor * (is_long ? row.long_output_factor : 1);
  const int64_t input = usage.uncached_tokens * prices.input +
                        usage.cache_read_tokens * prices.cache_read +
                        usage.cache_write_tokens * prices.cache_write +
                        usage.cache_write_1h_tokens * prices.cache_write_1h;
  const int64_t output = ToNanodollars(usage.output_tokens * prices.output, output_factor);
  const int64_t cost = ToNanodollars(input, input_factor) + output;
  return Cost{.nanodollars = cost,
              .uncached_nanodollars =
                  ToNanodollars(usage.input_tokens() * prices.input, input_factor) + output,
              .direct_nanodollars = cost};
}

int64_t RentOf(const PriceRow& row, int64_t num_tokens, int64_t seconds) {
  if (!row.prices || !row.factors) return 0;
  const double hours = static_cast<double>(seconds) / 3600;
  return ToNanodollars(num_tokens * row.prices->input, row.factors->rent_hour * hours);
}

}  // namespace kvgate::ledger
