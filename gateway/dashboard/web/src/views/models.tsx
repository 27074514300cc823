// Who answers: upstreams with their health, models with their speed, and the local engine.
import { useData } from "../api";
import { count, exact, micros, percent, span } from "../format";
import { liveStats } from "../live";
import { TierBars, tiersOf } from "../parts/tiers";
import { Badge, Card, Empty, Facts, Show } from "../parts/ui";
import { hrefOf, type Route } from "../route";
import { now, useStore } from "../store";
import type { ModelState, Percentiles, Stats, UpstreamState } from "../types";

export function Models(_: { route: Route }) {
  const stats = useData<Stats>("stats", {}, 5_000);
  return (
    <>
      <div class="title"><h1>Models and upstreams</h1></div>
      <Show of={stats} lines={10}>
        {(data) => (
          <>
            <Card title="Models" hint="Of the last hour" class="flush">
              {data.models?.length ? <ModelTable models={data.models} />
                : <Empty title="No model answered in the last hour" />}
            </Card>
            {data.upstreams?.length ? (
              <div class="cards">
                {data.upstreams.map((one) => <Upstream key={one.name} one={one} />)}
              </div>
            ) : (
              <Card title="Upstreams">
                {data.upstreams ? <Empty title="No upstream is configured" />
                  : <Empty title="Upstreams are shown to admins" />}
              </Card>
            )}
            {data.engine ? <Engine stats={data} /> : null}
          </>
        )}
      </Show>
    </>
  );
}

function ModelTable({ models }: { models: ModelState[] }) {
  const fastest = Math.max(1, ...models.map((one) => one.output_tokens_per_second ?? 0));
  return (
    <div class="table-scroll" tabIndex={0} role="region" aria-label="Models">
      <table class="models">
        <thead>
          <tr>
            <th scope="col">Model</th><th scope="col">Upstream</th>
            <th scope="col" class="n">Requests</th>
            <th scope="col" class="n">Output tokens/s</th>
            <th scope="col" class="bar-column wide-only"><span class="hidden">Speed</span></th>
            <th scope="col" class="n">TTFT p50</th><th scope="col" class="n mid-only">p90</th>
            <th scope="col" class="n mid-only">p99</th>
            <th scope="col" class="n">TPOT p50</th><th scope="col" class="n mid-only">p90</th>
            <th scope="col" class="n mid-only">p99</th>
          </tr>
        </thead>
        <tbody>
          {models.map((one) => (
            <tr key={`${one.model} ${one.upstream}`}>
              <th scope="row" class="text" title={one.model}>
                <a href={hrefOf("requests", "", { model: one.model })}>{one.model}</a>
              </th>
              <td class="text">{one.upstream}</td>
              <td class="n" title={exact(one.requests)}>{count(one.requests)}</td>
              <td class="n">{count(one.output_tokens_per_second)}</td>
              <td class="bar-column wide-only">
                <span class="meter" aria-hidden="true">
                  <i style={{ width: `${100 * (one.output_tokens_per_second ?? 0) / fastest}%` }} />
                </span>
              </td>
              <Times of={one.ttft_us} /><Times of={one.tpot_us} />
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Times({ of }: { of: Percentiles | null | undefined }) {
  return (
    <>
      <td class="n">{micros(of?.p50)}</td>
      <td class="n mid-only">{micros(of?.p90)}</td>
      <td class="n mid-only">{micros(of?.p99)}</td>
    </>
  );
}

const BREAKER = {
  closed: ["good", "healthy", "Requests go through"],
  half_open: ["warn", "trying again", "One request tests whether it answers"],
  open: ["bad", "stopped", "It failed too often: requests go elsewhere or are refused"],
} as const;

function Upstream({ one }: { one: UpstreamState }) {
  const ms = useStore(now);
  const state = BREAKER[(one.breaker ?? "closed") as keyof typeof BREAKER];
  const retry = one.retry_us ? one.retry_us / 1e6 - ms / 1000 : 0;
  return (
    <Card title={one.name} hint={[one.provider, one.dialect].filter(Boolean).join(" · ")}
      actions={<Badge tone={state?.[0] ?? "plain"} title={state?.[2] ?? ""}>
        {state?.[1] ?? one.breaker}</Badge>}>
      {retry > 0 ? <p class="failure slim" role="note">Asked again in {span(retry)}.</p> : null}
      <Facts rows={[
        ["Requests", <span title={exact(one.requests)}>{count(one.requests)}</span>],
        ["Failed", <span title={exact(one.failed)}>{count(one.failed)} ({
          percent(one.failed ?? 0, one.requests ?? 0)})</span>],
        ["Active now", count(one.requests_active)],
        ["TTFT", <Spread of={one.ttft_us} />],
        ["TPOT", <Spread of={one.tpot_us} />],
        ["Mode", one.mode ?? "–"],
        ["Models", one.models?.length
          ? <ul class="chips">{one.models.map((model) => <li key={model}><code>{model}</code></li>)}
          </ul> : "any"],
      ]} />
      <p class="after"><a href={hrefOf("requests", "", { upstream: one.name })}>Its requests</a></p>
    </Card>
  );
}

function Spread({ of }: { of: Percentiles | null | undefined }) {
  return (
    <span title="p50 / p90 / p99">
      {micros(of?.p50)} / {micros(of?.p90)} / {micros(of?.p99)}
    </span>
  );
}

function Engine({ stats }: { stats: Stats }) {
  const live = useStore(liveStats);
  const engine = stats.engine!;
  const at = (name: string): number | undefined =>
    typeof engine[name] === "number" ? engine[name] : undefined;
  const text = (name: string): string => String(engine[name] ?? "–");
  return (
    <div class="columns even">
      <Card title="Local engine" hint={text("architecture")}
        actions={<Badge tone={stats.ready ? "good" : "warn"}>
          {stats.ready ? "ready" : "not ready"}</Badge>}>
        <Facts rows={[
          ["Backend", `${text("backend")} ${text("target")}, ${text("threads")} threads`],
          ["Context", `${count(at("context_tokens_max"))} tokens`],
          ["Running", count(live?.requests_running ?? at("running"))],
          ["Waiting", count(live?.requests_waiting ?? at("waiting"))],
          ["Prefill", `${count(at("prefill_tokens_per_second"))} tokens/s`],
          ["Preempted", count(at("preemptions"))],
          ["Refused by TTFT objective", count(at("refused_by_slo"))],
          ["Shared cold starts", count(at("single_flight"))],
        ]} />
      </Card>
      <Card title="Where its prompts came from" hint="Since it was started">
        <Origins engine={engine} />
        <TierBars tiers={live?.tiers ?? tiersOf(stats)} />
      </Card>
    </div>
  );
}

function Origins({ engine }: { engine: Record<string, unknown> }) {
  const names = ["device", "host", "disk", "computed"];
  const rows = names.map((name) => ({ name, tokens: Number(engine[`${name}_tokens`] ?? 0) }));
  const all = rows.reduce((sum, row) => sum + row.tokens, 0);
  return (
    <Facts rows={rows.map((row) => [row.name, <span title={exact(row.tokens)}>
      {count(row.tokens)} tokens ({percent(row.tokens, all)})</span>] as const)} />
  );
}
