// What there is to see at a glance: how much is cached, what that costs, how fast it is, what goes
// cold next, and what to change.
import { useState } from "preact/hooks";

import { useData, useSums, type Loaded } from "../api";
import {
  clock, costNote, count, countdown, dollars, exact, micros, percent, words,
} from "../format";
import { liveStats } from "../live";
import { BudgetsCard } from "../parts/budgets";
import { Chart, pointsOf, type Point, type Series } from "../parts/chart";
import { rowsOf, SourceTable, StateLegend } from "../parts/sources";
import { TierBars, tiersOf } from "../parts/tiers";
import { Badge, Card, Empty, Segmented, Show, Tile } from "../parts/ui";
import { go, hrefOf, type Route } from "../route";
import { now, useStore } from "../store";
import type {
  Advice, Bucket, Clock, LiveStats, Page, Rollup, SourceTokens, Stats,
} from "../types";

type Step = "minute" | "hour" | "day";
const RANGES = [["minute", "1 hour"], ["hour", "2 days"], ["day", "30 days"]] as const;
const LONG: Record<Step, string> = {
  minute: "the last hour", hour: "the last two days", day: "the last 30 days",
};

const STATE_SERIES: Series[] = [
  { name: "cached", look: "k-cached" }, { name: "written", look: "k-written" },
  { name: "uncached", look: "k-uncached" },
];

const promptOf = (bucket: Bucket): number =>
  (bucket.cached_tokens ?? 0) + (bucket.written_tokens ?? 0) + (bucket.uncached_tokens ?? 0);

const total = (buckets: Bucket[], member: keyof Bucket): number =>
  buckets.reduce((sum, bucket) => sum + (Number(bucket[member]) || 0), 0);

export function Overview({ route }: { route: Route }) {
  const asked = route.query.range as Step;
  const step: Step = RANGES.some(([name]) => name === asked) ? asked : "minute";
  const stats = useData<Stats>("stats", {}, 5_000);
  const totals = useSums({ step });
  const sources = useSums({ step: "all", by: "source", ...since(step) });
  const breaks = useSums({ step: "all", by: "break", ...since(step) });
  const advice = useData<Page<Advice>>("advice", {}, 60_000);
  return (
    <>
      <div class="title">
        <h1>Overview</h1>
        <Segmented label="Range" options={RANGES} value={step}
          choose={(range) => go("overview", "", { range })} />
      </div>
      <Live />
      <Totals totals={totals} step={step} />
      <div class="columns">
        <Card title="Context by source" hint={`All prompts of ${LONG[step]}`}
          actions={<StateLegend />}>
          <Show of={sources} lines={6}>{(data) => <Sources rollup={data} />}</Show>
        </Card>
        <Card title="Cache clocks" hint="When a prefix goes cold, and what that costs">
          <Show of={stats}>{(data) => <Clocks clocks={data.ledger?.clocks ?? []} />}</Show>
        </Card>
      </div>
      <BudgetsCard />
      <div class="columns thirds">
        <Card title="Where prefixes broke" hint={`Tokens that could have been read, ${LONG[step]}`}>
          <Show of={breaks}>{(data) => <Breaks rollup={data} />}</Show>
        </Card>
        <Card title="Tiers" hint="How full they are">
          <Show of={stats}>{(data) => <Fill stats={data} />}</Show>
        </Card>
        <Card title="Advice" hint="What would save most">
          <TopAdvice advice={advice} />
        </Card>
      </div>
    </>
  );
}

// The range of sums over all of it ends with the step that runs.
function since(step: Step): Record<string, number> {
  const length = step === "minute" ? 3600e6 : step === "hour" ? 48 * 3600e6 : 30 * 86400e6;
  const unit = step === "minute" ? 60e6 : step === "hour" ? 3600e6 : 86400e6;
  const end = Math.ceil((Date.now() * 1000 + 1) / unit) * unit;
  return { from_us: end - length, to_us: end };
}

