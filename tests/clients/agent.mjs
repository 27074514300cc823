// What an agent offers: tools of some size, in each dialect's form.
export function agentTools(count) {
  const tools = Array.from({ length: count }, (_, i) => ({
    name: `tool_${i}`,
    description: `Does the thing number ${i}. Reads the file at the path and counts its lines, `
      + "then says what it found; it never writes and gives nothing back where there is nothing.",
    parameters: {
      type: "object",
      properties: {
        path: { type: "string", description: "Where the file lies, from the root." },
        count: { type: "integer", minimum: 0, maximum: 9007199254740991 },
      },
      required: ["path"],
    },
  }));
  return {
    chat: tools.map((tool) => ({ type: "function", function: tool })),
    responses: tools.map((tool) => ({ type: "function", strict: false, ...tool })),
    anthropic: tools.map(({ parameters, ...tool }) => ({ ...tool, input_schema: parameters })),
  };
}
