// These are JSON schemas as common generators write them.
#pragma once

namespace kvgate::grammar {

// clang-format off: each schema is one text, cut where a line ends
inline const char* const kGeneratedSchemas[] = {
    // zod 4
    R"j({"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","prope)j"
    R"j(rties":{
    "email":{"type":"string","format":"email","pattern":
    "^(?!\\.)(?!.*\\.\\.)([A-Za-z0-9_'+\\-\\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\\-)j"
    R"j(]*\\.)+[A-Za-z]{2,}$"},
    "id":{"type":"string","format":"uuid","pattern":
    "^([0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[1-8][0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA)j"
    R"j(-F]{12}|00000000-0000-0000-0000-000000000000|ffffffff-ffff-ffff-ffff-fffffffffff)j"
    R"j(f)$"},
    "at":{"type":"string","format":"date-time","pattern":
    "^(?:(?:\\d\\d[2468][048]|\\d\\d[13579][26]|\\d\\d0[48]|[02468][048]00|[13579][26]00)j"
    R"j()-02-29|\\d{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])|(?:0[469]|11)-(?:0)j"
    R"j([1-9]|[12]\\d|30)|(?:02)-(?:0[1-9]|1\\d|2[0-8])))T(?:(?:[01]\\d|2[0-3]):[0-5]\\d)j"
    R"j((?::[0-5]\\d(?:\\.\\d+)?)?(?:Z))$"},
    "n":{"type":"integer","minimum":-9007199254740991,"maximum":9007199254740991},
    "p":{"type":"number","exclusiveMinimum":0,"multipleOf":0.01},
    "tags":{"default":[],"type":"array","items":{"type":"string"},"uniqueItems":true},
    "map":{"type":"object","propertyNames":{"type":"string"},"additionalProperties":{"ty)j"
    R"j(pe":"number"}},
    "keyed":{"type":"object","propertyNames":{"type":"string","enum":["a","b"]},"additio)j"
    R"j(nalProperties":{}},
    "pair":{"type":"array","prefixItems":[{"type":"string"},{"type":"number"}]},
    "maybe":{"anyOf":[{"type":"string"},{"type":"null"}]},
    "raw":{"type":"string","format":"base64","contentEncoding":"base64"},
    "shape":{"oneOf":[
    {"type":"object","properties":{"kind":{"type":"string","const":"a"},"x":{"type":"num)j"
    R"j(ber"}},
    "required":["kind","x"],"additionalProperties":false},
    {"type":"object","properties":{"kind":{"type":"string","const":"b"},"y":{"type":"num)j"
    R"j(ber"}},
    "required":["kind","y"],"additionalProperties":false}]},
    "never":{"not":{}}, "any":{},
    "list":{"$ref":"#/$defs/__schema0"}},
    "required":["email","id","at","n","p","tags","map","keyed","pair","maybe","raw","sha)j"
    R"j(pe","any","list"],
    "additionalProperties":false,
    "$defs":{"__schema0":{"type":"object","properties":{"v":{"type":"string"},
    "next":{"anyOf":[{"$ref":"#/$defs/__schema0"},{"type":"null"}]}},
    "required":["v","next"],"additionalProperties":false}}})j",
    // zod 3 through zod-to-json-schema
    R"j({"type":"object","properties":{"a":{"type":"string","minLength":1,"allOf":[{"pat)j"
    R"j(tern":"^a"},
    {"pattern":"z$"}]},"b":{"type":["string","null"]},"u":{"type":["string","number"]},
    "i":{"allOf":[{"type":"object","properties":{"x":{"type":"number"}},"required":["x"])j"
    R"j(},
    {"type":"object","properties":{"y":{"type":"string","format":"uri"}},"required":["y")j"
    R"j(]}]},
    "s":{"$ref":"#/properties/a"}},"required":["a","b","u","i","s"],
    "additionalProperties":false,"$schema":"http://json-schema.org/draft-07/schema#"})j",
    // pydantic 2
    R"j({"$defs":{"Color":{"enum":["red","green"],"title":"Color","type":"string"},
    "Node":{"properties":{"children":{"default":[],"items":{"$ref":"#/$defs/Node"},"titl)j"
    R"j(e":"C",
    "type":"array"},"color":{"$ref":"#/$defs/Color","default":"red"}},"title":"Node",
    "type":"object"},"Cat":{"properties":{"pet":{"const":"cat","title":"Pet","type":"str)j"
    R"j(ing"}},
    "required":["pet"],"title":"Cat","type":"object"},"Dog":{"properties":{"pet":{"const)j"
    R"j(":"dog",
    "title":"Pet","type":"string"}},"required":["pet"],"title":"Dog","type":"object"}},
    "properties":{"node":{"$ref":"#/$defs/Node"},
    "price":{"anyOf":[{"minimum":0.0,"type":"number"},
    {"pattern":"^(?!^[-+.]*$)[+-]?0*\\d*\\.?\\d*$","type":"string"}],"title":"Price"},
    "when":{"format":"date","title":"When","type":"string"},
    "span":{"format":"duration","type":"string"},"pw":{"format":"password","type":"strin)j"
    R"j(g",
    "writeOnly":true},"blob":{"format":"binary","type":"string"},
    "ids":{"items":{"type":"integer"},"type":"array","uniqueItems":true,"title":"Ids"},
    "named":{"patternProperties":{"^[a-z]+$":{"type":"integer"}},"type":"object"},
    "by":{"additionalProperties":{"type":"string"},"propertyNames":{"$ref":"#/$defs/Colo)j"
    R"j(r"},
    "type":"object"},
    "point":{"maxItems":2,"minItems":2,"prefixItems":[{"type":"number"},{"type":"number")j"
    R"j(}],
    "type":"array"},
    "pet":{"discriminator":{"mapping":{"cat":"#/$defs/Cat","dog":"#/$defs/Dog"},
    "propertyName":"pet"},"oneOf":[{"$ref":"#/$defs/Cat"},{"$ref":"#/$defs/Dog"}]}},
    "required":["node","price","when","span","pw","blob","ids","named","by","point","pet)j"
    R"j("],
    "title":"Model","type":"object"})j"};
// clang-format on

}  // namespace kvgate::grammar
