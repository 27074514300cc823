// Small parts that all views use: cards, numbers, times, states of loading, dialogs.
import { Component, type ComponentChildren } from "preact";
import { useEffect, useId, useLayoutEffect, useRef, useState } from "preact/hooks";

import { ApiError, type Loaded } from "../api";
import { absolute, ago, exact } from "../format";
import { now, useStore } from "../store";

export function Card({ title, hint, actions, children, class: more = "" }: {
  title: string; hint?: string; actions?: ComponentChildren; children: ComponentChildren;
  class?: string;
}) {
  const id = useId();
  return (
    <section class={`card ${more}`} aria-labelledby={id}>
      <header>
        <h2 id={id}>{title}</h2>
        {hint ? <p class="hint">{hint}</p> : null}
        {actions ? <div class="actions">{actions}</div> : null}
      </header>
      {children}
    </section>
  );
}

export function Tile({ label, value, title, note, tone = "" }: {
  label: ComponentChildren; value: ComponentChildren; title?: string | undefined;
  note?: ComponentChildren; tone?: string;
}) {
  return (
    <div class={`tile ${tone}`}>
      <dt>{label}</dt>
      <dd title={title}>{value}</dd>
      {note ? <dd class="note">{note}</dd> : null}
    </div>
  );
}

// A relative time that goes on; the absolute one is its title.
export function Time({ us }: { us: number }) {
  const ms = useStore(now);
  const date = new Date(us / 1000);
  const iso = Number.isNaN(date.getTime()) ? undefined : date.toISOString();
  return <time dateTime={iso} title={absolute(us)}>{ago(us, ms * 1000)}</time>;
}

export function Num({ value, show }: {
  value: number | undefined | null; show: (value: number | undefined | null) => string;
}) {
  return <span title={exact(value)}>{show(value)}</span>;
}

// A mark and a word, so that no state is told by colour alone.
export function Badge({ tone, children, title }: {
  tone: "good" | "warn" | "bad" | "plain" | "accent"; children: ComponentChildren; title?: string;
}) {
  return <span class={`badge ${tone}`} title={title}>{children}</span>;
}

export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <p class="what">{title}</p>
      {children ? <p>{children}</p> : null}
    </div>
  );
}

export function Failure({ error, retry }: { error: ApiError; retry?: () => void }) {
  const title = error.status === 403 ? "Your key may not see this"
    : error.status === 404 ? "This is not here"
      : error.status === 0 ? "The gateway does not answer"
        : error.status < 0 ? "Something is wrong here" : `The gateway says ${error.status}`;
  const text = error.status === 403
    ? `${error.message} It takes a key of the role admin.` : error.message;
  return (
    <div class="failure" role="alert">
      <p class="what">{title}</p>
      <p>{text}</p>
      {retry && error.status !== 403 ? <button type="button" onClick={retry}>Try again</button>
        : null}
    </div>
  );
}

// A view that cannot show what it was given says so, and the frame around it stays.
export class Boundary extends Component<{ children: ComponentChildren }, { text: string }> {
  override state = { text: "" };
  override componentDidCatch(error: unknown): void {
    this.setState({ text: error instanceof Error ? error.message : String(error) });
  }
  override render() {
    return this.state.text
      ? <Failure error={new ApiError(-1, `This view cannot be shown: ${this.state.text}`)} />
      : <>{this.props.children}</>;
  }
}

export function Skeleton({ lines = 4 }: { lines?: number }) {
  return (
    <div class="skeleton" aria-busy="true">
      <span class="hidden">Loading</span>
      {Array.from({ length: lines }, (_, i) => <i key={i} class={`w${i % 4}`} />)}
    </div>
  );
}

// What is shown of data: it loads, it failed, or it is there.
export function Show<T>({ of, lines, children }: {
  of: Loaded<T>; lines?: number; children: (data: T) => ComponentChildren;
}) {
  if (of.data !== undefined) {
    return (
      <>
        {of.error ? <Stale error={of.error} /> : null}
        {children(of.data)}
      </>
    );
  }
  if (of.error) return <Failure error={of.error} retry={of.reload} />;
  return <Skeleton {...(lines ? { lines } : {})} />;
}

function Stale({ error }: { error: ApiError }) {
  return <p class="stale" role="status">Not up to date: {error.message}</p>;
}

