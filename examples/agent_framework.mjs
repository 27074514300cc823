// An agent framework on kvgate: its base URL is all that changes. Here the OpenAI Agents SDK.
//
//   npm install @openai/agents openai zod
//   node agent_framework.mjs [http://127.0.0.1:8080/v1]
import {
  Agent, OpenAIChatCompletionsModel, Runner, setTracingDisabled, tool,
} from "@openai/agents";
import OpenAI from "openai";
import { z } from "zod";

const baseURL = process.argv[2] ?? "http://127.0.0.1:8080/v1";
const client = new OpenAI({ baseURL, apiKey: process.env.KVGATE_API_KEY ?? "none" });
setTracingDisabled(true); // its traces would go to OpenAI

const weather = tool({
  name: "weather",
  description: "The weather of a city",
  parameters: z.object({ city: z.enum(["Oslo", "Lima"]), day: z.enum(["today", "tomorrow"]) }),
  execute: ({ city, day }) => {
    console.log(`tool: weather of ${city} ${day}`);
    return `${city} ${day}: rain`;
  },
});

const agent = new Agent({
  name: "forecaster",
  instructions: "You tell people whether they need an umbrella.",
  model: new OpenAIChatCompletionsModel(client, "local"),
  // The first answer must call the tool, which a model of random weights would not think of.
  modelSettings: { toolChoice: "required", maxTokens: 120, temperature: 0 },
  tools: [weather],
});

try {
  const result = await new Runner().run(agent, "Do I need an umbrella in Oslo?", { maxTurns: 4 });
  const { usage } = result.state;
  const cached = usage.inputTokensDetails.reduce((sum, part) => sum + (part.cached_tokens ?? 0), 0);
  console.log(`answer: ${result.finalOutput}`);
  console.log(`${usage.requests} requests, ${usage.inputTokens} tokens of prompts, `
    + `${cached} from the cache`);
} catch (error) {
  console.error(`error: ${error.message}`);
  process.exitCode = 1;
}
