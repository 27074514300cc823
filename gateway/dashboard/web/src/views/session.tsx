// One session: how its context grew over its turns and of what, where it was compacted, what was
// said, and what can be done with it.
import { useMemo, useState } from "preact/hooks";

import { download, send, useData } from "../api";
import { absolute, count, countdown, dollars, exact, percent, words } from "../format";
import { Chart, type Point, type Series } from "../parts/chart";
import { SourceLegend, StateLegend } from "../parts/sources";
import {
  Ask, Badge, Card, Dialog, Empty, Segmented, Show, Tile, Time, type Question,
} from "../parts/ui";
import { go, hrefOf } from "../route";
import { now, tell, useStore } from "../store";
import {
  SOURCES, type Clock, type Page, type Request, type Session, type Stats, type Turn,
} from "../types";

export function OneSession({ id }: { id: string }) {
  const path = `sessions/${encodeURIComponent(id)}`;
  const session = useData<Session>(path, {}, 10_000);
  const requests = useData<Page<Request>>("requests", { session: id, limit: 1000 }, 10_000);
  const stats = useData<Stats>("stats", {}, 10_000);
  const [question, setQuestion] = useState<Question | null>(null);
  const act = async (run: () => Promise<unknown>, done: string) => {
    await run();
    tell("done", done);
    session.reload();
  };
  const warm = stats.data?.ledger?.clocks?.find((one) => one.session === id);
  return (
    <>
      <div class="title">
        <a class="back" href={hrefOf("sessions")}>Sessions</a>
        <h1 class="id">{id}</h1>
        {session.data ? <Actions session={session.data} path={path} act={act} ask={setQuestion} />
          : null}
      </div>
      <Show of={session} lines={10}>
        {(data) => (
          <>
            <Head session={data} requests={requests.data?.data} warm={warm} />
            <Context session={data} requests={requests.data?.data ?? []} />
            <Turns turns={data.data ?? []} has_more={data.has_more ?? false}
              fork={(turn) => setQuestion(forkQuestion(data, path, turn, act))} />
          </>
        )}
      </Show>
      {question ? <Ask question={question} close={() => setQuestion(null)} /> : null}
    </>
  );
}

type Act = (run: () => Promise<unknown>, done: string) => Promise<void>;

function Actions({ session, path, act, ask }: {
  session: Session; path: string; act: Act; ask: (question: Question) => void;
}) {
  const shown = <q class="quoted">{session.key}</q>;
  return (
    <div class="actions">
      <button type="button" onClick={() => ask(forkQuestion(session, path, null, act))}>
        Fork</button>
      <button type="button" onClick={() => ask({
        title: "Compact this session now?", action: "Compact",
        text: <p>The oldest rounds of {shown} are folded into a summary, which its model is asked
          for: that costs one request. The prompt is computed anew once behind the summary. It can
          be undone; the turns stay on disk.</p>,
        run: () => act(() => send("POST", `${path}/compact`), "The session was compacted."),
      })}>Compact now</button>
      <button type="button" disabled={!session.messages_left_out}
        title={session.messages_left_out ? "" : "Nothing is left out of its prompt"}
        onClick={() => ask({
          title: "Undo the last compaction?", action: "Undo",
          text: <p>What it left out stands in the prompt of {shown} again from the next turn
            on.</p>,
          run: () => act(() => send("POST", `${path}/undo`), "The compaction was undone."),
        })}>Undo</button>
      <button type="button" onClick={() => ask({
        title: "Export this session?", action: "Export",
        text: <p>A file with all that was said in {shown} is saved by your browser.</p>,
        run: () => act(() => download(`${path}/export`, `${session.key}.jsonl`),
          "The session was exported."),
      })}>Export</button>
      <button type="button" class="danger" onClick={() => ask({
        title: "Delete this session?", action: "Delete", danger: true,
        text: <p>All {count(session.turns)} turns of {shown} and the KV that nothing else shares are
          removed. This cannot be undone.</p>,
        run: async () => {
          await send("DELETE", path);
          tell("done", "The session was deleted.");
          go("sessions");
        },
      })}>Delete</button>
    </div>
  );
}

function forkQuestion(session: Session, path: string, turn: Turn | null, act: Act): Question {
  return {
    title: "Fork this session", action: "Fork",
    text: <p>A new session begins with the turns of <q class="quoted">{session.key}</q>{" "}
      {turn ? "up to this one" : "so far"}; what is cached holds for both.</p>,
    fields: [{ name: "key", label: "Key of the new session", value: `${session.key}-fork`,
      required: true, hint: "1 to 128 characters without blanks and slashes" }],
    run: async (values) => {
      const body = { key: values.key, ...(turn ? { turn: turn.id } : {}) };
      await act(() => send("POST", `${path}/fork`, body), "The session was forked.");
      go("sessions", values.key);
    },
  };
}

