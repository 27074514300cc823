// One request: what its prompt was made of, what was read, where and why its prefix broke, what was
// changed on the way, and how long each part took.
import { useState } from "preact/hooks";

import { useData } from "../api";
import { diffWords } from "../diff";
import {
  absolute, bytes, costNote, count, dollars, exact, micros, percent, span, words,
} from "../format";
import { Ribbon, SegmentTable } from "../parts/ribbon";
import { rowsOf, SourceTable, StateBar, sumOf, type SourceRow } from "../parts/sources";
import { Badge, Card, Copy, Empty, Facts, Show, Tile, Time } from "../parts/ui";
import { hrefOf } from "../route";
import type { Break, Request, Segment, Stats, Timings } from "../types";
import { Result, stateOf } from "./requests";

export function OneRequest({ id }: { id: string }) {
  const request = useData<Request>(`requests/${encodeURIComponent(id)}`);
  const stats = useData<Stats>("stats");
  return (
    <>
      <div class="title">
        <a class="back" href={hrefOf("requests")}>Requests</a>
        <h1 class="id">{id}</h1>
        <Copy text={id} />
      </div>
      <Show of={request} lines={10}>
        {(data) => <Details request={data} stats={stats.data} />}
      </Show>
    </>
  );
}

function Details({ request, stats }: { request: Request; stats: Stats | undefined }) {
  const segments = request.segments ?? [];
  return (
    <>
      <Head request={request} />
      {request.error ? <p class="failure slim" role="note">{request.error}</p> : null}
      <Card title="Prompt" hint={request.estimated
        ? "Tokens of segments are estimates, scaled to the provider's sums"
        : "In its order; as wide as it has tokens"}>
        {segments.length ? <Ribbon segments={segments} found={request.break} />
          : <NoSegments request={request} />}
      </Card>
      <div class="columns even">
        <BreakCard found={request.break} />
        <Card title="Timings"><Waterfall timings={request.timings ?? {}} /></Card>
      </div>
      <div class="columns even">
        <Card title="By source">
          {rowsOf(request.attribution).length
            ? <SourceTable rows={rowsOf(request.attribution)} money={dollars}
              caption="Tokens of this prompt by source and state" />
            : <Empty title="Not known">The answer did not say how many tokens it took.</Empty>}
        </Card>
        <Treatment request={request} stats={stats} />
      </div>
      <Tools segments={segments} request={request} />
      {segments.length ? (
        <Card title="Segments" hint="Sizes and hashes; the text itself is not kept">
          <SegmentTable segments={segments} />
        </Card>
      ) : null}
    </>
  );
}

function Head({ request }: { request: Request }) {
  const tokens = stateOf(request);
  const prompt = request.usage?.input_tokens;
  return (
    <section class="card live" aria-label="In short">
      <dl class="tiles">
        <Tile label="Model" value={<span class="name">{request.model || "–"}</span>}
          title={request.model}
          note={<>{request.upstream || "no upstream"} · <Time us={request.time_us} /></>} />
        <Tile label="Result" value={<Result request={request} />}
          note={`${request.status}${request.outcome ? `, ${words(request.outcome)}` : ""}`} />
        <Tile label="Hit rate" tone="main"
          value={tokens && prompt !== undefined ? percent(tokens.cached, prompt) : "–"}
          note={tokens ? `${count(tokens.cached)} of ${count(prompt)} tokens` : "usage unknown"} />
        <Tile label="Output" value={count(request.usage?.output_tokens)}
          title={exact(request.usage?.output_tokens)}
          note={request.usage?.reasoning_tokens
            ? `${count(request.usage.reasoning_tokens)} of them reasoning` : "tokens"} />
        <Tile label="Cost" value={request.cost ? dollars(request.cost.nanodollars) : "–"}
          note={request.cost ? costNote(request.cost) : "price unknown"} />
        <Tile label="TTFT" value={micros(request.timings?.ttft_us)}
          note={`${micros(request.timings?.total_us)} in all`} />
      </dl>
    </section>
  );
}

function NoSegments({ request }: { request: Request }) {
  const rows = rowsOf(request.attribution);
  if (rows.length === 0) return <Empty title="What it was made of is not known" />;
  const parts: Segment[] = rows.map((row) => ({ source: row.name, tokens: sumOf(row),
    cached: row.cached, written: row.written, uncached: row.uncached }));
  return (
    <>
      <Ribbon segments={parts} found={request.break} />
      <p class="hint">Its single segments are no longer kept: this is by source.</p>
    </>
  );
}

