// A session from Node with OpenAI's own client: kvgate keeps the history, each turn is sent alone.
//
//   npm install openai
//   node remote_session.mjs [http://127.0.0.1:8080/v1] [KEY]
import OpenAI from "openai";

const baseURL = process.argv[2] ?? "http://127.0.0.1:8080/v1";
const key = process.argv[3] ?? "from-node";
const client = new OpenAI({
  baseURL,
  apiKey: process.env.KVGATE_API_KEY ?? "none",
  defaultHeaders: { "x-kvgate-session": key },
});

async function say(text) {
  console.log(`> ${text}`);
  const stream = await client.chat.completions.create({
    model: "local", max_tokens: 24, temperature: 0, stream: true,
    stream_options: { include_usage: true }, messages: [{ role: "user", content: text }],
  });
  for await (const chunk of stream) {
    process.stdout.write(chunk.choices[0]?.delta?.content ?? "");
    if (!chunk.usage) continue;
    const { prompt_tokens: prompt, prompt_tokens_details: details } = chunk.usage;
    console.log(`\n  [${prompt} tokens of prompt, ${details?.cached_tokens ?? 0} from the cache]`);
  }
}

try {
  await say("My name is Ada.");
  await say("What is my name?");
  // The gateway's own paths stand beside /v1.
  const kept = await client.get(`${new URL(baseURL).origin}/kvgate/v1/sessions/${key}`);
  console.log(`kept: ${kept.turns} turns`);
} catch (error) {
  console.error(`error: ${error.status ?? ""} ${error.message}`);
  process.exitCode = 1;
}