function Head({ session, requests, warm }: {
  session: Session; requests: Request[] | undefined; warm: Clock | undefined;
}) {
  const turns = session.data ?? [];
  const input = turns.reduce((sum, turn) => sum + turn.tokens.input, 0);
  const cached = turns.reduce((sum, turn) => sum + turn.tokens.cached, 0);
  const last = turns[turns.length - 1];
  const cost = requests?.reduce((sum, one) => sum + (one.cost?.nanodollars ?? 0), 0);
  return (
    <section class="card live" aria-label="In short">
      <dl class="tiles">
        <Tile label="Turns" value={count(session.turns)} title={exact(session.turns)}
          note={<>last <Time us={session.updated_at * 1e6} /></>} />
        <Tile label="Model" value={<span class="name">{session.model || "–"}</span>}
          title={session.model} note={session.dialect} />
        <Tile label="Context now" value={count(last?.tokens.input)}
          title={exact(last?.tokens.input)} note="last prompt" />
        <Tile label="Hit rate" tone="main" value={percent(cached, input)}
          note={`${count(cached)} of ${count(input)} tokens`} />
        <Tile label="Left out" value={count(session.messages_left_out ?? 0)} note="messages" />
        <Tile label="Cost" value={requests ? dollars(cost) : "–"} note="of its requests" />
        {warm ? <WarmTile warm={warm} /> : null}
      </dl>
    </section>
  );
}

function WarmTile({ warm }: { warm: Clock }) {
  const ms = useStore(now);
  const left = warm.expires_us / 1e6 - ms / 1000;
  return (
    <Tile label="Cold in" value={left > 0 ? countdown(left) : "cold"}
      title={absolute(warm.expires_us)} note={`then ${dollars(warm.cold_nanodollars)}`} />
  );
}

const SOURCE_SERIES: Series[] = SOURCES.map((source) =>
  ({ name: words(source), look: `k-${source}` }));

// A turn's id holds the id of the request that made it.
const requestOf = (turn: Turn): string => turn.id.replace(/^turn_/, "").replace(/-\d+$/, "");

function boundsOf(session: Session): { value: number; text: string }[] {
  const { mode, low, high, hard } = session.window ?? { mode: "off" };
  if (mode === "off") return [];
  return [["window low", low], ["window high", high], ["window hard", hard]].flatMap(
    ([text, value]) => typeof value === "number" ? [{ value, text: String(text) }] : []);
}

function Context({ session, requests }: { session: Session; requests: Request[] }) {
  const turns = session.data ?? [];
  const [table, setTable] = useState(false);
  const [by, setBy] = useState<"source" | "state">("source");
  const found = useMemo(() => new Map(requests.map((one) => [one.id, one])), [requests]);
  const said = turns.filter((turn) => turn.tokens.input > 0);
  const hasSources = said.some((turn) => found.get(requestOf(turn))?.attribution);
  const shown = hasSources ? by : "state";
  const points: Point[] = said.map((turn, index) => ({
    us: index,
    values: shown === "source" ? bySource(turn, found.get(requestOf(turn)))
      : [turn.tokens.cached, turn.tokens.input - turn.tokens.cached],
  }));
  const marks = marksOf(turns, said);
  if (said.length === 0) return <Card title="Context"><Empty title="No turn yet" /></Card>;
  return (
    <Card title="Context over turns" hint={marks.length
      ? `▼ marks ${marks.length === 1 ? "a compaction" : `${marks.length} compactions`}` : ""}
      actions={(
        <>
          {hasSources ? <Segmented label="Split" value={by} choose={setBy}
            options={[["source", "by source"], ["state", "by state"]]} /> : null}
          <button type="button" class="quiet" aria-pressed={table}
            onClick={() => setTable(!table)}>Table</button>
        </>
      )}>
      <Chart title="Context over turns" kind="bars" step="turn" height={200} table={table}
        points={points} show={count} marks={marks} lines={boundsOf(session)}
        labelOf={(point) => String(point.us + 1)}
        series={shown === "source" ? SOURCE_SERIES
          : [{ name: "cached", look: "k-cached" }, { name: "not cached", look: "k-uncached" }]} />
      {shown === "source" ? <SourceLegend sources={SOURCES} /> : <StateLegend />}
    </Card>
  );
}

function bySource(turn: Turn, request: Request | undefined): (number | null)[] {
  const attribution = request?.attribution;
  // Without its record all of a prompt counts as its history.
  if (!attribution) return SOURCES.map((name) => name === "history" ? turn.tokens.input : 0);
  return SOURCES.map((name) => {
    const tokens = attribution[name];
    return tokens ? tokens.cached + tokens.written + tokens.uncached : 0;
  });
}