// Excerpts are shown as they are, and once more as one text in which the difference is marked.
function BreakCard({ found }: { found: Break | undefined }) {
  if (!found) {
    return <Card title="Prefix"><Empty title="It was not examined" /></Card>;
  }
  const isWhole = found.cause === "none";
  return (
    <Card title={isWhole ? "Prefix" : "Where the prefix broke"}>
      <p class="cause">
        <Badge tone={isWhole ? "good" : "warn"}>{isWhole ? "whole" : words(found.cause)}</Badge>
        {found.path ? <code>{found.path}</code> : null}
        {found.volatile_kind ? <span>a value that changes: {words(found.volatile_kind)}</span>
          : null}
      </p>
      {found.verdict ? <p>{found.verdict}</p> : null}
      {found.before || found.after
        ? <Diff before={found.before ?? ""} after={found.after ?? ""} /> : null}
      <Facts rows={[
        ["Could be read", <span title={exact(found.reusable_tokens)}>
          {count(found.reusable_tokens)} tokens</span>],
        ["Lost", <span title={exact(found.lost_tokens)}>{count(found.lost_tokens)} tokens</span>],
        ["Cost of the loss", dollars(found.lost_nanodollars)],
      ]} />
    </Card>
  );
}

function Diff({ before, after }: { before: string; after: string }) {
  return (
    <figure class="diff">
      <figcaption class="hidden">What was sent before, and what is sent now</figcaption>
      <pre tabIndex={0} aria-label="Difference">
        {diffWords(before, after).map((piece, index) => piece.kind === "same" ? piece.text
          : piece.kind === "gone" ? <del key={index}>{piece.text}</del>
            : <ins key={index}>{piece.text}</ins>)}
      </pre>
    </figure>
  );
}

interface Step {
  name: string;
  look: string;
  from: number;
  to: number;
}

// The parts of a request one after another, as far as they are known.
export function stepsOf(timings: Timings): Step[] {
  const total = timings.total_us ?? 0;
  const queue = timings.queue_us ?? 0;
  const steps: Step[] = [{ name: "queue", look: "k-queue", from: 0, to: queue }];
  const ttft = timings.ttft_us ?? total;
  if (timings.prefill_us !== undefined) {
    steps.push({ name: "prefill", look: "k-prefill", from: queue, to: queue + timings.prefill_us });
  } else if (timings.first_byte_us !== undefined) {
    steps.push({ name: "upstream", look: "k-wait", from: queue,
      to: timings.first_byte_us });
    steps.push({ name: "first token", look: "k-prefill", from: timings.first_byte_us, to: ttft });
  } else {
    steps.push({ name: "first token", look: "k-prefill", from: queue, to: ttft });
  }
  steps.push({ name: "answer", look: "k-decode", from: ttft,
    to: timings.decode_us === undefined ? total : Math.min(total, ttft + timings.decode_us) });
  return steps.filter((step) => step.to > step.from);
}

function Waterfall({ timings }: { timings: Timings }) {
  const total = timings.total_us;
  if (!total) return <Empty title="No time was taken" />;
  return (
    <>
      <ol class="waterfall">
        {stepsOf(timings).map((step) => (
          <li key={step.name}>
            <span class="name">{step.name}</span>
            <span class="track" aria-hidden="true">
              <i class={step.look} style={{ left: `${100 * step.from / total}%`,
                width: `max(2px, ${100 * (step.to - step.from) / total}%)` }} />
            </span>
            <span class="n" title={`${exact(step.to - step.from)} µs`}>
              {micros(step.to - step.from)}
            </span>
          </li>
        ))}
      </ol>
      <Facts rows={[
        ["TTFT", micros(timings.ttft_us)], ["In all", micros(total)],
        timings.tpot_us === undefined ? null : ["TPOT", `${micros(timings.tpot_us)}, ${
          timings.tpot_us > 0 ? count(1e6 / timings.tpot_us) : "–"} tokens/s`],
        timings.itl_us_max === undefined ? null : ["Longest gap", micros(timings.itl_us_max)],
      ]} />
    </>
  );
}

