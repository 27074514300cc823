#include "gateway/dialect/form/json_value.h"

namespace kvgate::dialect::form {

jinja::value::Data ToData(JsonElement value) {
  switch (value.type()) {
    case simdjson::dom::element_type::BOOL:
      return value.get_bool().value_unsafe();
    case simdjson::dom::element_type::INT64:
      return value.get_int64().value_unsafe();
    case simdjson::dom::element_type::UINT64:
      return jinja::value::Data::BigInteger{std::to_string(value.get_uint64().value_unsafe())};
    case simdjson::dom::element_type::DOUBLE:
      return value.get_double().value_unsafe();
    case simdjson::dom::element_type::STRING:
      return value.get_string().value_unsafe();
    case simdjson::dom::element_type::ARRAY: {
      jinja::value::Data::List list;
      const JsonArray array = value.get_array().value_unsafe();
      for (const JsonElement item : array) list.push_back(ToData(item));
      return list;
    }
    case simdjson::dom::element_type::OBJECT: {
      jinja::value::Data::Dict dict;
      const JsonObject object = value.get_object().value_unsafe();
      for (const simdjson::dom::key_value_pair field : object) {
        dict.emplace_back(std::string(field.key), ToData(field.value));
      }
      return dict;
    }
    default:
      return {};
  }
}

std::string ToJson(JsonElement value) { return simdjson::minify(value); }

}  // namespace kvgate::dialect::form
