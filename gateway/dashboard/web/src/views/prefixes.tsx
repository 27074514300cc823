// The prefixes whose KV lies on this machine's disk, as a tree: those of one model that begin alike
// stand together.
import { useState } from "preact/hooks";

import { download, send, useData } from "../api";
import { bytes, count, exact, micros, short } from "../format";
import { Ask, Badge, Card, Empty, Show, Time, type Question } from "../parts/ui";
import type { Route } from "../route";
import { tell } from "../store";
import type { Prefix, PrefixPage, Stats } from "../types";

export function Prefixes(_: { route: Route }) {
  const prefixes = useData<PrefixPage>("prefixes", {}, 10_000);
  const stats = useData<Stats>("stats");
  const [question, setQuestion] = useState<Question | null>(null);
  const canWarm = Boolean(stats.data?.engine);
  const act = async (run: () => Promise<unknown>, done: string) => {
    await run();
    tell("done", done);
    prefixes.reload();
  };
  return (
    <>
      <div class="title">
        <h1>Prefixes</h1>
        <button type="button" disabled={!canWarm}
          title={canWarm ? "Compute a prompt's KV before it is asked for"
            : "Only the local engine can be warmed"}
          onClick={() => setQuestion(warmQuestion(act))}>Warm a prompt</button>
      </div>
      <Show of={prefixes} lines={8}>
        {(page) => <Trees page={page} ask={(prefix, what) =>
          setQuestion(questionOf(prefix, what, act))} />}
      </Show>
      {question ? <Ask question={question} close={() => setQuestion(null)} /> : null}
    </>
  );
}

type Act = (run: () => Promise<unknown>, done: string) => Promise<void>;
type What = "pin" | "unpin" | "delete" | "export";

const nameOf = (prefix: Prefix): string => prefix.name || prefix.preview || prefix.id;

function questionOf(prefix: Prefix, what: What, act: Act): Question {
  const path = `prefixes/${encodeURIComponent(prefix.id)}`;
  const shown = <q class="quoted">{nameOf(prefix)}</q>;
  if (what === "pin") return pinQuestion(prefix, path, act);
  if (what === "unpin") {
    return {
      title: "Unpin this prefix?", action: "Unpin",
      text: <p>{shown} keeps its KV until room is needed; then it is evicted like any other.</p>,
      run: () => act(() => send("DELETE", `${path}/pin`), "The prefix is no longer pinned."),
    };
  }
  if (what === "export") {
    return {
      title: "Export this prefix?", action: "Export",
      text: <p>A file of about {bytes(prefix.bytes)} with the KV and the prompt's tokens of {shown}
        {" "}is saved by your browser. Who has it can read the prompt.</p>,
      run: () => act(() => download(`${path}/export`, `${prefix.id}.kvgate`),
        "The prefix was exported."),
    };
  }
  return {
    title: "Delete this prefix?", action: "Delete", danger: true,
    text: <p>{count(prefix.tokens)} tokens of KV ({bytes(prefix.bytes)}) of {shown} are removed from
      disk, but for what other prefixes share.{prefix.pinned ? " It is pinned: the pin goes too."
        : ""} The next request that begins so is computed again.</p>,
    run: () => act(() => send("DELETE", path, undefined, prefix.pinned ? { force: 1 } : {}),
      "The prefix was deleted."),
  };
}

function pinQuestion(prefix: Prefix, path: string, act: Act): Question {
  return {
    title: "Pin this prefix", action: "Pin",
    text: <p>Pinned KV ({bytes(prefix.bytes)}) is not evicted while the pin lasts.</p>,
    fields: [
      { name: "name", label: "Name", value: prefix.name ?? "", hint: "May be empty" },
      { name: "hours", label: "Hours", kind: "number", value: "",
        hint: "How long it lasts; empty: until it is unpinned" },
    ],
    run: (values) => {
      const body: Record<string, unknown> = {};
      if (values.name) body.name = values.name;
      if (values.hours) body.ttl_seconds = Math.round(Number(values.hours) * 3600);
      return act(() => send("POST", `${path}/pin`, body), "The prefix is pinned.");
    },
  };
}

