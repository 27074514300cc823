// All requests, the newest first: filtered, live, as many as one cares to scroll through.
import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";

import { ApiError, ask } from "../api";
import { count, dollars, exact, micros, percent, short, words } from "../format";
import { onRequests } from "../live";
import { StateBar } from "../parts/sources";
import { Badge, Empty, Failure, Skeleton, Time } from "../parts/ui";
import { go, hrefOf, replaceQuery, type Route } from "../route";
import type { Page, Request, StateTokens } from "../types";

const FILTERS = ["model", "upstream", "session", "conversation", "key", "tenant", "break", "status",
  "endpoint"] as const;
type Filters = Record<string, string>;
const PAGE = 200;
const ROWS_MAX = 5000; // in memory: the oldest go first
const ROW_PX = 34;

const isFailed = (request: Request): boolean =>
  request.status >= 400 || request.status === 0
  || (request.outcome !== undefined && request.outcome !== "complete");

// The same that the gateway's filters mean, for requests that come live.
export function matches(request: Request, filters: Filters): boolean {
  return Object.entries(filters).every(([name, wanted]) => {
    switch (name) {
      case "break": {
        const cause = request.break?.cause;
        return wanted === "any" ? cause !== undefined && cause !== "none" : cause === wanted;
      }
      case "model":
        return request.model === wanted || request.asked_model === wanted;
      case "status":
        return wanted === "failed" ? isFailed(request) : String(request.status) === wanted;
      case "conversation":
        return request.conversation?.id === wanted;
      default:
        return String(request[name as keyof Request] ?? "") === wanted;
    }
  });
}

const filtersOf = (query: Record<string, string>): Filters =>
  Object.fromEntries(FILTERS.filter((name) => query[name]).map((name) => [name, query[name]!]));

const textOf = (filters: Filters): string =>
  Object.entries(filters).map(([name, value]) => `${name}:${value}`).join(" ");

// "model:gpt-6 break:any" → filters, and the words that are none.
export function parseFilters(text: string): { filters: Filters; unknown: string[] } {
  const filters: Filters = {};
  const unknown: string[] = [];
  for (const word of text.split(/\s+/).filter(Boolean)) {
    const colon = word.indexOf(":");
    const name = word.slice(0, colon);
    if (colon > 0 && (FILTERS as readonly string[]).includes(name) && word.length > colon + 1) {
      filters[name] = word.slice(colon + 1);
    } else {
      unknown.push(word);
    }
  }
  return { filters, unknown };
}

export function stateOf(request: Request): StateTokens | null {
  const usage = request.usage;
  if (!usage) return null;
  return { cached: usage.cache_read_tokens, written: usage.cache_write_tokens,
    uncached: usage.uncached_tokens };
}

interface Rows {
  list: Request[];
  error: ApiError | null;
  loading: boolean;
  ended: boolean; // the oldest that the gateway has is there
}