function Live() {
  const live = useStore(liveStats);
  const minute = live?.minute;
  const prompt = minute ? minute.cached_tokens + minute.written_tokens + minute.uncached_tokens : 0;
  const saved = minute ? minute.uncached_nanodollars - minute.nanodollars : 0;
  return (
    <section class="card live" aria-label="The last minute">
      <dl class="tiles">
        <Tile label="Hit rate, last minute" tone="main"
          value={minute ? percent(minute.cached_tokens, prompt) : "–"}
          title={minute ? `${exact(minute.cached_tokens)} of ${exact(prompt)} tokens` : undefined}
          note={minute ? `${count(minute.cached_tokens)} of ${count(prompt)} tokens`
            : "no data yet"} />
        <Tile label="Requests a minute" value={minute ? count(minute.requests) : "–"}
          note={minute ? failedNote(minute.failed) : ""} />
        {live && live.requests_active === undefined ? null : <Active live={live} />}
        <Tile label="Output a minute" value={minute ? count(minute.output_tokens) : "–"}
          note="tokens" />
        <Tile label="Cost a minute" value={minute ? dollars(minute.nanodollars) : "–"}
          note={minute ? costNote(minute) : ""} />
        <Tile label="Saved a minute" value={minute ? dollars(saved) : "–"}
          note={minute ? percent(saved, minute.uncached_nanodollars) : ""} />
      </dl>
    </section>
  );
}

function Active({ live }: { live: LiveStats | null }) {
  const running = live?.requests_running ?? 0;
  return (
    <Tile label="Active requests" value={live ? count((live.requests_active ?? 0) + running) : "–"}
      note={live ? `${count(running)} in the engine, ${count(live.requests_waiting)} waiting` : ""}
    />
  );
}

const failedNote = (failed: number) =>
  failed ? <Badge tone="bad">{count(failed)} failed</Badge> : "none failed";

function Totals({ totals, step }: { totals: Loaded<Rollup>; step: Step }) {
  const [table, setTable] = useState(false);
  const button = (
    <button type="button" class="quiet" aria-pressed={table} onClick={() => setTable(!table)}>
      Table
    </button>
  );
  return (
    <div class="columns">
      <Card title="Prompt tokens" hint={LONG[step]}
        actions={<><StateLegend />{button}</>}>
        <Show of={totals} lines={7}>{(data) => <Tokens rollup={data} table={table} />}</Show>
      </Card>
      <Card title="Cost and speed" hint={LONG[step]}>
        <Show of={totals} lines={7}>{(data) => <CostAndSpeed rollup={data} table={table} />}</Show>
      </Card>
    </div>
  );
}

function chartPoints(rollup: Rollup, valuesOf: (bucket: Bucket | undefined) => (number | null)[])
  : Point[] {
  return pointsOf(rollup.step as Step, rollup.from_us, rollup.to_us, rollup.data, valuesOf);
}

function Tokens({ rollup, table }: { rollup: Rollup; table: boolean }) {
  const prompt = rollup.data.reduce((sum, bucket) => sum + promptOf(bucket), 0);
  if (prompt === 0) return <NoTraffic />;
  const cached = total(rollup.data, "cached_tokens");
  return (
    <>
      <p class="figure">
        <b title={`${exact(cached)} of ${exact(prompt)} tokens`}>{percent(cached, prompt)}</b>
        {" "}of {count(prompt)} prompt tokens were read from a cache
      </p>
      <Chart title="Hit rate" kind="lines" step={rollup.step as Step} height={72} max={100}
        table={table} bare show={(value) => `${Math.round(value)}%`}
        series={[{ name: "hit rate", look: "k-accent" }]}
        points={chartPoints(rollup, (bucket) => [bucket && promptOf(bucket) > 0
          ? 100 * (bucket.cached_tokens ?? 0) / promptOf(bucket) : null])} />
      <Chart title="Prompt tokens by state" kind="bars" step={rollup.step as Step} height={150}
        table={table} show={count} series={STATE_SERIES}
        points={chartPoints(rollup, (bucket) => [bucket?.cached_tokens ?? 0,
          bucket?.written_tokens ?? 0, bucket?.uncached_tokens ?? 0])} />
    </>
  );
}

// What requests would have cost if they had been sent without kvgate; undefined where some of them
// come from a time or a gateway that did not estimate it.
const directOf = (buckets: Bucket[]): number | undefined =>
  buckets.every((one) => one.direct_nanodollars !== undefined || !one.nanodollars)
    && buckets.some((one) => one.direct_nanodollars !== undefined)
    ? total(buckets, "direct_nanodollars") : undefined;

