// The address behind '#' says which view is open and what it shows, so that it can be kept and sent
// to somebody: #/requests?model=gpt-6&break=any, #/requests/ID.
import { useEffect, useState } from "preact/hooks";

export interface Route {
  view: string;
  id: string; // of one request or session; "" for the list
  query: Record<string, string>;
}

const decode = (text: string): string => {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
};

export function parseRoute(hash: string): Route {
  const [path = "", query = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  const [view = "", ...rest] = path.split("/");
  return {
    view: view || "overview",
    id: decode(rest.join("/")),
    query: Object.fromEntries(new URLSearchParams(query)),
  };
}

export function hrefOf(view: string, id = "", query: Record<string, string> = {}): string {
  const kept = Object.entries(query).filter(([, value]) => value !== "");
  const text = new URLSearchParams(kept).toString();
  return `#/${view}${id ? `/${encodeURIComponent(id)}` : ""}${text ? `?${text}` : ""}`;
}

export function go(view: string, id = "", query: Record<string, string> = {}): void {
  location.hash = hrefOf(view, id, query);
}

// Changes the query without a new entry in the history: for what is typed.
export function replaceQuery(query: Record<string, string>): void {
  const { view, id } = parseRoute(location.hash);
  history.replaceState(null, "", hrefOf(view, id, query));
  dispatchEvent(new HashChangeEvent("hashchange"));
}

export function useRoute(): Route {
  const [route, setRoute] = useState(() => parseRoute(location.hash));
  useEffect(() => {
    const read = () => setRoute(parseRoute(location.hash));
    addEventListener("hashchange", read);
    read(); // it may have changed since the first rendering
    return () => removeEventListener("hashchange", read);
  }, []);
  return route;
}
