// Random JSON schemas from a seed: nested objects, arrays, enums, const, anyOf, $ref, numeric and
// length bounds, patterns, formats.
function generator(seed) {
  let state = seed * 2654435761 + 1;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

export function randomSchema(seed) {
  const random = generator(seed);
  const below = (bound) => Math.floor(random() * bound);
  const chance = (p) => random() < p;
  const pick = (values) => values[below(values.length)];
  const defs = {};

  const string = () => {
    const min = below(6);
    return { type: "string", ...(chance(0.6) ? { minLength: min } : {}),
      ...(chance(0.6) ? { maxLength: min + below(30) } : {}) };
  };
  const number = (type) => {
    const scale = type === "integer" ? 1 : 8;
    const low = (below(2000) - 1000) / scale;
    return { type,
      ...(chance(0.6) ? { [pick(["minimum", "exclusiveMinimum"])]: low } : {}),
      ...(chance(0.6) ? { [pick(["maximum", "exclusiveMaximum"])]: low + 3 + below(900) } : {}),
      ...(type === "integer" && chance(0.3) ? { multipleOf: 2 + below(3) } : {}) };
  };
  const pattern = () => ({ type: "string", pattern: pick(["^[A-Z]{2}-\\d{3,5}$",
    "^(red|green|blue)$", "^[^@\\s]{1,9}@[a-z]+\\.com$", "[0-9]", "^\\w+( \\w+)*$"]),
    ...(chance(0.3) ? { maxLength: 12 } : {}) });
  const format = () => ({ type: "string",
    format: pick(["date", "time", "date-time", "ipv4", "ipv6", "uuid", "email", "hostname",
      "uri", "duration"]) });
  const scalar = () => pick([string, string, () => number("integer"), () => number("number"),
    pattern, format, () => ({ enum: ["x", 1, -2.5, null, true, "é\"\n", { k: [1, 2] }] }),
    () => ({ const: pick(["only \"this\"", 7, null, [1]]) }),
    () => ({ type: ["boolean", "null"] })])();
  const object = (depth) => {
    const properties = {};
    for (let i = below(5); i > 0; --i) {
      properties[pick(["id", "name", "é ü", "a\"b", "x", "nested", "0"])] = any(depth + 1);
    }
    return { type: "object", properties,
      required: Object.keys(properties).filter(() => chance(0.6)),
      ...(chance(0.7) ? { additionalProperties: chance(0.7) ? false : scalar() } : {}) };
  };
  const array = (depth) => {
    if (chance(0.25)) {
      return { type: "array", prefixItems: [any(depth + 1), any(depth + 1)], minItems: below(3),
        items: chance(0.5) ? false : any(depth + 1), maxItems: 4 };
    }
    const minItems = below(3);
    return { type: "array", items: any(depth + 1), minItems, maxItems: minItems + below(4) };
  };
  const reference = () => {
    defs.tree ??= { type: "object", properties: { v: scalar(),
      next: { anyOf: [{ type: "null" }, { $ref: "#/$defs/tree" }] } },
    required: ["v", "next"], additionalProperties: false };
    return { $ref: "#/$defs/tree" };
  };
  const any = (depth) => {
    if (depth >= 3 || chance(0.35)) return scalar();
    return pick([object, object, array, reference,
      (d) => ({ anyOf: Array.from({ length: 1 + below(3) }, () => any(d + 1)) }),
      () => ({ allOf: [{ type: "integer", minimum: -9 }, { maximum: 90 }] })])(depth);
  };
  const schema = any(0);
  return Object.keys(defs).length > 0 ? { ...schema, $defs: defs } : schema;
}
