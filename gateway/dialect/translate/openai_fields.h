// The parts that Chat Completions and Responses share: content parts, formats, hints. Included only
// by the two dialects' files.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gateway/dialect/form/json_writer.h"
#include "gateway/dialect/translate/raw_json.h"
#include "gateway/dialect/translate/request_form.h"

namespace kvgate::dialect::translate {

// The dialects' content parts differ in name but not in structure.
struct OpenAiReader {
  form::Dialect dialect;
  std::string_view target;
  RequestForm& form;

  // Reads a string or an array of parts.
  Result<std::vector<Block>> Contents(const RawJson& value, const std::string& path) const;
  // Reads tools into the form, each as a function under its flat name. Tools that a provider runs
  // itself are left out.
  Result<void> Tools(const RawJson& tools, const std::string& path) const {
    return ToolsIn({}, tools, path);
  }
  Result<void> Choice(const RawJson& value) const;
  // Makes a call whose arguments are a JSON string.
  Block Call(const std::string& path, Literal arguments) const;
  // Makes a call of a custom tool, with its input as the arguments of a function.
  Result<Block> CustomCall(const RawObject& call, const std::string& path) const;
  // Returns a name as the target knows it; `name` is a JSON string.
  Literal Flat(std::string_view space, Literal name) const;
  // Reads {"type","json_schema"} (Chat) or {"type","name","schema"} (Responses).
  Result<void> Output(const RawJson& value, const std::string& path) const;
  Result<void> Hints(const RawObject& body) const;

 private:
  struct Space {
    std::string name = {};  // flat name; empty: not in a namespace
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
  Result<Block> Part(const RawObject& part, const std::string& path) const;
  Result<Block> Image(const RawObject& part, const std::string& path) const;
  Result<Block> File(const RawObject& part, const std::string& path) const;
};

struct OpenAiWriter {
  form::Dialect dialect;
  const TargetTraits& traits;
  RequestForm& form;
  form::JsonWriter& json;

  // `text_type` is the type of text parts: "text", "input_text" or "output_text".
  Result<void> Part(const Block& block, std::string_view text_type) const;
  void Tools() const;
  void Choice() const;
  void Format() const;
  void Hints() const;
  // Writes the arguments of a call as a JSON string.
  void Arguments(const Block& call) const;
  bool Marks(const std::vector<Block>& blocks) const {
    return traits.breakpoints && HasMark(blocks);
  }
};

}  // namespace kvgate::dialect::translate
