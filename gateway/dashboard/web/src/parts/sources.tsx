// Tokens by source and by state: a source has a colour, a state a pattern.
import { count, exact, percent, words } from "../format";
import { SOURCES, STATES, type SourceTokens, type State, type StateTokens } from "../types";

export const sumOf = (tokens: StateTokens): number =>
  tokens.cached + tokens.written + tokens.uncached;

export const colorOf = (source: string): string =>
  (SOURCES as readonly string[]).includes(source) ? `c-${source}` : "c-other";

export const STATE_WORDS: Record<State, string> = {
  cached: "read from a cache", written: "written to a cache", uncached: "computed, not cached",
};

export function Swatch({ source, state = "cached" }: { source?: string; state?: State }) {
  return <i class={`swatch ${source ? colorOf(source) : "c-plain"} st-${state}`} aria-hidden />;
}

export function SourceName({ source }: { source: string }) {
  return <span class="source-name"><Swatch source={source} />{words(source)}</span>;
}

export function StateLegend() {
  return (
    <ul class="legend">
      {STATES.map((state) => (
        <li key={state} title={STATE_WORDS[state]}><Swatch state={state} />{state}</li>
      ))}
    </ul>
  );
}

export function SourceLegend({ sources }: { sources: readonly string[] }) {
  return (
    <ul class="legend">
      {sources.map((source) => <li key={source}><SourceName source={source} /></li>)}
    </ul>
  );
}

// One bar of three states; `whole` is the number of tokens that its full width stands for.
export function StateBar({ tokens, whole, source, slim = false }: {
  tokens: StateTokens; whole: number; source?: string; slim?: boolean;
}) {
  const label = STATES.filter((state) => tokens[state] > 0)
    .map((state) => `${count(tokens[state])} ${state}`).join(", ") || "no tokens";
  return (
    <div class={`bar ${slim ? "slim" : ""} ${source ? colorOf(source) : "c-plain"}`} role="img"
      aria-label={label} title={label}>
      {STATES.map((state) => tokens[state] > 0 && whole > 0 ? (
        <i key={state} class={`st-${state}`} style={{ width: `${100 * tokens[state] / whole}%` }} />
      ) : null)}
    </div>
  );
}

export interface SourceRow extends SourceTokens {
  name: string;
}

export function rowsOf(attribution: Record<string, SourceTokens> | undefined): SourceRow[] {
  const rows = Object.entries(attribution ?? {}).map(([name, tokens]) => ({ name, ...tokens }));
  const order = (name: string) => {
    const at = (SOURCES as readonly string[]).indexOf(name);
    return at < 0 ? SOURCES.length : at;
  };
  return rows.sort((a, b) => order(a.name) - order(b.name));
}

export function SourceTable({ rows, caption, money, label = "Source", colored = true }: {
  rows: SourceRow[]; caption: string; money: (nano: number) => string; label?: string;
  colored?: boolean;
}) {
  const whole = Math.max(0, ...rows.map(sumOf));
  const all = rows.reduce((sum, row) => sum + sumOf(row), 0);
  return (
    <table class="source-table">
      <caption class="hidden">{caption}</caption>
      <thead>
        <tr>
          <th scope="col">{label}</th>
          <th scope="col" class="grow"><span class="hidden">By state</span></th>
          <th scope="col" class="n">Tokens</th>
          <th scope="col" class="n mid-only">Share</th>
          <th scope="col" class="n">Hit</th>
          <th scope="col" class="n">Cost</th>
        </tr>
      </thead>
      <tbody>
        {rows.map((row) => (
          <tr key={row.name}>
            <th scope="row" title={row.name}>
              {colored ? <SourceName source={row.name} /> : <code>{row.name}</code>}
            </th>
            <td class="grow">
              <StateBar tokens={row} whole={whole} source={colored ? row.name : "tools"} />
            </td>
            <td class="n" title={exact(sumOf(row))}>{count(sumOf(row))}</td>
            <td class="n mid-only">{percent(sumOf(row), all)}</td>
            <td class="n">{percent(row.cached, sumOf(row))}</td>
            <td class="n">{money(row.nanodollars)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