function Treatment({ request, stats }: { request: Request; stats: Stats | undefined }) {
  const upstream = stats?.upstreams?.find((one) => one.name === request.upstream);
  const translated = upstream?.dialect && request.dialect && upstream.dialect !== request.dialect;
  const edits = request.edits ?? [];
  return (
    <Card title="On its way">
      <Facts rows={[
        ["Asked", <>{request.path || request.endpoint} ({request.dialect})</>],
        ["Sent as", request.upstream === "local" ? "answered by the local engine"
          : translated ? <>translated to the dialect {upstream.dialect}</>
            : upstream?.dialect ? `as it came (${upstream.dialect})`
              : request.upstream || "not sent"],
        request.asked_model && request.asked_model !== request.model
          ? ["Asked for", <span class="name">{request.asked_model}</span>] : null,
        request.answered_by && request.answered_by !== request.model
          ? ["Answered by", <span class="name">{request.answered_by}</span>] : null,
        ["Mode", request.mode || "–"],
        ["Edits", edits.length === 0 ? "none: sent byte for byte"
          : <ul class="chips">{edits.map((edit) => (
            <li key={edit.rule}>{words(edit.rule)}{edit.count > 1 ? ` × ${edit.count}` : ""}</li>
          ))}</ul>],
        request.plan ? ["Plan", <>{request.plan.reason} <span class="faint">
          (reads expected: {request.plan.expected_reuse.toFixed(2)}, breakpoints:{" "}
          {request.plan.markers})</span></>] : null,
        request.held_stale ? ["Held", `${request.held_stale.lines} lines, for ${
          span(request.held_stale.seconds)}`] : null,
        request.session ? ["Session", <a href={hrefOf("sessions", request.session)}>
          {request.session}</a>] : null,
        request.conversation ? ["Conversation", <a href={hrefOf("requests", "",
          { conversation: request.conversation.id })}>{request.conversation.id}</a>] : null,
        request.key ? ["Key", request.key] : null,
        request.tenant ? ["Tenant", <span class="name">{request.tenant}</span>] : null,
        ["Received", absolute(request.time_us)],
        request.bytes ? ["Bytes", `${bytes(request.bytes.received)} in, ${
          bytes(request.bytes.sent)} sent on, ${bytes(request.bytes.answer)} answer`] : null,
        request.tiers ? ["Tiers", <Tiers tiers={request.tiers} />] : null,
        request.upstream_request_id ? ["Provider's id", <code>{request.upstream_request_id}</code>]
          : null,
        (request.attempts ?? 1) > 1 ? ["Attempts", String(request.attempts)] : null,
        request.provider_reason ? ["Provider's reason", words(request.provider_reason)] : null,
      ]} />
    </Card>
  );
}

function Tiers({ tiers }: { tiers: Record<string, number> }) {
  const rows = Object.entries(tiers).filter(([, tokens]) => tokens > 0);
  return <>{rows.map(([tier, tokens]) => `${count(tokens)} ${tier}`).join(", ") || "none"}</>;
}

// Tools and their results by server and name: what the /context of an agent shows.
const TOOLS_SHOWN = 8;

function Tools({ segments, request }: { segments: Segment[]; request: Request }) {
  const [open, setOpen] = useState(false);
  const found = new Map<string, SourceRow>();
  for (const segment of segments) {
    if (segment.source !== "tools" && segment.source !== "tool_results") continue;
    const name = `${segment.server ? `${segment.server} · ` : ""}${segment.name ?? "unnamed"}${
      segment.source === "tool_results" ? " (results)" : ""}`;
    const row = found.get(name) ?? { name, cached: 0, written: 0, uncached: 0, nanodollars: 0 };
    row.cached += segment.cached;
    row.written += segment.written;
    row.uncached += segment.uncached;
    found.set(name, row);
  }
  if (found.size === 0) return null;
  const sorted = [...found.values()].sort((a, b) => sumOf(b) - sumOf(a));
  const rows = open ? sorted : sorted.slice(0, TOOLS_SHOWN);
  const all = sorted.reduce((sum, row) => sum + sumOf(row), 0);
  return (
    <Card title="Tools" hint={`${count(all)} of ${
      count(request.usage?.input_tokens)} tokens are tools and their results`}>
      <table class="source-table">
        <caption class="hidden">Tokens of tools and their results</caption>
        <thead>
          <tr>
            <th scope="col">Tool</th>
            <th scope="col" class="grow"><span class="hidden">By state</span></th>
            <th scope="col" class="n">Tokens</th><th scope="col" class="n mid-only">Share</th>
            <th scope="col" class="n">Hit</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={row.name}>
              <th scope="row" class="text" title={row.name}>{row.name}</th>
              <td class="grow"><StateBar tokens={row} whole={sumOf(rows[0]!)}
                source={row.name.endsWith("(results)") ? "tool_results" : "tools"} /></td>
              <td class="n" title={exact(sumOf(row))}>{count(sumOf(row))}</td>
              <td class="n mid-only">
                {percent(sumOf(row), request.usage?.input_tokens ?? all)}
              </td>
              <td class="n">{percent(row.cached, sumOf(row))}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {sorted.length > TOOLS_SHOWN ? (
        <button type="button" class="quiet" onClick={() => setOpen(!open)}>
          {open ? `The largest ${TOOLS_SHOWN}` : `All ${sorted.length}`}
        </button>
      ) : null}
    </Card>
  );
}