// The rows of these filters. `hold` keeps new ones back, so that nothing moves under the pointer.
function useRows(filters: Filters, hold: boolean) {
  const [rows, setRows] = useState<Rows>({ list: [], error: null, loading: true, ended: false });
  const [waiting, setWaiting] = useState<Request[]>([]);
  const [turn, setTurn] = useState(0);
  const name = JSON.stringify(filters);
  const busy = useRef(false);
  const held = useRef(hold);
  held.current = hold;
  useEffect(() => {
    const abort = new AbortController();
    setRows({ list: [], error: null, loading: true, ended: false });
    setWaiting([]);
    busy.current = false;
    ask<Page<Request>>("requests", { ...filters, limit: PAGE }, abort.signal).then(
      (page) => setRows((old) => ({ list: merged(old.list, page.data), error: null, loading: false,
        ended: page.data.length < PAGE })),
      (error: unknown) => {
        if (abort.signal.aborted) return;
        setRows({ list: [], error: asError(error), loading: false, ended: true });
      });
    return () => abort.abort();
  }, [name, turn]);
  useEffect(() => onRequests((found) => {
    const fitting = found.filter((request) => matches(request, filters));
    if (fitting.length === 0) return;
    if (held.current) setWaiting((old) => [...old, ...fitting].slice(-ROWS_MAX));
    else setRows((old) => ({ ...old, list: merged(fitting, old.list) }));
  }), [name]);
  useEffect(() => {
    if (hold || waiting.length === 0) return;
    setRows((old) => ({ ...old, list: merged(waiting, old.list) }));
    setWaiting([]);
  }, [hold, waiting]);
  const current = useRef(name);
  current.current = name;
  const older = () => {
    const asked = name;
    const last = rows.list[rows.list.length - 1];
    if (busy.current || rows.ended || rows.loading || !last) return;
    busy.current = true;
    ask<Page<Request>>("requests", { ...filters, limit: PAGE, before: last.id }).then((page) => {
      if (current.current !== asked) return; // of other filters
      setRows((old) => ({ ...old, list: [...old.list, ...page.data], ended: page.data.length < PAGE
        || old.list.length + page.data.length > ROWS_MAX }));
      busy.current = false;
    }, () => {
      busy.current = false;
    });
  };
  return { rows, waiting: waiting.length, older, reload: () => setTurn((old) => old + 1) };
}

const asError = (error: unknown): ApiError =>
  error instanceof ApiError ? error : new ApiError(0, "The gateway does not answer.");

// Newest first, each once: ids sort by time.
function merged(fresh: Request[], old: Request[]): Request[] {
  const known = new Set(old.map((request) => request.id));
  const added = fresh.filter((request) => !known.has(request.id));
  if (added.length === 0) return old;
  added.sort((a, b) => (a.id < b.id ? 1 : -1));
  const head = old[0];
  const inOrder = !head || added[added.length - 1]!.id > head.id;
  const all = inOrder ? [...added, ...old]
    : [...added, ...old].sort((a, b) => (a.id < b.id ? 1 : -1));
  return all.slice(0, ROWS_MAX);
}

export function Requests({ route }: { route: Route }) {
  const name = JSON.stringify(filtersOf(route.query));
  const filters = useMemo(() => JSON.parse(name) as Filters, [name]);
  const [paused, setPaused] = useState(false);
  const [scrolled, setScrolled] = useState(false);
  const { rows, waiting, older, reload } = useRows(filters, paused || scrolled);
  return (
    <>
      <div class="title">
        <h1>Requests</h1>
        <FilterBar filters={filters}>
          <button type="button" aria-pressed={paused} onClick={() => setPaused(!paused)}>
            {paused ? "Go on" : "Pause"}
          </button>
        </FilterBar>
      </div>
      <section class="card flush" aria-label="Requests">
        {rows.error ? <Failure error={rows.error} retry={reload} />
          : rows.loading && rows.list.length === 0 ? <Skeleton lines={10} />
            : rows.list.length === 0 ? <NoRows filtered={Object.keys(filters).length > 0} />
              : <RequestTable rows={rows.list} waiting={waiting} older={older}
                onScrolled={setScrolled} />}
      </section>
    </>
  );
}

function NoRows({ filtered }: { filtered: boolean }) {
  return filtered ? <Empty title="No request fits this filter">New ones appear as they end.</Empty>
    : <Empty title="No request yet">Point an agent's base URL at this gateway.</Empty>;
}

