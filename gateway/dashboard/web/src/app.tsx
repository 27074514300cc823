// The frame around the views: navigation, keys, theme, sign-in, and what is said of the connection.
import { useEffect, useRef, useState } from "preact/hooks";

import { check, key, signedOut, signIn, signInAsked, signOut, urlOf } from "./api";
import { liveState, numDropped, type LiveState } from "./live";
import { count } from "./format";
import { Patterns } from "./parts/chart";
import { Boundary, Dialog } from "./parts/ui";
import { go, hrefOf, useRoute, type Route } from "./route";
import { applyTheme, notice, theme, useStore, type Theme } from "./store";
import { AdviceView } from "./views/advice";
import { Models } from "./views/models";
import { Overview } from "./views/overview";
import { Prefixes } from "./views/prefixes";
import { OneRequest } from "./views/request";
import { Requests } from "./views/requests";
import { OneSession } from "./views/session";
import { Sessions } from "./views/sessions";

const VIEWS = [
  ["overview", "Overview"], ["requests", "Requests"], ["prefixes", "Prefixes"],
  ["sessions", "Sessions"], ["models", "Models"], ["advice", "Advice"],
] as const;

function View({ route }: { route: Route }) {
  switch (route.view) {
    case "overview": return <Overview route={route} />;
    case "requests": return route.id ? <OneRequest key={route.id} id={route.id} />
      : <Requests route={route} />;
    case "prefixes": return <Prefixes route={route} />;
    case "sessions": return route.id ? <OneSession key={route.id} id={route.id} />
      : <Sessions route={route} />;
    case "models": return <Models route={route} />;
    case "advice": return <AdviceView route={route} />;
    default: return (
      <div class="title">
        <h1>There is no such view</h1>
        <a href={hrefOf("overview")}>Overview</a>
      </div>
    );
  }
}

const isTyping = (target: EventTarget | null): boolean =>
  target instanceof Element && target.closest("input, textarea, select, dialog") !== null;

const isNowhere = (target: EventTarget | null): boolean =>
  target === document.body || (target instanceof Element && target.tagName === "MAIN");

const NEXT: Record<Theme, Theme> = { system: "dark", dark: "light", light: "system" };

function useKeys(help: () => void): void {
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
      const view = VIEWS[Number(event.key) - 1];
      if (event.key === "/") {
        const filter = document.getElementById("filter");
        if (!filter) return go("requests");
        event.preventDefault();
        filter.focus();
      } else if (event.key === "ArrowDown" && isNowhere(event.target)) {
        // The first key goes into the table, so that nobody has to look for it with the tabulator.
        const table = document.querySelector<HTMLElement>(".scroll");
        if (!table) return;
        event.preventDefault();
        table.focus();
        table.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowDown", bubbles: true }));
      } else if (event.key === "?") {
        help();
      } else if (event.key === "t") {
        applyTheme(NEXT[theme.get()]);
      } else if (view) {
        go(view[0]);
      }
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, []);
}

export function App() {
  const route = useRoute();
  const isSignedOut = useStore(signedOut);
  const [help, setHelp] = useState(false);
  const main = useRef<HTMLElement>(null);
  useKeys(() => setHelp(true));
  const place = `${route.view}/${route.id}`;
  const before = useRef(place);
  useEffect(() => {
    const named = VIEWS.find(([name]) => name === route.view)?.[1] ?? "kvgate";
    document.title = `${route.id ? `${route.id} · ` : ""}${named} · kvgate`;
    if (before.current !== place) main.current?.focus();
    before.current = place;
  }, [place]);
  const isAsked = useStore(signInAsked);
  if (isSignedOut || isAsked) return <SignIn needed={isSignedOut} />;
  return (
    <>
      <Patterns />
      <a class="skip" href="#main" onClick={(event) => {
        event.preventDefault();
        main.current?.focus();
      }}>Skip to the content</a>
      <Side route={route} help={() => setHelp(true)} />
      <main id="main" ref={main} tabIndex={-1} class={`view-${route.view}`}>
        <Boundary key={place}><View route={route} /></Boundary>
      </main>
      <Notices />
      {help ? <Keys close={() => setHelp(false)} /> : null}
    </>
  );
}