function CostAndSpeed({ rollup, table }: { rollup: Rollup; table: boolean }) {
  if (rollup.data.length === 0) return <NoTraffic />;
  const direct = directOf(rollup.data);
  const step = rollup.step as Step;
  const series: [string, string, keyof Bucket][] = [["cost", "k-accent", "nanodollars"],
    ["without cache", "k-other", "uncached_nanodollars"]];
  if (direct !== undefined) series.splice(1, 0, ["directly", "k-direct", "direct_nanodollars"]);
  return (
    <>
      <Costs buckets={rollup.data} direct={direct} />
      <Chart title="Cost" kind="lines" step={step} height={72} table={table} bare
        show={(value) => dollars(value)}
        series={series.map(([name, look]) => ({ name, look }))}
        points={chartPoints(rollup, (bucket) =>
          series.map(([, , member]) => Number(bucket?.[member] ?? 0)))} />
      <Percentiles rollup={rollup} table={table} />
    </>
  );
}

// Three figures of the same requests: as they were, sent directly, and if nothing were cached.
function Costs({ buckets, direct }: { buckets: Bucket[]; direct: number | undefined }) {
  const cost = total(buckets, "nanodollars");
  const without = total(buckets, "uncached_nanodollars");
  const lost = total(buckets, "lost_nanodollars");
  const less = (than: number) => than >= cost
    ? `${dollars(than - cost)} (${percent(than - cost, than)}) saved`
    : `${dollars(cost - than)} less than it was`;
  return (
    <dl class="tiles costs">
      <Tile label={<><i class="key k-accent" />Actual</>} tone="main" value={dollars(cost)}
        note={lost > 0 ? `${dollars(lost)} lost to breaks` : ""} />
      {direct === undefined ? null : (
        <Tile label={<><i class="key k-direct" />Directly</>} value={dollars(direct)}
          title="An estimate: the same requests, sent to the providers without kvgate"
          note={less(direct)} />
      )}
      <Tile label={<><i class="key k-other" />Without cache</>} value={dollars(without)}
        title="The same requests without any cache: all prompt tokens at their full price"
        note={less(without)} />
    </dl>
  );
}

function Percentiles({ rollup, table }: { rollup: Rollup; table: boolean }) {
  const [of, setOf] = useState<"ttft_us" | "tpot_us">("ttft_us");
  const names = ["p50", "p90", "p99"] as const;
  return (
    <>
      <div class="chart-head">
        <Segmented label="Which time" value={of} choose={setOf}
          options={[["ttft_us", "TTFT"], ["tpot_us", "TPOT"]]} />
        <ul class="legend">
          {names.map((name) => <li key={name}><i class={`key k-${name}`} />{name}</li>)}
        </ul>
      </div>
      <Chart title={of === "ttft_us" ? "Time to first token" : "Time per output token"}
        kind="lines" step={rollup.step as Step} height={118} table={table} show={micros}
        series={names.map((name) => ({ name, look: `k-${name}` }))}
        points={chartPoints(rollup, (bucket) => names.map((name) => bucket?.[of]?.[name] ?? null))}
      />
    </>
  );
}

function NoTraffic() {
  return (
    <Empty title="No request was answered in this time">
      Point an agent's base URL at this gateway; it appears here within a second.
    </Empty>
  );
}

function Sources({ rollup }: { rollup: Rollup }) {
  const found: Record<string, SourceTokens> = {};
  for (const bucket of rollup.data) {
    found[bucket.name] = {
      cached: bucket.cached_tokens ?? 0, written: bucket.written_tokens ?? 0,
      uncached: bucket.uncached_tokens ?? 0, nanodollars: bucket.nanodollars ?? 0,
    };
  }
  const rows = rowsOf(found);
  if (rows.length === 0) return <Empty title="Nothing was sent yet" />;
  return <SourceTable rows={rows} caption="Prompt tokens by source and state" money={dollars} />;
}

const CLOCKS_SHOWN = 5;

