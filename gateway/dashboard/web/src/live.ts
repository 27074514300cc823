// The gateway's events, read with fetch because an EventSource could not send the key. Events are
// collected and told once per animation frame; a connection that ends is begun again, each time
// after a longer pause.
import { ApiError, check, headersOf, key, signedOut, urlOf } from "./api";
import { Store } from "./store";
import type { LiveStats, Request } from "./types";

export type LiveState = "connecting" | "live" | "waiting" | "refused" | "absent";
export const liveState = new Store<LiveState>("connecting");
export const liveStats = new Store<LiveStats | null>(null);
// Requests that the gateway left out: beyond those that this page follows, or because it did not
// read fast enough.
export const numDropped = new Store(0);

type Listener = (requests: Request[]) => void;
const listeners = new Set<Listener>();

export function onRequests(listener: Listener): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

// A hidden tab has no animation frames: what comes meanwhile is kept up to this number.
const QUEUE_MAX = 1000;
// A page can show no more requests a second, and each that is sent costs the gateway.
const SHOWN_PER_SECOND = 100;
const PAUSE_MS_MIN = 500;
const PAUSE_MS_MAX = 15_000;
// The gateway sends a comment every 15 s: a connection that is silent for longer is dead.
const SILENCE_MS_MAX = 40_000;

let queue: Request[] = [];
let newest: LiveStats | null = null;
let frame = 0;

function flush(): void {
  frame = 0;
  const requests = queue;
  queue = [];
  if (newest) liveStats.set(newest);
  newest = null;
  if (requests.length) for (const listener of [...listeners]) listener(requests);
}

function schedule(): void {
  if (!frame) frame = requestAnimationFrame(flush);
}

function take(name: string, data: string): void {
  const value: unknown = JSON.parse(data);
  if (name === "request") {
    queue.push(value as Request);
    if (queue.length > QUEUE_MAX) queue.splice(0, queue.length - QUEUE_MAX);
  } else if (name === "stats") {
    newest = value as LiveStats;
  } else if (name === "dropped") {
    numDropped.set(numDropped.get() + (value as { count: number }).count);
  }
  schedule();
}

// Cuts the stream into events: blocks of lines that end with an empty one.
export class EventReader {
  private rest = "";
  constructor(private readonly onEvent: (name: string, data: string) => void) {}

  feed(text: string): void {
    this.rest += text;
    for (;;) {
      const end = /\r?\n\r?\n/.exec(this.rest);
      if (!end) return;
      const block = this.rest.slice(0, end.index);
      this.rest = this.rest.slice(end.index + end[0].length);
      let name = "message";
      const data: string[] = [];
      for (const line of block.split(/\r?\n/)) {
        if (line.startsWith("event:")) name = line.slice(6).trim();
        else if (line.startsWith("data:")) data.push(line.slice(5).replace(/^ /, ""));
      }
      if (data.length) this.onEvent(name, data.join("\n"));
    }
  }
}

async function readOnce(signal: AbortSignal, stop: () => void): Promise<void> {
  const url = urlOf("events", { records_per_second: SHOWN_PER_SECOND });
  const response = await check(await fetch(url, {
    headers: headersOf({ Accept: "text/event-stream" }), cache: "no-store", signal,
  }));
  liveState.set("live");
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  const events = new EventReader(take);
  let timer = window.setTimeout(stop, SILENCE_MS_MAX);
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      clearTimeout(timer);
      timer = window.setTimeout(stop, SILENCE_MS_MAX);
      events.feed(value);
    }
  } finally {
    clearTimeout(timer);
  }
}

function pause(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      signal.removeEventListener("abort", end);
      resolve();
    };
    const timer = setTimeout(end, milliseconds);
    signal.addEventListener("abort", end);
  });
}

async function run(signal: AbortSignal): Promise<void> {
  let wait = PAUSE_MS_MIN;
  while (!signal.aborted) {
    const began = Date.now();
    const one = new AbortController();
    const stop = () => one.abort();
    signal.addEventListener("abort", stop);
    try {
      liveState.set("connecting");
      await readOnce(one.signal, stop);
    } catch (error) {
      if (signal.aborted) return;
      const status = error instanceof ApiError ? error.status : 0;
      if (status === 401 || status === 403 || status === 404) {
        liveState.set(status === 404 ? "absent" : "refused");
        return;
      }
    }
    signal.removeEventListener("abort", stop);
    if (signal.aborted) return;
    liveState.set("waiting");
    if (Date.now() - began > PAUSE_MS_MAX) wait = PAUSE_MS_MIN;
    // Not all pages come back at the same moment.
    await pause(wait * (0.75 + Math.random() / 2), signal);
    wait = Math.min(wait * 2, PAUSE_MS_MAX);
  }
}

let current: AbortController | null = null;

export function startLive(): void {
  const begin = () => {
    current?.abort();
    current = null;
    liveStats.set(null);
    if (signedOut.get()) return;
    current = new AbortController();
    void run(current.signal);
  };
  key.watch(begin);
  signedOut.watch(begin);
  begin();
}
