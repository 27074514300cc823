#include "gateway/session/retrieval/embedding_call.h"

#include <fmt/format.h>

#include <optional>

#include "base/utf8.h"
#include "gateway/dialect/form/json_writer.h"
#include "gateway/session/transcript/bounded_json.h"

namespace kvgate::session::retrieval {

using transcript::Json;

namespace {

constexpr size_t kAskedBytesMax = 1000;

Error Unusable(std::string_view what) {
  return MakeError(ErrorCode::kUnavailable, "session.retrieval",
                   fmt::format("the answer holds no vectors for all texts: {}", what));
}

Result<Meaning> ReadVector(const Json& values) {
  if (!values.is_array()) return Unusable("one is no list of numbers");
  if (values.size() > Meaning::kDimensionsMax) {
    return Unusable(fmt::format("one has {} dimensions, the limit is {}", values.size(),
                                Meaning::kDimensionsMax));
  }
  std::vector<float> numbers;
  numbers.reserve(values.size());
  for (const Json& value : values) {
    if (!value.is_number()) return Unusable("one is no list of numbers");
    numbers.push_back(value.get<float>());
  }
  return Meaning::Of(numbers);
}

}  // namespace

std::string EmbeddingBody(std::string_view model, std::span<const std::string> texts) {
  std::string body;
  dialect::form::JsonWriter json(body);
  json.BeginObject().Key("model").String(model).Key("input").BeginArray();
  for (const std::string& text : texts) json.String(text);
  json.EndArray().Key("encoding_format").String("float").EndObject();
  return body;
}

Result<std::vector<Meaning>> ReadEmbeddings(std::string_view answer, size_t num_texts) {
  const std::optional<Json> json = transcript::ParseJson(answer);
  if (!json || !json->is_object()) return Unusable("it is no JSON object");
  const Json& data = transcript::MemberOf(*json, "data");
  if (!data.is_array() || data.size() != num_texts) {
    return Unusable(fmt::format("{} of {}", data.is_array() ? data.size() : 0, num_texts));
  }
  std::vector<Meaning> meanings(num_texts);
  std::vector<bool> is_there(num_texts);
  size_t place = 0;
  size_t dimensions = 0;
  for (const Json& one : data) {
    const Json& index = transcript::MemberOf(one, "index");
    const size_t at = index.is_number_unsigned() ? index.get<size_t>() : place;
    ++place;
    if (at >= num_texts || is_there[at]) return Unusable("their indices are wrong");
    is_there[at] = true;
    KVGATE_TRY(meanings[at], ReadVector(transcript::MemberOf(one, "embedding")));
    if (!meanings[at].is_known()) continue;
    if (dimensions == 0) dimensions = meanings[at].dimensions();
    if (meanings[at].dimensions() != dimensions) return Unusable("their dimensions differ");
  }
  return meanings;
}

std::string AskedOf(std::string_view words) {
  if (words.size() <= kAskedBytesMax) return std::string(words);
  const std::string_view begin = words.substr(0, Utf8CutBefore(words, kAskedBytesMax / 2));
  const std::string_view end =
      words.substr(Utf8CutBefore(words, words.size() - kAskedBytesMax / 2));
  return fmt::format("{}\n{}", begin, end);
}

}  // namespace kvgate::session::retrieval