function Side({ route, help }: { route: Route; help: () => void }) {
  const chosen = useStore(theme);
  const hasKey = useStore(key) !== "";
  return (
    <header class="side">
      <a class="brand" href={hrefOf("overview")} aria-label="kvgate, overview">
        <svg viewBox="0 0 32 32" width="20" height="20" aria-hidden="true">
          <rect class="b1" width="32" height="32" rx="7" />
          <path class="b2" d="M8 9h5v5H8zM8 18h5v5H8zM16 9h8v5h-8z" />
          <path class="b3" d="M16 18h8v5h-8z" />
        </svg>
        kvgate
      </a>
      <nav aria-label="Views">
        <ul>
          {VIEWS.map(([name, text], index) => (
            <li key={name}>
              <a href={hrefOf(name)} aria-current={route.view === name ? "page" : undefined}
                title={`${text} (${index + 1})`}>{text}</a>
            </li>
          ))}
        </ul>
      </nav>
      <div class="foot">
        <Connection />
        <button type="button" class="quiet" title="Theme (t)"
          onClick={() => applyTheme(NEXT[chosen])}>
          <span class="hidden">Theme: </span>
          {chosen === "system" ? "Auto" : chosen === "dark" ? "Dark" : "Light"}
        </button>
        <button type="button" class="quiet" title="Keys (?)" aria-label="Keys" onClick={help}>
          Keys</button>
        {hasKey ? <button type="button" class="quiet" onClick={signOut}>Sign out</button>
          : <button type="button" class="quiet" title="See what belongs to a key"
            onClick={() => signInAsked.set(true)}>Sign in</button>}
      </div>
    </header>
  );
}

const CONNECTION: Record<LiveState, readonly [string, string, string]> = {
  live: ["good", "Live", "New requests appear as they end"],
  connecting: ["plain", "Connecting", "Asking the gateway for its events"],
  waiting: ["warn", "Reconnecting", "The connection ended: it is tried again"],
  refused: ["bad", "No live data", "The gateway refuses its events to this key"],
  absent: ["plain", "Not live", "This gateway has no events: data is asked for at intervals"],
};

function Connection() {
  const [tone, text, title] = CONNECTION[useStore(liveState)];
  const dropped = useStore(numDropped);
  return (
    <span class={`connection ${tone}`} role="status" title={dropped
      ? `${title}. ${count(dropped)} requests were left out: the sums and Requests have them`
      : title}>
      {text}
    </span>
  );
}

function Notices() {
  const said = useStore(notice);
  return (
    <div class="notices" aria-live="polite">
      {said ? <p class={said.kind}>{said.text}
        <button type="button" class="quiet" aria-label="Close" onClick={() => notice.set(null)}>
          ×</button></p> : null}
    </div>
  );
}

const KEYS = [
  ["1 – 6", "Open a view"], ["/", "Filter"], ["↑ ↓, j k", "Choose a row"],
  ["Page ↑ ↓, Home, End", "Go far"], ["Enter", "Open the row"],
  ["Esc", "Let the row go, close a dialog"], ["← →", "Read a chart step by step"],
  ["t", "Theme: system, dark, light"], ["?", "This list"],
] as const;

function Keys({ close }: { close: () => void }) {
  return (
    <Dialog title="Keys" close={close}>
      <dl class="keys">
        {KEYS.map(([name, text]) => (
          <div key={name}><dt><kbd>{name}</kbd></dt><dd>{text}</dd></div>
        ))}
      </dl>
      <footer><button type="button" onClick={close}>Close</button></footer>
    </Dialog>
  );
}

function SignIn({ needed }: { needed: boolean }) {
  const [text, setText] = useState("");
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState("");
  const submit = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    setProblem("");
    const found = text.trim();
    try {
      const response = await fetch(urlOf("stats"), {
        headers: { Authorization: `Bearer ${found}` }, credentials: "omit", cache: "no-store",
      });
      if (response.status === 401) throw new Error("The gateway does not know this key.");
      await check(response);
      signIn(found);
    } catch (error) {
      setProblem(error instanceof TypeError ? "The gateway does not answer, or the key holds signs "
        + "that no header may have." : error instanceof Error ? error.message : String(error));
      setBusy(false);
    }
  };
  return (
    <main class="sign-in">
      <form class="card" onSubmit={(event) => void submit(event)}>
        <h1>kvgate</h1>
        <p>{needed ? "This gateway asks for a key." : "Sessions and caches belong to the key that "
          + "made them."} It is kept for this tab and sent to this gateway only.</p>
        <div class="field">
          <label htmlFor="key">Key</label>
          <input id="key" type="password" autocomplete="current-password" autoFocus required
            value={text} aria-invalid={problem !== ""} aria-describedby="key-problem"
            onInput={(event) => setText(event.currentTarget.value)} />
          <p id="key-problem" class="problem" role="alert">{problem}</p>
        </div>
        <button type="submit" class="primary" disabled={busy}>
          {busy ? "Asking…" : "Sign in"}</button>
        {needed ? null : <button type="button" onClick={() => signInAsked.set(false)}>
          Go on without</button>}
      </form>
    </main>
  );
}