// In front of the turn that the compaction was made for; one of its own stands in front of the
// next turn, or behind the last one.
function marksOf(turns: Turn[], said: Turn[]): { index: number; text: string }[] {
  return turns.flatMap((turn, at) => {
    if (!turn.compaction) return [];
    const next = turns.slice(at).find((one) => one.tokens.input > 0);
    return [{ index: next ? said.indexOf(next) : said.length, text: compactionText(turn) }];
  });
}

function compactionText(turn: Turn): string {
  const event = turn.compaction!;
  const done = event.mode === "hard" ? "left out" : "summarised";
  return `${done} ${event.messages_left_out} messages: ${count(event.tokens_before)} → ${
    count(event.tokens_after)} tokens`;
}

const TURNS_SHOWN = 15;

function Turns({ turns, has_more, fork }: {
  turns: Turn[]; has_more: boolean; fork: (turn: Turn) => void;
}) {
  const [open, setOpen] = useState<Turn | null>(null);
  const [all, setAll] = useState(false);
  const newest = [...turns].reverse();
  const rows = all ? newest : newest.slice(0, TURNS_SHOWN);
  return (
    <Card title="Turns" class="flush" hint={has_more ? "The newest; older ones are kept too" : ""}>
      <div class="table-scroll" tabIndex={0} role="region" aria-label="Turns">
        <table class="turns">
          <thead>
            <tr>
              <th scope="col">Time</th><th scope="col">Said</th>
              <th scope="col" class="n">Prompt</th><th scope="col" class="n">Hit</th>
              <th scope="col" class="n mid-only">Output</th>
              <th scope="col"><span class="hidden">Actions</span></th>
            </tr>
          </thead>
          <tbody>
            {rows.map((turn) => (
              <tr key={turn.id}>
                <th scope="row"><Time us={turn.created_at * 1e6} /></th>
                <td class="text">{turn.compaction
                  ? <Badge tone="accent">{compactionText(turn)}</Badge>
                  : turn.undoes ? <Badge tone="plain">undone</Badge> : previewOf(turn)}</td>
                <td class="n" title={exact(turn.tokens.input)}>
                  {turn.tokens.input > 0 ? count(turn.tokens.input) : "–"}
                </td>
                <td class="n">{percent(turn.tokens.cached, turn.tokens.input)}</td>
                <td class="n mid-only">
                  {turn.tokens.input > 0 ? count(turn.tokens.output) : "–"}
                </td>
                <td class="row-actions">
                  <button type="button" class="quiet" aria-label={`Read turn ${turn.id}`}
                    onClick={() => setOpen(turn)}>Read</button>
                  <button type="button" class="quiet" aria-label={`Fork at turn ${turn.id}`}
                    onClick={() => fork(turn)}>Fork</button>
                  <a class="quiet" href={hrefOf("requests", requestOf(turn))}
                    aria-label={`Request of turn ${turn.id}`}>Request</a>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {newest.length > TURNS_SHOWN ? (
        <button type="button" class="quiet" onClick={() => setAll(!all)}>
          {all ? `The newest ${TURNS_SHOWN}` : `All ${newest.length} turns`}
        </button>
      ) : null}
      {open ? <TurnText turn={open} close={() => setOpen(null)} /> : null}
    </Card>
  );
}

// The texts of a message, whatever its dialect; anything else as JSON.
export function textOf(message: unknown): { role: string; text: string } {
  const object = (message ?? {}) as Record<string, unknown>;
  const role = String(object.role ?? object.type ?? "item");
  const content = object.content ?? object.output ?? object.arguments;
  if (typeof content === "string" && content) return { role, text: content };
  if (Array.isArray(content)) {
    const texts = content.map((part: unknown) => {
      const known = (part ?? {}) as Record<string, unknown>;
      return typeof known.text === "string" ? known.text : JSON.stringify(part);
    });
    return { role, text: texts.join("\n") };
  }
  return { role, text: JSON.stringify(message) };
}

function previewOf(turn: Turn): string {
  const last = turn.input[turn.input.length - 1];
  return last === undefined ? "–" : textOf(last).text.slice(0, 200);
}

const TEXT_MAX = 20_000;

function TurnText({ turn, close }: { turn: Turn; close: () => void }) {
  return (
    <Dialog title="Turn" close={close} wide>
      <p class="hint">{turn.model} · {absolute(turn.created_at * 1e6)}</p>
      <div class="messages" tabIndex={0} role="region" aria-label="Messages">
        {[...turn.input, ...turn.answer].map((message, index) => {
          const { role, text } = textOf(message);
          return (
            <div key={index} class="message">
              <b>{role}</b>
              <pre>{text.length > TEXT_MAX ? `${text.slice(0, TEXT_MAX)}…` : text}</pre>
            </div>
          );
        })}
      </div>
      <footer><button type="button" onClick={close}>Close</button></footer>
    </Dialog>
  );
}
