// An adapter of `scripts/bench cpu --peer` for node-llama-cpp's prebuilt llama.cpp. Install it
// outside the tree (npm install --ignore-scripts node-llama-cpp @node-llama-cpp/linux-x64) and copy
// this file beside its node_modules, where node looks for it.
// Usage: node peer_node_llama_cpp.mjs MODEL THREADS PROMPT_TOKENS DECODE_TOKENS
import {getLlama, LlamaLogLevel} from "node-llama-cpp";

const [modelPath, ...numbers] = process.argv.slice(2);
const [threads, promptTokens, decodeTokens] = numbers.map(Number);
const RUNS = 3;  // after one that touches the pages

const llama = await getLlama(
  {gpu: false, build: "never", maxThreads: threads, logLevel: LlamaLogLevel.error});
const model = await llama.loadModel({modelPath});
const context = await model.createContext({
  contextSize: promptTokens + decodeTokens + 64, batchSize: 512, threads, flashAttention: true});
const sequence = context.getSequence();
const prompt = Array.from({length: promptTokens}, (_, i) => (i * 7919 + 13) % 1000 + 5);

async function secondsOf(work) {
  const begin = process.hrtime.bigint();
  await work();
  return Number(process.hrtime.bigint() - begin) / 1e9;
}

async function decode() {
  let count = 0;
  for await (const _ of sequence.evaluate([prompt[0]], {temperature: 0, yieldEogToken: true})) {
    if (++count >= decodeTokens) return;
  }
}

const median = (values) => values.sort((a, b) => a - b)[values.length >> 1];
const pp = [];
const tg = [];
for (let run = 0; run <= RUNS; run++) {
  await sequence.clearHistory();
  const prefill = await secondsOf(() => sequence.evaluateWithoutGeneratingNewTokens(prompt));
  await sequence.clearHistory();
  const decoding = await secondsOf(decode);
  if (run === 0) continue;
  pp.push(promptTokens / prefill);
  tg.push(decodeTokens / decoding);
}
console.log(JSON.stringify({pp: median(pp), tg: median(tg)}));
process.exit(0);
