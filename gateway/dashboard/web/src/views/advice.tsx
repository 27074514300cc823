// What to change in this traffic, each with what it costs a day, requests that show it, and the
// setting or change of text that ends it.
import { useData } from "../api";
import { count, dollars, exact, short, words } from "../format";
import { Badge, Card, Copy, Empty, Failure, Show, Skeleton } from "../parts/ui";
import { hrefOf, type Route } from "../route";
import type { Advice, Page, Stats, Template } from "../types";

export function AdviceView(_: { route: Route }) {
  const advice = useData<Page<Advice>>("advice", {}, 60_000);
  return (
    <>
      <div class="title"><h1>Advice</h1></div>
      {advice.data ? <Found list={advice.data.data} />
        : advice.error?.status === 404 ? (
          <section class="card"><Empty title="This gateway gives no advice" /></section>
        ) : advice.error ? <Failure error={advice.error} retry={advice.reload} />
          : <Skeleton lines={8} />}
      <Slots />
      <Templates />
    </>
  );
}

function Found({ list }: { list: Advice[] }) {
  if (list.length === 0) {
    return (
      <section class="card">
        <Empty title="Nothing to change">
          No pattern in this traffic costs more than it must. This is looked at again as requests
          come.
        </Empty>
      </section>
    );
  }
  const sum = list.reduce((all, one) => all + one.nanodollars_per_day, 0);
  return (
    <>
      <p class="figure">
        <b>{dollars(sum)}</b> a day could be saved by {list.length === 1 ? "one change"
          : `${list.length} changes`}
      </p>
      <ol class="advice">
        {list.map((one, index) => <li key={`${one.id}${index}`}><One one={one} /></li>)}
      </ol>
    </>
  );
}

// A setting as the configuration file has it.
export function tomlOf(key: string, value: unknown): string {
  const text = typeof value === "string" ? JSON.stringify(value)
    : Array.isArray(value) ? `[${value.map((one) => JSON.stringify(one)).join(", ")}]`
      : String(value);
  return `${key} = ${text}`;
}

function One({ one }: { one: Advice }) {
  const where = Object.entries(one.where ?? {}).filter(([, value]) => value);
  return (
    <Card title={one.title} hint={words(one.id)}
      actions={(
        <span class="saves">
          <b>{dollars(one.nanodollars_per_day)}</b> a day
          <span class="sub" title={exact(one.tokens_per_day)}>
            {count(one.tokens_per_day)} tokens</span>
        </span>
      )}>
      <p>{one.what}</p>
      {where.length ? (
        <ul class="chips">
          {where.map(([name, value]) => (
            <li key={name}><span class="faint">{name}</span> <code>{value}</code></li>
          ))}
        </ul>
      ) : null}
      <div class="fix">
        <p><Badge tone="accent">change</Badge> {one.fix}</p>
        {one.setting ? (
          <p class="setting">
            <code>{tomlOf(one.setting.key, one.setting.value)}</code>
            <Copy text={tomlOf(one.setting.key, one.setting.value)} />
          </p>
        ) : null}
      </div>
      <p class="evidence">
        Seen in {count(one.requests)} {one.requests === 1 ? "request" : "requests"}
        {one.evidence.length ? ": " : ""}
        {one.evidence.map((id) => (
          <a key={id} href={hrefOf("requests", id)} title={id}><code>{short(id)}</code></a>
        ))}
      </p>
    </Card>
  );
}

function Slots() {
  const stats = useData<Stats>("stats", {}, 30_000);
  const saving = stats.data?.stabilize_would_save;
  if (!saving || saving.slots.length === 0) return null;
  return (
    <Card title="What the mode stabilize would save" class="flush"
      hint={`${dollars(saving.nanodollars)} and ${count(saving.tokens)} tokens in ${
        count(saving.requests)} requests since the start`}>
      <div class="table-scroll" tabIndex={0} role="region" aria-label="Slots">
        <table class="slots">
          <thead>
            <tr>
              <th scope="col">Line</th><th scope="col">Model</th><th scope="col">Place</th>
              <th scope="col" class="n">Requests</th><th scope="col" class="n">Tokens</th>
              <th scope="col" class="n">Cost</th>
            </tr>
          </thead>
          <tbody>
            {saving.slots.map((slot, index) => (
              <tr key={index}>
                <th scope="row" class="text" title={slot.line ?? slot.path}>
                  <code>{slot.line ?? slot.path}</code>
                </th>
                <td class="text">{slot.model}</td>
                <td>{words(slot.place)}</td>
                <td class="n">{count(slot.requests)}</td>
                <td class="n" title={exact(slot.tokens)}>{count(slot.tokens)}</td>
                <td class="n">{dollars(slot.nanodollars)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Card>
  );
}

// Lines of prompts that were seen to change, as the gateway has learnt them.
function Templates() {
  const templates = useData<Page<Template>>("templates", {}, 30_000);
  if (templates.error?.status === 404) return null;
  return (
    <Card title="Learnt templates" hint="Lines of prompts that were seen to change" class="flush">
      <Show of={templates}>
        {(page) => page.data.length === 0
          ? <Empty title="No line was seen to change" />
          : (
            <div class="table-scroll" tabIndex={0} role="region" aria-label="Learnt templates">
              <table class="slots">
                <thead>
                  <tr>
                    <th scope="col">Line</th><th scope="col">Model</th><th scope="col">Place</th>
                    <th scope="col">Judged</th><th scope="col" class="n">Changes</th>
                    <th scope="col" class="n">Tokens behind it</th>
                  </tr>
                </thead>
                <tbody>
                  {page.data.map((one, index) => (
                    <tr key={index}>
                      <th scope="row" class="text" title={one.line}><code>{one.line}</code></th>
                      <td class="text">{one.model}</td>
                      <td>{words(one.place)}</td>
                      <td><Badge tone={one.is_slot ? "warn" : "plain"} title={one.why}>
                        {one.is_slot ? "slot" : "fixed"}</Badge></td>
                      <td class="n">{count(one.value_changes)}</td>
                      <td class="n">{count(one.tokens_at_stake)}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          )}
      </Show>
    </Card>
  );
}
