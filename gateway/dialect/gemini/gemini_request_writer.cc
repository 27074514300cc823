#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "gateway/dialect/form/json_text.h"
#include "gateway/dialect/form/json_writer.h"
#include "gateway/dialect/gemini/call_signature.h"
#include "gateway/dialect/gemini/gemini_request.h"

namespace kvgate::dialect::gemini {

using translate::Block;
using translate::BlockKind;
using translate::CannotSay;
using translate::ChoiceForm;
using translate::ChoiceMode;
using translate::Literal;
using translate::Meant;
using translate::Media;
using translate::OutputKind;
using translate::RawJson;
using translate::RequestForm;
using translate::ResultsFirst;
using translate::Role;
using translate::ToolForm;
using translate::Turn;
using translate::WrongShape;

namespace {

using form::JsonWriter;

constexpr std::string_view kDialect = "Gemini";

// Models up to 2.5 take a number of tokens to think, later ones a level.
struct ThinkingSize {
  std::string_view effort;
  std::string_view budget;
  std::string_view level;
};
constexpr ThinkingSize kThinkingSizes[] = {{"none", "0", "minimal"},  {"minimal", "512", "minimal"},
                                           {"low", "1024", "low"},    {"medium", "8192", "medium"},
                                           {"high", "24576", "high"}, {"xhigh", "24576", "high"},
                                           {"max", "24576", "high"}};

// The type of a medium that is named by its URL alone, which the dialect asks for.
std::string_view TypeOfUrl(std::string_view url, bool is_image) {
  static constexpr std::pair<std::string_view, std::string_view> kTypes[] = {
      {".png\"", "image/png"},  {".webp\"", "image/webp"}, {".gif\"", "image/gif"},
      {".jpg\"", "image/jpeg"}, {".jpeg\"", "image/jpeg"}, {".pdf\"", "application/pdf"},
      {".txt\"", "text/plain"}, {".html\"", "text/html"},  {".csv\"", "text/csv"}};
  for (const auto& [ending, type] : kTypes) {
    if (url.ends_with(ending)) return type;
  }
  return is_image ? "image/jpeg" : "application/pdf";
}

class Writer {
 public:
  explicit Writer(RequestForm& form) : form_(form) {}

  Result<std::string> Body() {
    json_.BeginObject();
    auto turn = System();
    Tools();
    Choice();
    Config();
    json_.Key("contents").BeginArray();
    KVGATE_TRY_VOID(Turns(turn));
    json_.EndArray().EndObject();
    return std::move(out_);
  }

 private:
  static bool IsSystem(const Turn& turn) {
    return turn.role == Role::kSystem || turn.role == Role::kDeveloper;
  }

  // Leading system turns are the instruction; later ones stay in their places as user text.
  std::vector<Turn>::const_iterator System() {
    auto turn = form_.turns.cbegin();
    bool any = false;
    for (; turn != form_.turns.cend() && IsSystem(*turn); ++turn) {
      for (const Block& block : turn->blocks) {
        if (block.text == "\"\"") continue;
        if (!any) json_.Key("systemInstruction").BeginObject().Key("parts").BeginArray();
        any = true;
        json_.BeginObject().Key("text").Raw(block.text).EndObject();
      }
    }
    if (any) json_.EndArray().EndObject();
    return turn;
  }

  void Tools() {
    if (form_.tools.empty()) return;
    json_.Key("tools").BeginArray().BeginObject().Key("functionDeclarations").BeginArray();
    for (const ToolForm& tool : form_.tools) {
      json_.BeginObject().Key("name").Raw(tool.name);
      if (!tool.description.empty()) json_.Key("description").Raw(tool.description);
      if (!tool.schema.empty()) json_.Key("parametersJsonSchema").Raw(tool.schema);
      json_.EndObject();
    }
    json_.EndArray().EndObject().EndArray();
  }

  // A list of names needs a mode that heeds it: VALIDATED leaves the model free to call or not.
  void Choice() {
    const ChoiceForm& choice = form_.choice;
    if (form_.tools.empty() || !choice.given) return;
    const bool limits = !choice.allowed.empty() && choice.mode != ChoiceMode::kNone;
    const std::string_view mode = choice.mode == ChoiceMode::kNone       ? "NONE"
                                  : choice.mode == ChoiceMode::kRequired ? "ANY"
                                  : limits                               ? "VALIDATED"
                                                                         : "AUTO";
    json_.Key("toolConfig").BeginObject().Key("functionCallingConfig").BeginObject();
    json_.Key("mode").String(mode);
    if (limits) {
      json_.Key("allowedFunctionNames").BeginArray();
      for (const Literal name : choice.allowed) json_.Raw(name);
      json_.EndArray();
    }
    json_.EndObject().EndObject();
  }