function FilterBar({ filters, children }: { filters: Filters; children: ComponentChildren }) {
  const [text, setText] = useState(() => textOf(filters));
  const input = useRef<HTMLInputElement>(null);
  const { unknown } = parseFilters(text);
  useEffect(() => {
    if (document.activeElement !== input.current) setText(textOf(filters));
  }, [filters]);
  const apply = (next: Filters) => {
    setText(textOf(next));
    replaceQuery(next);
  };
  const toggle = (name: string, value: string) => {
    const next = { ...filters };
    if (next[name] === value) delete next[name];
    else next[name] = value;
    apply(next);
  };
  return (
    <form class="filter" role="search" onSubmit={(event) => {
      event.preventDefault();
      apply(parseFilters(text).filters);
    }}>
      <label class="hidden" htmlFor="filter">Filter</label>
      <input id="filter" ref={input} type="search" value={text} spellcheck={false}
        autocomplete="off" placeholder="model:… session:… break:any status:failed"
        aria-invalid={unknown.length > 0} aria-describedby="filter-problem"
        onInput={(event) => setText(event.currentTarget.value)}
        onBlur={() => apply(parseFilters(text).filters)} />
      <span id="filter-problem" class={unknown.length ? "problem" : "hidden"} aria-live="polite">
        {unknown.length ? `Not a filter: ${unknown[0]}. Known: ${FILTERS.join(", ")}` : ""}
      </span>
      <button type="button" aria-pressed={filters.break === "any"}
        onClick={() => toggle("break", "any")}>Breaks</button>
      <button type="button" aria-pressed={filters.status === "failed"}
        onClick={() => toggle("status", "failed")}>Failed</button>
      {children}
      {Object.keys(filters).length
        ? <button type="button" class="quiet" onClick={() => apply({})}>Clear</button> : null}
    </form>
  );
}