export function Segmented<T extends string>({ label, options, value, choose }: {
  label: string; options: readonly (readonly [T, string])[]; value: T; choose: (value: T) => void;
}) {
  return (
    <div class="segmented" role="group" aria-label={label}>
      {options.map(([name, text]) => (
        <button key={name} type="button" aria-pressed={name === value} onClick={() => choose(name)}>
          {text}
        </button>
      ))}
    </div>
  );
}

export function Dialog({ title, close, children, wide = false }: {
  title: string; close: () => void; children: ComponentChildren; wide?: boolean;
}) {
  const ref = useRef<HTMLDialogElement>(null);
  const id = useId();
  useLayoutEffect(() => {
    const before = document.activeElement;
    ref.current?.showModal();
    return () => {
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  return (
    <dialog ref={ref} class={wide ? "wide" : ""} aria-labelledby={id} onClose={close}
      onClick={(event) => {
        if (event.target === ref.current) close();
      }}>
      <div class="inside">
        <h2 id={id}>{title}</h2>
        {children}
      </div>
    </dialog>
  );
}

export interface Question {
  title: string;
  text: ComponentChildren;
  action: string;
  danger?: boolean;
  fields?: Field[];
  run: (values: Record<string, string>) => Promise<void>;
}

export interface Field {
  name: string;
  label: string;
  value?: string;
  hint?: string;
  kind?: "text" | "number" | "area";
  required?: boolean;
}

// Asks before something is done, says what it does, and stays open with the reason if it fails.
export function Ask({ question, close }: { question: Question; close: () => void }) {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState("");
  const [values, setValues] = useState<Record<string, string>>(() =>
    Object.fromEntries((question.fields ?? []).map((field) => [field.name, field.value ?? ""])));
  const id = useId();
  const submit = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    setError("");
    try {
      await question.run(values);
      close();
    } catch (problem) {
      setError(problem instanceof Error ? problem.message : String(problem));
      setBusy(false);
    }
  };
  return (
    <Dialog title={question.title} close={close}>
      <form onSubmit={(event) => void submit(event)}>
        <div class="text">{question.text}</div>
        {(question.fields ?? []).map((field, index) => (
          <FieldInput key={field.name} id={`${id}-${field.name}`} field={field}
            value={values[field.name] ?? ""} focus={index === 0}
            set={(value) => setValues((old) => ({ ...old, [field.name]: value }))} />
        ))}
        {error ? <p class="problem" role="alert">{error}</p> : null}
        <footer>
          <button type="button" onClick={close}>Cancel</button>
          <button type="submit" class={question.danger ? "danger" : "primary"} disabled={busy}>
            {busy ? "Working…" : question.action}
          </button>
        </footer>
      </form>
    </Dialog>
  );
}

function FieldInput({ id, field, value, set, focus }: {
  id: string; field: Field; value: string; set: (value: string) => void; focus: boolean;
}) {
  const props = {
    id, value, required: field.required ?? false, autoFocus: focus, spellcheck: false,
    "aria-describedby": field.hint ? `${id}-hint` : undefined,
    onInput: (event: Event) => set((event.currentTarget as HTMLInputElement).value),
  };
  return (
    <div class="field">
      <label htmlFor={id}>{field.label}</label>
      {field.kind === "area" ? <textarea rows={8} {...props} />
        : field.kind === "number" ? <input {...props} type="number" min="0" step="any" />
          : <input {...props} type="text" autocomplete="off" />}
      {field.hint ? <p id={`${id}-hint`} class="hint">{field.hint}</p> : null}
    </div>
  );
}

export function Facts({ rows }: { rows: (readonly [string, ComponentChildren] | null)[] }) {
  return (
    <dl class="facts">
      {rows.filter((row) => row !== null).map(([name, value]) => (
        <div key={name}><dt>{name}</dt><dd>{value}</dd></div>
      ))}
    </dl>
  );
}

// The width of an element, followed as it changes.
export function useWidth<T extends HTMLElement>(): [{ current: T | null }, number] {
  const ref = useRef<T>(null);
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const element = ref.current;
    if (!element) return undefined;
    const observer = new ResizeObserver(([entry]) => {
      if (entry) setWidth(Math.floor(entry.contentRect.width));
    });
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  return [ref, width];
}

export function Copy({ text }: { text: string }) {
  const [done, setDone] = useState(false);
  if (!navigator.clipboard) return null;
  return (
    <button type="button" class="quiet" onClick={() => {
      void navigator.clipboard.writeText(text).then(() => {
        setDone(true);
        setTimeout(() => setDone(false), 1500);
      }, () => setDone(false));
    }}>{done ? "Copied" : "Copy"}</button>
  );
}
