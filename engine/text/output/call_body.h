// CallBody: parses what follows the mark that opens a call (families.h, CallSyntax), byte by byte.
// A body reports a call to the sink once it is certain; until then the bytes may still turn out to
// be text.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "engine/text/output/families.h"
#include "engine/text/output/reply_parser.h"

namespace kvgate::output {

// Receives the calls of a body.
class CallSink {
 public:
  virtual ~CallSink() = default;
  virtual void BeginCall(std::string_view name, std::string_view id) = 0;
  virtual void AddArguments(std::string_view text) = 0;
  virtual void EndCall() = 0;
};

enum class BodyStatus : uint8_t {
  kMore,
  kDone,        // complete with this byte
  kDoneBefore,  // complete; this byte does not belong to it
  kFailed,      // not a call, or broken; End must still be called
};

class CallBody {
 public:
  explicit CallBody(CallSink& sink) : sink_(sink) {}
  virtual ~CallBody() = default;
  CallBody(const CallBody&) = delete;
  CallBody& operator=(const CallBody&) = delete;

  virtual BodyStatus Step(char byte) = 0;
  // No more input follows. Closes an open call; JSON arguments stay as far as they were received.
  virtual void End() { EndOpen(); }

 protected:
  void Begin(std::string_view name, std::string_view id = {});
  void Add(std::string_view arguments);
  // Closes the open call, if any; its arguments are "{}" if it has had none.
  void EndOpen();
  bool is_open() const { return open_; }

  CallSink& sink_;

 private:
  bool open_ = false;
  bool has_arguments_ = false;
};

// `tools` and `sink` must outlive the body.
std::unique_ptr<CallBody> MakeCallBody(const CallForm& form, CallSink& sink,
                                       std::span<const ToolShape> tools);

// --- parts of other bodies --------------------------------------------------------------------

// {"name","arguments","id"}, under any of the keys that models use for them.
struct ObjectBodyOptions {
  bool known_tools_only = false;
};
std::unique_ptr<CallBody> MakeObjectBody(CallSink& sink, std::span<const ToolShape> tools,
                                         ObjectBodyOptions options);
// A list […] of such objects.
std::unique_ptr<CallBody> MakeListBody(CallSink& sink, std::span<const ToolShape> tools);

bool IsNameByte(char byte);
// Converts a value that a model wrote without quotes to JSON: a string if the tool expects one,
// otherwise whatever JSON the text is.
struct PlainValue {
  std::string_view tool;
  std::string_view key;
  std::string_view value;
};
std::string ToJsonValue(const PlainValue& value, std::span<const ToolShape> tools);

}  // namespace kvgate::output