// Only the rows that are seen are in the document: thousands of them, and a hundred more a second,
// cost as much as thirty.
function RequestTable({ rows, waiting, older, onScrolled }: {
  rows: Request[]; waiting: number; older: () => void; onScrolled: (scrolled: boolean) => void;
}) {
  const box = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  const [height, setHeight] = useState(800);
  const [chosen, setChosen] = useState("");
  useEffect(() => {
    const element = box.current!;
    const observer = new ResizeObserver(() => setHeight(element.clientHeight));
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  const first = Math.max(0, Math.floor(top / ROW_PX) - 8);
  const last = Math.min(rows.length, Math.ceil((top + height) / ROW_PX) + 8);
  const index = rows.findIndex((request) => request.id === chosen);
  const isScrolled = top > ROW_PX / 2;
  useEffect(() => onScrolled(isScrolled || chosen !== ""), [isScrolled, chosen]);
  useEffect(() => () => onScrolled(false), []);
  const onScroll = () => {
    const element = box.current!;
    setTop(element.scrollTop);
    if (element.scrollTop + element.clientHeight > element.scrollHeight - 20 * ROW_PX) older();
  };
  const choose = (at: number) => {
    const next = Math.max(0, Math.min(rows.length - 1, at));
    setChosen(rows[next]!.id);
    const element = box.current!;
    const y = next * ROW_PX;
    if (y < element.scrollTop) element.scrollTop = y;
    if (y + 2 * ROW_PX > element.scrollTop + element.clientHeight) {
      element.scrollTop = y + 2 * ROW_PX - element.clientHeight;
    }
  };
  const press = (event: KeyboardEvent) => {
    const page = Math.max(1, Math.floor(height / ROW_PX) - 2);
    const moves: Record<string, number> = {
      ArrowDown: index + 1, j: index + 1, ArrowUp: index - 1, k: index - 1,
      PageDown: index + page, PageUp: index - page, Home: 0, End: rows.length - 1,
    };
    const to = moves[event.key];
    if (to !== undefined && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      choose(to);
    } else if (event.key === "Enter" && index >= 0) {
      go("requests", rows[index]!.id);
    } else if (event.key === "Escape") {
      setChosen("");
    }
  };
  return (
    <>
      <div class="scroll" ref={box} onScroll={onScroll} onKeyDown={press} tabIndex={0} role="region"
        aria-label="Requests, the newest first. Arrow keys choose one, Enter opens it.">
        <table class="requests" aria-rowcount={rows.length + 1}>
          <thead>
            <tr aria-rowindex={1}>
              <th scope="col">Time</th>
              <th scope="col">Model</th>
              <th scope="col" class="wide-only">Upstream</th>
              <th scope="col" class="wide-only">Session</th>
              <th scope="col" class="n">Prompt</th>
              <th scope="col" class="bar-column mid-only"><span class="hidden">By state</span></th>
              <th scope="col" class="n">Hit</th>
              <th scope="col" class="n mid-only">Output</th>
              <th scope="col" class="n mid-only">TTFT</th>
              <th scope="col" class="n mid-only">Cost</th>
              <th scope="col">Result</th>
            </tr>
          </thead>
          <tbody>
            <Spacer rows={first} />
            {rows.slice(first, last).map((request, i) => (
              <RequestRow key={request.id} request={request} index={first + i}
                chosen={request.id === chosen} />
            ))}
            <Spacer rows={rows.length - last} />
          </tbody>
        </table>
      </div>
      {waiting > 0 ? (
        <button type="button" class="more primary" onClick={() => {
          setChosen("");
          box.current!.scrollTop = 0;
        }}>{count(waiting)} new</button>
      ) : null}
    </>
  );
}

function Spacer({ rows }: { rows: number }) {
  if (rows <= 0) return null;
  return (
    <tr class="spacer" aria-hidden="true">
      <td style={{ height: `${rows * ROW_PX}px` }} />
    </tr>
  );
}

function RequestRow({ request, index, chosen }: {
  request: Request; index: number; chosen: boolean;
}) {
  const tokens = stateOf(request);
  const prompt = request.usage?.input_tokens ?? 0;
  return (
    <tr class={chosen ? "chosen" : ""} aria-rowindex={index + 2} aria-current={chosen || undefined}
      onClick={(event) => {
        if (!(event.target as Element).closest("a")) go("requests", request.id);
      }}>
      <th scope="row">
        <a href={hrefOf("requests", request.id)} tabIndex={-1}><Time us={request.time_us} /></a>
      </th>
      <td class="text" title={request.model}>{request.model || "–"}</td>
      <td class="text wide-only" title={request.upstream}>{request.upstream || "–"}</td>
      <td class="text wide-only" title={request.session}>
        {request.session ?? <Conversation request={request} />}
      </td>
      <td class="n" title={exact(request.usage?.input_tokens)}>{tokens ? count(prompt) : "–"}</td>
      <td class="bar-column mid-only">
        {tokens ? <StateBar tokens={tokens} whole={Math.max(1, prompt)} slim /> : null}
      </td>
      <td class="n">{tokens ? percent(tokens.cached, prompt) : "–"}</td>
      <td class="n mid-only">{count(request.usage?.output_tokens)}</td>
      <td class="n mid-only">{micros(request.timings?.ttft_us)}</td>
      <td class="n mid-only">{request.cost ? dollars(request.cost.nanodollars) : "–"}</td>
      <td class="text"><Result request={request} /></td>
    </tr>
  );
}

function Conversation({ request }: { request: Request }) {
  const id = request.conversation?.id;
  return id ? <span class="faint" title={`Conversation ${id}`}>{short(id, 10)}</span> : <>–</>;
}

const QUIET_CAUSES = ["none", "first_seen", "below_minimum"];

export function Result({ request }: { request: Request }) {
  if (isFailed(request)) {
    const text = request.status >= 400 || !request.outcome ? String(request.status)
      : words(request.outcome);
    return <Badge tone="bad" {...(request.error ? { title: request.error } : {})}>{text}</Badge>;
  }
  const cause = request.break?.cause ?? "none";
  if (cause === "none") return <span class="faint">ok</span>;
  return (
    <Badge tone={QUIET_CAUSES.includes(cause) ? "plain" : "warn"}
      {...(request.break?.verdict ? { title: request.break.verdict } : {})}>
      {words(cause)}
    </Badge>
  );
}