function warmQuestion(act: Act): Question {
  return {
    title: "Warm a prompt", action: "Warm",
    text: <p>The local engine computes the prompt's KV now and keeps it, so that a request that
      begins so is answered at once. No answer is generated.</p>,
    fields: [
      { name: "model", label: "Model", value: "local", required: true },
      { name: "prompt", label: "Prompt, or a request in JSON", kind: "area", required: true,
        hint: "A text, or an object with messages as an application sends it" },
    ],
    run: (values) => act(() => send("POST", "prefixes/warm", warmBody(values)),
      "The prompt is warm."),
  };
}

export function warmBody(values: Record<string, string>): Record<string, unknown> {
  const text = values.prompt ?? "";
  if (text.trimStart().startsWith("{")) {
    let body: unknown;
    try {
      body = JSON.parse(text);
    } catch (error) {
      throw new Error(`This is no JSON: ${(error as Error).message}`);
    }
    return { model: values.model, ...(body as object) };
  }
  return { model: values.model, prompt: text };
}

interface Group {
  preview: string;
  list: Prefix[];
}

// By model, then by how they begin; what has most tokens first.
function groupsOf(prefixes: Prefix[]): Map<string, Group[]> {
  const models = new Map<string, Map<string, Group>>();
  for (const prefix of [...prefixes].sort((a, b) => b.tokens - a.tokens)) {
    const model = prefix.model ?? "unknown model";
    const groups = models.get(model) ?? new Map<string, Group>();
    models.set(model, groups);
    const preview = prefix.preview ?? "";
    const group = groups.get(preview) ?? { preview, list: [] };
    groups.set(preview, group);
    group.list.push(prefix);
  }
  return new Map([...models].map(([model, groups]) => [model, [...groups.values()]]));
}

const hintOf = (list: Prefix[]): string => `${count(list.length)} ${
  list.length === 1 ? "prefix" : "prefixes"}, ${
  bytes(list.reduce((sum, one) => sum + one.bytes, 0))}`;

function Trees({ page, ask }: { page: PrefixPage; ask: (prefix: Prefix, what: What) => void }) {
  if (page.data.length === 0) {
    return (
      <section class="card">
        <Empty title="No prefix is kept">
          The local engine keeps the KV of prompts on disk once they come again or are warmed.
        </Empty>
      </section>
    );
  }
  return (
    <>
      {[...groupsOf(page.data)].map(([model, groups]) => (
        <Card key={model} title={model} class="flush"
          hint={hintOf(groups.flatMap((group) => group.list))}>
          <div class="table-scroll" tabIndex={0} role="region" aria-label={`Prefixes of ${model}`}>
            <PrefixTable groups={groups} ask={ask} />
          </div>
        </Card>
      ))}
      {page.hits_since ? (
        <p class="hint">
          Hits, and what they saved, are counted since the gateway began,{" "}
          <Time us={page.hits_since} />.
        </p>
      ) : null}
      {page.has_more ? <p class="hint">There are more: the largest are shown.</p> : null}
    </>
  );
}

