#include "gateway/prompt/templates/template.h"

#include <fmt/format.h>

#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "gateway/prompt/templates/masked_line.h"

namespace kvgate::prompt::templates {
namespace {

constexpr std::string_view kSource = "prompt.templates";
constexpr uint32_t kVersion = 1;
// A slot changes between moving and staying only if this much is won, because the change itself
// costs every conversation's prefix once.
constexpr uint64_t kDecisionFactor = 2;
// Bounds of what is read back.
constexpr uint32_t kListMax = 1U << 16;
constexpr uint32_t kStringMax = 1U << 12;

// Numbers are written with their lowest byte first.
class Encoder {
 public:
  void Number(uint64_t value, size_t bytes = 8) {
    for (size_t i = 0; i < bytes; ++i) text_ += static_cast<char>(value >> (8 * i) & 0xFF);
  }
  void Short(uint32_t value) { Number(value, 4); }
  void String(std::string_view text) {
    const std::string_view kept = text.substr(0, kStringMax);
    Short(static_cast<uint32_t>(kept.size()));
    text_ += kept;
  }
  std::string Take() { return std::move(text_); }

 private:
  std::string text_;
};

class Decoder {
 public:
  explicit Decoder(std::string_view text) : text_(text) {}

  uint64_t Number(size_t bytes = 8) {
    if (text_.size() - at_ < bytes) {
      failed_ = true;
      return 0;
    }
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; ++i) {
      value |= static_cast<uint64_t>(static_cast<unsigned char>(text_[at_ + i])) << (8 * i);
    }
    at_ += bytes;
    return value;
  }
  uint32_t Short() { return static_cast<uint32_t>(Number(4)); }
  bool Bool() { return Bounded(Number(1), 1) == 1; }
  std::string String() {
    const uint64_t size = Bounded(Short(), kStringMax);
    if (failed_ || text_.size() - at_ < size) {
      failed_ = true;
      return "";
    }
    at_ += size;
    return std::string(text_.substr(at_ - size, size));
  }
  // Returns the length of a list whose items take at least `item` bytes each.
  uint32_t Length(size_t item) {
    const uint64_t size = Bounded(Short(), kListMax);
    if (size * item > text_.size() - at_) failed_ = true;
    return failed_ ? 0 : static_cast<uint32_t>(size);
  }
  uint64_t Bounded(uint64_t value, uint64_t most) {
    if (value > most) failed_ = true;
    return failed_ ? 0 : value;
  }
  bool failed() const { return failed_; }
  bool is_at_end() const { return at_ == text_.size(); }

 private:
  std::string_view text_;
  size_t at_ = 0;
  bool failed_ = false;
};

void Write(const Template& it, Encoder& out) {
  const Slot& slot = *it.slot;
  out.Number(slot.id);
  out.Number(slot.moves ? 1 : 0, 1);
  out.Number(it.is_slot ? 1 : 0, 1);
  out.Number(static_cast<uint64_t>(slot.form.place), 1);
  out.Number(slot.form.mask);
  out.Number(slot.form.before);
  out.Number(slot.form.after);
  out.Short(slot.form.num_words);
  out.Short(static_cast<uint32_t>(slot.form.tokens.size()));
  for (const uint64_t token : slot.form.tokens) out.Number(token);
  out.String(it.pattern);
  for (const uint32_t count : {it.value_changes, it.word_changes, it.conversations, it.begun,
                               it.begun_changed, it.line_tokens, it.stake_tokens}) {
    out.Short(count);
  }
  out.Number(it.last_line);
}

Template Read(Decoder& in) {
  Slot slot;
  Template it;
  slot.id = in.Number();
  slot.moves = in.Bool();
  it.is_slot = in.Bool();
  slot.form.place = static_cast<Place>(in.Bounded(in.Number(1), kNumPlaces - 1));
  slot.form.mask = in.Number();
  slot.form.before = in.Number();
  slot.form.after = in.Number();
  slot.form.num_words = in.Short();
  slot.form.tokens.resize(in.Length(sizeof(uint64_t)));
  for (uint64_t& token : slot.form.tokens) token = in.Number();
  it.pattern = in.String();
  for (uint32_t* count : {&it.value_changes, &it.word_changes, &it.conversations, &it.begun,
                          &it.begun_changed, &it.line_tokens, &it.stake_tokens}) {
    *count = in.Short();
  }
  it.last_line = in.Number();
  it.slot = std::make_shared<const Slot>(std::move(slot));
  return it;
}

}  // namespace

size_t Template::num_bytes() const {
  return sizeof(Template) + sizeof(Slot) + pattern.size() +
         slot->form.tokens.size() * sizeof(uint64_t) + 256;  // with its places in the indexes
}

bool ShouldMove(const Template& it, bool moves_now) {
  const uint64_t staying = (uint64_t{it.begun_changed} + 1) * it.stake_tokens;
  const uint64_t moving = (uint64_t{it.begun} + 1) * it.line_tokens;
  return moves_now ? staying * kDecisionFactor >= moving : staying >= moving * kDecisionFactor;
}

std::string LineOf(const Template& it) {
  std::string line;
  for (const char c : it.pattern) {
    if (c == kMark) {
      line += "<*>";
    } else {
      line += c;
    }
  }
  return line;
}

std::string WhyOf(const Template& it) {
  if (!it.is_slot) {
    return fmt::format("stays as written: its words changed {} of 3 times", it.word_changes);
  }
  const std::string seen =
      fmt::format("{} of {} conversations began with another line", it.begun_changed, it.begun);
  return it.slot->moves
             ? fmt::format("moves behind the stable prefix: {}, and {} tokens are lost with it",
                           it.begun == 0 ? "it changes within conversations" : seen,
                           it.stake_tokens)
             : fmt::format(
                   "stays in its place: {}, and the {} tokens lost with it cost less than "
                   "its own {} in each",
                   seen, it.stake_tokens, it.line_tokens);
}

std::string EncodeTemplates(const TenantTemplates& templates) {
  Encoder out;
  out.Short(kVersion);
  out.Number(templates.tenant.low);
  out.Number(templates.tenant.high);
  out.Short(static_cast<uint32_t>(templates.models.size()));
  for (const TenantTemplates::OfModel& model : templates.models) {
    out.String(model.model);
    out.Short(static_cast<uint32_t>(model.templates.size()));
    for (const Template& it : model.templates) Write(it, out);
  }
  return out.Take();
}

Result<TenantTemplates> DecodeTemplates(std::string_view bytes) {
  Decoder in(bytes);
  if (const uint32_t version = in.Short(); version != kVersion) {
    return MakeError(ErrorCode::kDataLoss, kSource,
                     fmt::format("templates of version {}, this is {}", version, kVersion));
  }
  TenantTemplates templates;
  templates.tenant.low = in.Number();
  templates.tenant.high = in.Number();
  for (uint32_t models = in.Length(8); models > 0 && !in.failed(); --models) {
    TenantTemplates::OfModel& model = templates.models.emplace_back();
    model.model = in.String();
    for (uint32_t left = in.Length(64); left > 0 && !in.failed(); --left) {
      model.templates.push_back(Read(in));
    }
  }
  if (in.failed() || !in.is_at_end()) {
    return MakeError(ErrorCode::kDataLoss, kSource,
                     fmt::format("{} bytes of templates are damaged", bytes.size()));
  }
  return templates;
}

}  // namespace kvgate::prompt::templates
