// A value that views watch. Changes are told once per animation frame, however many there were.
import { useEffect, useState } from "preact/hooks";

export class Store<T> {
  private readonly watchers = new Set<() => void>();
  constructor(private value: T) {}

  get(): T {
    return this.value;
  }
  set(value: T): void {
    if (Object.is(value, this.value)) return;
    this.value = value;
    for (const watcher of [...this.watchers]) watcher();
  }
  watch(watcher: () => void): () => void {
    this.watchers.add(watcher);
    return () => this.watchers.delete(watcher);
  }
}

export function useStore<T>(store: Store<T>): T {
  const [value, setValue] = useState(() => store.get());
  useEffect(() => {
    setValue(() => store.get());
    return store.watch(() => setValue(() => store.get()));
  }, [store]);
  return value;
}

// The time, for texts like "3 min ago" and countdowns.
export const now = new Store(Date.now());
setInterval(() => now.set(Date.now()), 1000);

export type Theme = "system" | "dark" | "light";
const THEME_KEY = "kvgate.theme";

function keptTheme(): Theme {
  try {
    const kept = localStorage.getItem(THEME_KEY);
    return kept === "dark" || kept === "light" ? kept : "system";
  } catch {
    return "system"; // the browser keeps nothing for this page
  }
}

export const theme = new Store<Theme>(keptTheme());

export function applyTheme(chosen: Theme): void {
  theme.set(chosen);
  if (chosen === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = chosen;
  try {
    if (chosen === "system") localStorage.removeItem(THEME_KEY);
    else localStorage.setItem(THEME_KEY, chosen);
  } catch {
    // it holds for this page only
  }
}

export interface Notice {
  kind: "done" | "failed";
  text: string;
}
export const notice = new Store<Notice | null>(null);
let noticeTimer = 0;

export function tell(kind: Notice["kind"], text: string): void {
  notice.set({ kind, text });
  clearTimeout(noticeTimer);
  noticeTimer = window.setTimeout(() => notice.set(null), kind === "failed" ? 12_000 : 5_000);
}
