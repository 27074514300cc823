// What Chat Completions and Responses have in common: content parts, formats, hints. Included only
// by their two files.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <kvgate/result.h>

#include "gateway/protocol/json_writer.h"
#include "gateway/translate/raw_json.h"
#include "gateway/translate/request_form.h"

namespace kvgate::translate {

// Their parts are named apart and built alike.
enum class OpenAiDialect : uint8_t { kChat, kResponses };

struct OpenAiReader {
  OpenAiDialect dialect;
  std::string_view target;
  RequestForm& form;

  // A string or an array of parts.
  Result<std::vector<Block>> Contents(const RawJson& value, const std::string& path) const;
  // Into the form, each as a function under its flat name; what a provider runs itself is left out.
  Result<void> Tools(const RawJson& tools, const std::string& path) const {
    return ToolsIn({}, tools, path);
  }
  Result<void> Choice(const RawJson& value) const;
  // A string's worth of JSON and its text.
  Block Call(const std::string& path, Literal arguments) const;
  // Of a custom tool: its input as the arguments of a function.
  Result<Block> CustomCall(const RawObject& call, const std::string& path) const;
  // A name as the target has it; `name` is a JSON string.
  Literal Flat(std::string_view space, Literal name) const;
  // {"type","json_schema"} of Chat, {"type","name","schema"} of Responses.
  Result<void> Output(const RawJson& value, const std::string& path) const;
  Result<void> Hints(const RawObject& body) const;

 private:
  struct Space {
    std::string name = {};  // flat; empty: they are in none
    int depth = 0;
  };
  Result<void> ToolsIn(const Space& space, const RawJson& tools, const std::string& path) const;
  Result<void> NamespaceIn(const Space& space, const RawObject& tool,
                           const std::string& path) const;
  Result<void> ToolIn(const Space& space, const RawObject& tool, const std::string& path,
                      bool may_repeat) const;
  Result<ToolForm> Function(const RawObject& tool, const std::string& path) const;
  Result<ToolForm> Custom(const RawObject& tool, const std::string& path) const;
  Result<Literal> NameOf(const RawObject& choice, const std::string& path) const;
  Literal Quoted(std::string_view text) const;
  Result<Block> Part(const RawObject& part, const std::string& path) const;
  Result<Block> Image(const RawObject& part, const std::string& path) const;
  Result<Block> File(const RawObject& part, const std::string& path) const;
};

struct OpenAiWriter {
  OpenAiDialect dialect;
  const TargetTraits& traits;
  RequestForm& form;
  protocol::JsonWriter& json;

  // Text parts are "text", "input_text" or "output_text".
  Result<void> Part(const Block& block, std::string_view text_type) const;
  void Tools() const;
  void Choice() const;
  void Format() const;
  void Hints() const;
  // Of a call: as a JSON string.
  void Arguments(const Block& call) const;
  bool Marks(const std::vector<Block>& blocks) const {
    return traits.breakpoints && HasMark(blocks);
  }
};

}  // namespace kvgate::translate