function PrefixTable({ groups, ask }: {
  groups: Group[]; ask: (prefix: Prefix, what: What) => void;
}) {
  const most = Math.max(1, ...groups.flatMap((group) => group.list).map((one) => one.tokens));
  return (
    <table class="prefixes">
      <thead>
        <tr>
          <th scope="col">Begins with</th>
          <th scope="col" class="n">Tokens</th>
          <th scope="col" class="tier wide-only">Tier</th>
          <th scope="col" class="n hits">Hits</th>
          <th scope="col" class="n mid-only">Saved</th>
          <th scope="col" class="wide-only when">Last used</th>
          <th scope="col" class="row-actions"><span class="hidden">Actions</span></th>
        </tr>
      </thead>
      <tbody>
        {groups.flatMap((group) => group.list.map((prefix, index) => (
          <tr key={prefix.id} class={index > 0 ? "branch" : ""}>
            <th scope="row" class="text" title={`${prefix.preview ?? ""} (${prefix.id})`}>
              <Name prefix={prefix} isFirst={index === 0} />
            </th>
            <td class="n" title={`${exact(prefix.tokens)} tokens, ${exact(prefix.bytes)} bytes`}>
              {count(prefix.tokens)}
              <span class="meter" aria-hidden="true">
                <i style={{ width: `${100 * prefix.tokens / most}%` }} />
              </span>
              <span class="sub">{bytes(prefix.bytes)}</span>
            </td>
            <td class="tier wide-only" title={tiersTitle(prefix)}>{tierName(prefix)}</td>
            <td class="n hits"><Hits prefix={prefix} /></td>
            <td class="n mid-only"><Saved prefix={prefix} /></td>
            <td class="wide-only">
              {prefix.last_used ? <Time us={prefix.last_used * 1e6} /> : "–"}
            </td>
            <td class="row-actions"><Actions prefix={prefix} ask={ask} /></td>
          </tr>
        )))}
      </tbody>
    </table>
  );
}

function Name({ prefix, isFirst }: { prefix: Prefix; isFirst: boolean }) {
  return (
    <>
      {isFirst ? null : <span class="twig" aria-hidden="true">└</span>}
      {prefix.name ? <b>{prefix.name}</b> : null}
      {prefix.version ? <span class="faint">@{prefix.version}</span> : null}
      {prefix.pinned ? <>{" "}<Pin prefix={prefix} />{" "}</> : null}
      {isFirst ? <span class={prefix.name ? "sub" : ""}>{prefix.preview || "–"}</span>
        : <span class="faint">{prefix.name ? " " : ""}begins alike · {short(prefix.id)}</span>}
    </>
  );
}

function Pin({ prefix }: { prefix: Prefix }) {
  return (
    <>
      <Badge tone="accent">pinned</Badge>
      {prefix.expires_at ? <span class="faint"> ends <Time us={prefix.expires_at * 1e6} /></span>
        : null}
    </>
  );
}

const TIERS: Record<string, string> = { device: "device", host: "host", disk: "disk" };

const tierName = (prefix: Prefix): string =>
  prefix.tier ? TIERS[prefix.tier] ?? prefix.tier : "–";

// Says of a prefix whose parts lie in several tiers how much is where.
function tiersTitle(prefix: Prefix): string {
  const rows = Object.entries(prefix.tiers ?? {}).filter(([, tokens]) => tokens > 0);
  return rows.map(([tier, tokens]) => `${TIERS[tier] ?? tier}: ${exact(tokens)} tokens`)
    .join(", ");
}

function Hits({ prefix }: { prefix: Prefix }) {
  const shared = prefix.shared_hits ?? 0;
  return (
    <>
      <span title={prefix.hits === undefined ? "Only a local engine's are counted"
        : `${exact(prefix.hits)} requests read it`}>{count(prefix.hits)}</span>
      {shared > 0 ? (
        <span class="sub mid-only"
          title={`${exact(shared)} more read only what it shares with others`}>
          +{count(shared)} shared
        </span>
      ) : null}
    </>
  );
}

function Saved({ prefix }: { prefix: Prefix }) {
  if (!prefix.hits) return <span class="faint">–</span>;
  return (
    <span title={`${exact(prefix.saved_tokens)} tokens were read that would have been computed`}>
      {count(prefix.saved_tokens)}
      {prefix.saved_ms === undefined ? null
        : <span class="sub">{micros(prefix.saved_ms * 1000)}</span>}
    </span>
  );
}

function Actions({ prefix, ask }: { prefix: Prefix; ask: (prefix: Prefix, what: What) => void }) {
  const button = (what: What, text: string, danger = false) => (
    <button type="button" class={danger ? "quiet danger" : "quiet"}
      aria-label={`${text} ${nameOf(prefix)}`} onClick={() => ask(prefix, what)}>{text}</button>
  );
  return (
    <>
      {prefix.pinned ? button("unpin", "Unpin") : button("pin", "Pin")}
      {button("export", "Export")}
      {button("delete", "Delete", true)}
    </>
  );
}
