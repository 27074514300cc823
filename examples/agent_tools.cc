// An agent: the model calls functions of this program until it has its answer. Arguments follow
// each tool's schema, because the engine masks what would not.
//
//   agent_tools [MODEL.gguf | http://SERVER] [DATA_DIR]
#include <iostream>
#include <map>
#include <string>

#include "example.h"

namespace {

using kvgate::Json;
using kvgate::Result;

// What the tools work on.
std::map<std::string, int> stock = {{"bolt", 1200}, {"nut", 80}, {"washer", 0}};

Result<std::string> CountParts(const Json& arguments) {
  const std::string part = arguments.String("/part");
  const int count = stock.at(part);
  std::cout << "  [count_parts " << part << " -> " << count << "]\n";
  return R"({"part":)" + kvgate::Quote(part) + R"(,"count":)" + std::to_string(count) + "}";
}

Result<std::string> OrderParts(const Json& arguments) {
  const std::string part = arguments.String("/part");
  const int64_t count = arguments.Int("/count");
  std::cout << "  [order_parts " << part << " " << count << "]\n";
  // An error goes to the model, which may try something else.
  if (count > 500) return kvgate::Error{.message = "no more than 500 at once"};
  stock[part] += static_cast<int>(count);
  return std::string("ordered");
}

constexpr char kPart[] = R"({"type":"object","additionalProperties":false,"required":["part"],
  "properties":{"part":{"enum":["bolt","nut","washer"]}}})";
constexpr char kOrder[] = R"({"type":"object","additionalProperties":false,
  "required":["part","count"],
  "properties":{"part":{"enum":["bolt","nut","washer"]},
                "count":{"type":"integer","minimum":1,"maximum":999}}})";

}  // namespace

int main(int argc, char** argv) {
  Result<kvgate::Client> client = OpenClient(argc, argv);
  if (!client) return Fail(client.error());

  kvgate::Toolbox tools;
  tools.Add({"count_parts", "How many of a part are in stock", kPart}, CountParts);
  tools.Add({"order_parts", "Orders more of a part", kOrder}, OrderParts);

  // A required call holds for the first answer: a model of random weights would make none.
  kvgate::ChatRequest request{
      .messages = {kvgate::Message::System("You keep the stock of a workshop."),
                   kvgate::Message::User("Are there enough washers? Order some if not.")},
      .tool_choice = "required",
      .max_tokens = 120,
      .temperature = 0};
  const Result<kvgate::Reply> reply = client->Run(request, tools, /*max_steps=*/6);
  if (!reply) return Fail(reply.error());

  int num_calls = 0;
  for (const kvgate::Message& message : request.messages) {
    for (const kvgate::ToolCall& call : message.tool_calls) {
      std::cout << "call " << ++num_calls << ": " << call.name << " " << call.arguments << "\n";
    }
    if (!message.tool_call_id.empty()) std::cout << "  told: " << message.text << "\n";
  }
  std::cout << "answer: " << reply->text << "\n"
            << "it ended with \"" << reply->finish_reason << "\" after " << num_calls
            << " calls; of the last prompt's " << reply->usage.prompt_tokens << " tokens "
            << reply->usage.cached_tokens << " came from the cache\n";
  return 0;
}