function Clocks({ clocks }: { clocks: Clock[] }) {
  const ms = useStore(now);
  const [all, setAll] = useState(false);
  const warm = clocks.filter((one) => one.expires_us > ms * 1000);
  if (warm.length === 0) {
    return <Empty title="No cache is warm">A conversation with an upstream starts a clock.</Empty>;
  }
  const shown = all ? warm : warm.slice(0, CLOCKS_SHOWN);
  return (
    <>
      <table class="clocks">
        <thead>
          <tr>
            <th scope="col">Conversation</th><th scope="col" class="n mid-only">Prefix</th>
            <th scope="col" class="n">Cold in</th><th scope="col" class="n">Then costs</th>
          </tr>
        </thead>
        <tbody>
          {shown.map((one) => (
            <ClockRow key={`${one.conversation}${one.model}`} one={one} ms={ms} />
          ))}
        </tbody>
      </table>
      {warm.length > CLOCKS_SHOWN ? (
        <button type="button" class="quiet" onClick={() => setAll(!all)}>
          {all ? "Fewer" : `All ${warm.length}`}
        </button>
      ) : null}
    </>
  );
}

function ClockRow({ one, ms }: { one: Clock; ms: number }) {
  const left = one.expires_us / 1e6 - ms / 1000;
  const whole = Math.max(1, (one.expires_us - one.last_us) / 1e6);
  const name = one.session || one.conversation || "?";
  const href = one.session ? hrefOf("sessions", one.session)
    : hrefOf("requests", "", { conversation: one.conversation ?? "" });
  return (
    <tr>
      <th scope="row">
        <a href={href} title={name}>{name}</a>
        <span class="sub" title={one.upstream}>{one.model}</span>
      </th>
      <td class="n mid-only" title={exact(one.tokens)}>{count(one.tokens)}</td>
      <td class={`n ${left < 60 ? "soon" : ""}`} title={`Cold at ${clock(one.expires_us)}`}>
        {countdown(left)}
        <span class="meter" aria-hidden="true">
          <i style={{ width: `${Math.min(100, 100 * left / whole)}%` }} />
        </span>
        <span class="sub">at {clock(one.expires_us)}</span>
      </td>
      <td class="n">{dollars(one.cold_nanodollars)}</td>
    </tr>
  );
}

function Breaks({ rollup }: { rollup: Rollup }) {
  const rows = rollup.data
    .filter((row) => row.name !== "none" && (row.breaks ?? 0) > 0)
    .sort((a, b) => (b.lost_nanodollars ?? 0) - (a.lost_nanodollars ?? 0)
      || (b.lost_tokens ?? 0) - (a.lost_tokens ?? 0));
  if (rows.length === 0) return <Empty title="No prefix broke" />;
  const most = Math.max(1, ...rows.map((row) => row.lost_tokens ?? 0));
  return (
    <table class="breaks">
      <thead>
        <tr>
          <th scope="col">Cause</th><th scope="col" class="n">Times</th>
          <th scope="col" class="n">Tokens lost</th><th scope="col" class="n">Cost</th>
        </tr>
      </thead>
      <tbody>
        {rows.slice(0, 8).map((row) => (
          <tr key={row.name}>
            <th scope="row">
              <a href={hrefOf("requests", "", { break: row.name })}>{words(row.name)}</a>
              <span class="meter" aria-hidden="true">
                <i style={{ width: `${100 * (row.lost_tokens ?? 0) / most}%` }} />
              </span>
            </th>
            <td class="n">{count(row.breaks)}</td>
            <td class="n" title={exact(row.lost_tokens)}>{count(row.lost_tokens)}</td>
            <td class="n">{dollars(row.lost_nanodollars)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Fill({ stats }: { stats: Stats }) {
  const live = useStore(liveStats);
  const tiers = live?.tiers ?? tiersOf(stats);
  if (tiers.length === 0) {
    return <Empty title="No local engine">Its memory and disk would stand here.</Empty>;
  }
  return <TierBars tiers={tiers} />;
}

function TopAdvice({ advice }: { advice: Loaded<Page<Advice>> }) {
  if (advice.error?.status === 404) return <Empty title="This gateway gives no advice" />;
  return (
    <Show of={advice}>
      {(data) => data.data.length === 0
        ? <Empty title="Nothing to change">No pattern here costs more than it must.</Empty>
        : (
          <ol class="top-advice">
            {data.data.slice(0, 3).map((one, index) => (
              <li key={`${one.id}${index}`}>
                <a href={hrefOf("advice")}>{one.title}</a>
                <span class="n">{dollars(one.nanodollars_per_day)} a day</span>
                <p>{one.fix}</p>
              </li>
            ))}
          </ol>
        )}
    </Show>
  );
}
