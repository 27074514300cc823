// Asks the gateway. A key that was given at the sign-in is kept for this tab only and goes with
// each request; a 401 opens the sign-in.
import { useCallback, useEffect, useRef, useState } from "preact/hooks";

import { Store } from "./store";
import type { Rollup } from "./types";

const KEY = "kvgate.key";
// The page stands at …/dashboard/, the gateway's own data beside it.
const ROOT = new URL("../kvgate/v1/", document.baseURI).href;

export class ApiError extends Error {
  constructor(readonly status: number, message: string) {
    super(message);
  }
}

export const key = new Store<string>(keptKey());
// True if the gateway has refused the key, or asks for one.
export const signedOut = new Store(false);
// True while somebody who needs no key gives one, to see what belongs to it.
export const signInAsked = new Store(false);

function keptKey(): string {
  try {
    return sessionStorage.getItem(KEY) ?? "";
  } catch {
    return "";
  }
}

export function signIn(text: string): void {
  try {
    sessionStorage.setItem(KEY, text);
  } catch {
    // it holds until the page is left
  }
  key.set(text);
  signedOut.set(false);
  signInAsked.set(false);
}

export function signOut(): void {
  try {
    sessionStorage.removeItem(KEY);
  } catch {
    // nothing was kept
  }
  key.set("");
  void ask("stats").catch(() => undefined); // if it takes a key, this asks for one
}

export function urlOf(path: string, query: Record<string, string | number> = {}): string {
  const url = new URL(path, ROOT);
  for (const [name, value] of Object.entries(query)) {
    if (value !== "") url.searchParams.set(name, String(value));
  }
  return url.href;
}

export function headersOf(more: Record<string, string> = {}): Record<string, string> {
  return key.get() ? { Authorization: `Bearer ${key.get()}`, ...more } : more;
}

function messageOf(status: number, text: string): string {
  try {
    const body = JSON.parse(text) as { error?: { message?: string } };
    if (body.error?.message) return body.error.message;
  } catch {
    // no JSON: something between this page and the gateway answers
  }
  return text.trim().slice(0, 300) || `The gateway answered with ${status}.`;
}

export async function check(response: Response): Promise<Response> {
  if (response.ok) return response;
  const text = await response.text();
  if (response.status === 401) signedOut.set(true);
  throw new ApiError(response.status, messageOf(response.status, text));
}

export async function ask<T>(path: string, query: Record<string, string | number> = {},
  signal?: AbortSignal): Promise<T> {
  const response = await fetch(urlOf(path, query), {
    headers: headersOf(), cache: "no-store", credentials: "omit", ...(signal ? { signal } : {}),
  });
  return (await check(response)).json() as Promise<T>;
}

export async function send<T>(method: "POST" | "DELETE", path: string, body?: unknown,
  query: Record<string, string | number> = {}): Promise<T> {
  const init: RequestInit = { method, headers: headersOf(), credentials: "omit" };
  if (method === "POST") {
    init.headers = headersOf({ "Content-Type": "application/json" });
    if (body !== undefined) init.body = JSON.stringify(body);
  }
  const text = await (await check(await fetch(urlOf(path, query), init))).text();
  return (text ? JSON.parse(text) : {}) as T;
}

// A link could not send the key, so the file is fetched and then saved.
export async function download(path: string, name: string): Promise<void> {
  const response = await check(await fetch(urlOf(path), { headers: headersOf() }));
  const link = document.createElement("a");
  link.href = URL.createObjectURL(await response.blob());
  link.download = name;
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

// Sums over time, for a step and a range: what `by` is one row of each bucket.
export function useSums(query: Record<string, string | number>): Loaded<Rollup> {
  const found = useData<Rollup>("stats", query, 15_000);
  if (found.data && !Array.isArray(found.data.data)) {
    return { ...found, data: undefined,
      error: new ApiError(404, "This gateway keeps no sums over time.") };
  }
  return found;
}

export interface Loaded<T> {
  data: T | undefined;
  error: ApiError | undefined;
  loading: boolean;
  reload: () => void;
}

// Data of a path, asked for again every `everyMs` while the page is seen, and whenever the query or
// the key changes. What was there stays until the new is. A null path asks for nothing.
export function useData<T>(path: string | null, query: Record<string, string | number> = {},
  everyMs = 0): Loaded<T> {
  const [state, setState] = useState<{ url: string; data?: T; error?: ApiError }>({ url: "" });
  const [turn, setTurn] = useState(0);
  const text = path === null ? "" : `${path}?${JSON.stringify(query)}&${key.get()}`;
  const latest = useRef(text);
  latest.current = text;
  useEffect(() => {
    if (path === null) return undefined;
    const abort = new AbortController();
    ask<T>(path, query, abort.signal).then(
      (data) => setState({ url: text, data }),
      (error: unknown) => {
        if (abort.signal.aborted) return;
        const known = error instanceof ApiError ? error
          : new ApiError(0, "The gateway does not answer.");
        setState((old) => ({ ...(old.url === text ? old : { url: text }), error: known }));
      });
    return () => abort.abort();
  }, [text, turn]);
  useEffect(() => {
    if (!everyMs || path === null) return undefined;
    const timer = setInterval(() => {
      if (!document.hidden) setTurn((old) => old + 1);
    }, everyMs);
    return () => clearInterval(timer);
  }, [everyMs, path === null]);
  const reload = useCallback(() => setTurn((old) => old + 1), []);
  const isSame = state.url === text;
  const samePath = state.url.split("?")[0] === path;
  return {
    data: isSame || samePath ? state.data : undefined,
    error: isSame ? state.error : undefined,
    loading: path !== null && !isSame,
    reload,
  };
}