  void Config() {
    const bool wants_json = form_.output.kind != OutputKind::kText;
    const bool thinks = !form_.effort.empty() || form_.thinking;
    if (!form_.max_tokens && !form_.temperature && !form_.top_p && form_.stop.empty() && !thinks &&
        !wants_json) {
      return;
    }
    json_.Key("generationConfig").BeginObject();
    if (form_.max_tokens) json_.Key("maxOutputTokens").Raw(form_.max_tokens.value);
    if (form_.temperature) json_.Key("temperature").Raw(form_.temperature.value);
    if (form_.top_p) json_.Key("topP").Raw(form_.top_p.value);
    if (!form_.stop.empty()) {
      json_.Key("stopSequences").BeginArray();
      for (const Literal stop : form_.stop) json_.Raw(stop);
      json_.EndArray();
    }
    if (wants_json) json_.Key("responseMimeType").String("application/json");
    if (form_.output.kind == OutputKind::kSchema) {
      json_.Key("responseJsonSchema").Raw(form_.output.schema);
    }
    if (thinks) Thinking();
    json_.EndObject();
  }

  void Thinking() {
    json_.Key("thinkingConfig").BeginObject();
    const std::string model = Meant(form_.model);
    const bool by_budget =
        model.find("gemini-1") != std::string::npos || model.find("gemini-2") != std::string::npos;
    for (const ThinkingSize& size : kThinkingSizes) {
      if (size.effort != form_.effort) continue;
      if (by_budget) {
        json_.Key("thinkingBudget").Raw(size.budget);
      } else {
        json_.Key("thinkingLevel").String(size.level);
      }
    }
    if (form_.effort != "none") json_.Key("includeThoughts").Bool(true);
    json_.EndObject();
  }

  Result<void> Turns(std::vector<Turn>::const_iterator begin) {
    const std::vector<Turn> turns = ResultsFirst({begin, form_.turns.cend()});
    bool open = false;
    bool is_model = false;
    for (const Turn& turn : turns) {
      const bool answers = turn.role == Role::kAssistant;
      for (const Block& block : turn.blocks) {
        if (!IsSaid(block)) continue;
        if (!open || answers != is_model) {
          if (open) json_.EndArray().EndObject();
          json_.BeginObject().Key("role").String(answers ? "model" : "user");
          json_.Key("parts").BeginArray();
          open = true;
          is_model = answers;
        }
        KVGATE_TRY_VOID(Write(block));
      }
    }
    if (!open) return WrongShape("messages", "must have a turn of the user");
    if (is_model) return CannotSay(turns.back().path, "an answer's beginning", kDialect);
    json_.EndArray().EndObject();
    return {};
  }

  // Thoughts are the model's own; other models' are not shown to it.
  static bool IsSaid(const Block& block) {
    if (block.kind == BlockKind::kText) return block.text != "\"\"";
    return block.kind != BlockKind::kThinking;
  }

  Result<void> Write(const Block& block) {
    switch (block.kind) {
      case BlockKind::kText:
        json_.BeginObject().Key("text").Raw(block.text).EndObject();
        return {};
      case BlockKind::kImage:
      case BlockKind::kFile:
        WriteMedia(block);
        return {};
      case BlockKind::kCall:
        WriteCall(block);
        return {};
      case BlockKind::kResult:
        return WriteResult(block);
      case BlockKind::kThinking:
        return {};
    }
    return {};
  }

  void WriteCall(const Block& call) {
    const std::string whole = Meant(call.id);
    const SignedId id = SplitCallId(whole);
    names_[whole] = call.name;
    json_.BeginObject().Key("functionCall").BeginObject().Key("id").String(id.id);
    json_.Key("name").Raw(call.name).Key("args").Raw(form::AsObject(call.arguments)).EndObject();
    json_.Key("thoughtSignature");
    json_.String(id.signature.empty() ? kNoSignature : std::string_view(id.signature));
    json_.EndObject();
  }

  Result<void> WriteResult(const Block& result) {
    const std::string whole = Meant(result.id);
    const auto call = names_.find(whole);
    if (call == names_.end()) {
      return WrongShape(result.path, "must answer a call of the turns before");
    }
    json_.BeginObject().Key("functionResponse").BeginObject().Key("id");
    json_.String(SplitCallId(whole).id).Key("name").Raw(call->second);
    json_.Key("response").BeginObject().Key(result.is_error ? "error" : "output");
    json_.Raw(translate::JoinTexts(result.content, form_)).EndObject().EndObject().EndObject();
    for (const Block& part : result.content) {
      if (part.kind == BlockKind::kImage || part.kind == BlockKind::kFile) WriteMedia(part);
    }
    return {};
  }

  void WriteMedia(const Block& block) {
    const Media& media = block.media;
    const bool is_image = block.kind == BlockKind::kImage;
    json_.BeginObject();
    if (media.url.empty()) {
      json_.Key("inlineData").BeginObject().Key("mimeType").Raw(Quote(media.media_type));
      json_.Key("data").Raw(Quote(media.base64)).EndObject();
    } else {
      json_.Key("fileData").BeginObject().Key("mimeType").String(TypeOfUrl(media.url, is_image));
      json_.Key("fileUri").Raw(media.url).EndObject();
    }
    json_.EndObject();
  }

  // Adds quotes to a text that is already escaped.
  static std::string Quote(std::string_view inside) {
    std::string quoted = "\"";
    quoted.append(inside).append("\"");
    return quoted;
  }

  RequestForm& form_;
  std::unordered_map<std::string, Literal> names_;  // of the calls so far, by their ids
  std::string out_;
  JsonWriter json_{out_};
};

}  // namespace

Result<std::string> WriteGeminiRequest(RequestForm& form) { return Writer(form).Body(); }

}  // namespace kvgate::dialect::gemini
