// ReplyParser: splits the text that a model writes, as it arrives, into reasoning, text and tool
// calls. The form of the calls depends on the model's family (families.h), which is recognised by
// the chat template.
//
// Bytes in, pieces out. The pieces do not depend on how the bytes were chunked, because parsers
// work byte by byte. No text is lost: whatever begins like a call but is not one becomes text. If a
// call that was already reported turns out to be malformed, it ends and the rest becomes text. Only
// blanks between parts are dropped. The arguments of a call are JSON text as the model wrote it
// (control characters in strings are escaped, which JSON requires and models forget), or "{}" if it
// wrote none.
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace kvgate::output {

// A call is reported as kCall, with its name and the id if the model gave one; then its arguments,
// in pieces; then kCallEnd. Calls do not overlap.
enum class PieceKind : uint8_t { kText, kReasoning, kCall, kArguments, kCallEnd };

struct Piece {
  PieceKind kind = PieceKind::kText;
  std::string text = {};  // kCall: the name
  std::string id = {};    // kCall only
  friend bool operator==(const Piece&, const Piece&) = default;
};

// The facts about a tool that are needed to read arguments that are not JSON: which of them are
// strings.
struct ToolShape {
  std::string name;
  std::vector<std::string> text_arguments;
  std::vector<std::string> nullable_arguments = {};  // string arguments that may also be null
};

struct ReplyParserOptions;

class ReplyParser {
 public:
  virtual ~ReplyParser() = default;
  // Appends the pieces that are certain so far; adjacent pieces of one kind are joined.
  void Push(std::string_view text, std::vector<Piece>& out);
  // No more text follows.
  void Finish(std::vector<Piece>& out);

 protected:
  virtual void Step(char byte) = 0;  // pieces go to Emit, EmitCall, EmitCallEnd
  virtual void End() = 0;

  void Emit(PieceKind kind, std::string_view text);
  void EmitCall(std::string_view name, std::string_view id);
  void EmitCallEnd() { pieces_.push_back({.kind = PieceKind::kCallEnd}); }

 private:
  friend std::unique_ptr<ReplyParser> MakeReplyParser(const ReplyParserOptions& options);

  std::vector<Piece> pieces_;  // of the current Push or Finish
};

struct ReplyParserOptions {
  std::string_view family = {};       // a name from families.h
  bool calls = false;                 // tools are offered, so calls are parsed
  std::vector<ToolShape> tools = {};  // the offered tools
  std::string_view prompt_tail = {};  // the end of the prompt, which may have opened the reasoning
};
// Returns true if the prompt leaves the model inside its reasoning.
bool OpensReasoning(std::string_view family, std::string_view prompt_tail);

std::unique_ptr<ReplyParser> MakeReplyParser(const ReplyParserOptions& options);

}  // namespace kvgate::output
