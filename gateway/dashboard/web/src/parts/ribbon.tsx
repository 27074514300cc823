// A prompt as a ribbon: its segments in their order, each as wide as it has tokens, coloured by its
// source and patterned by its state, with a mark where the prefix broke.
import { useState } from "preact/hooks";

import { bytes, count, exact, words } from "../format";
import { STATES, type Break, type Segment } from "../types";
import { colorOf, SourceLegend, SourceName, StateLegend } from "./sources";

export const labelOf = (segment: Segment): string =>
  segment.name || segment.role || words(segment.source);

const describe = (segment: Segment): string =>
  [words(segment.source), segment.server, segment.name, segment.path,
    `${exact(segment.tokens)} tokens`,
    ...STATES.filter((state) => segment[state] > 0)
      .map((state) => `${count(segment[state])} ${state}`)].filter(Boolean).join(" · ");

interface Mark {
  percent: number; // of the prompt, in front of it
  text: string;
}

// Where the prompt differs from what was sent before, or where reading ended if nothing differs.
function markOf(segments: Segment[], found: Break | undefined, whole: number): Mark | null {
  if (!found || found.cause === "none" || found.cause === "first_seen" || whole === 0) return null;
  if (found.path) {
    const percent = 100 * Math.min(1, found.reusable_tokens / whole);
    return { percent, text: "differs here" };
  }
  let before = 0;
  for (const segment of segments) {
    if (segment.written + segment.uncached > 0) {
      return { percent: 100 * (before + segment.cached) / whole, text: "read up to here" };
    }
    before += segment.tokens;
  }
  return null;
}

export function Ribbon({ segments, found }: { segments: Segment[]; found?: Break | undefined }) {
  const [open, setOpen] = useState<number | null>(null);
  const whole = segments.reduce((sum, segment) => sum + segment.tokens, 0);
  const mark = markOf(segments, found, whole);
  const sources = [...new Set(segments.map((segment) => segment.source))];
  return (
    <div class="ribbon-box">
      <div class="ribbon" role="list" aria-label="The prompt's segments in their order">
        {segments.map((segment, index) => segment.tokens > 0 ? (
          <div key={index} role="listitem" title={describe(segment)}
            class={`segment ${colorOf(segment.source)} ${open === index ? "open" : ""}`}
            style={{ flexGrow: segment.tokens }}
            onPointerEnter={() => setOpen(index)} onPointerLeave={() => setOpen(null)}>
            <span class="hidden">{describe(segment)}</span>
            {STATES.map((state) => segment[state] > 0 ? (
              <i key={state} class={`st-${state}`} style={{ flexGrow: segment[state] }} />
            ) : null)}
          </div>
        ) : null)}
        {mark !== null ? (
          <div class="break-mark" role="listitem" style={{ left: `${mark.percent}%` }}>
            <span class={`flag ${mark.percent > 80 ? "to-left" : ""}`}>{mark.text}</span>
          </div>
        ) : null}
      </div>
      <div class="ribbon-foot">
        <span>0</span>
        <span class="open-segment" aria-hidden="true">
          {open === null ? "" : describe(segments[open]!)}
        </span>
        <span title={exact(whole)}>{count(whole)} tokens</span>
      </div>
      <div class="legends"><SourceLegend sources={sources} /><StateLegend /></div>
    </div>
  );
}

const SHOWN = 14;

export function SegmentTable({ segments }: { segments: Segment[] }) {
  const [all, setAll] = useState(false);
  const [bySize, setBySize] = useState(false);
  const rows = bySize ? [...segments].sort((a, b) => b.tokens - a.tokens) : segments;
  const shown = all ? rows : rows.slice(0, SHOWN);
  return (
    <>
      <div class="table-scroll" tabIndex={0} role="region" aria-label="Segments">
        <table class="segments">
          <caption class="hidden">The segments of the prompt</caption>
          <thead>
            <tr>
              <th scope="col">Segment</th><th scope="col">Source</th><th scope="col">Path</th>
              <th scope="col" class="n">
                <button type="button" class="sort" aria-pressed={bySize}
                  onClick={() => setBySize(!bySize)}>Tokens {bySize ? "↓" : ""}</button>
              </th>
              <th scope="col" class="n">Cached</th><th scope="col" class="n">Written</th>
              <th scope="col" class="n">Uncached</th><th scope="col" class="n">Size</th>
              <th scope="col">Hash</th>
            </tr>
          </thead>
          <tbody>
            {shown.map((segment, index) => (
              <tr key={index}>
                <th scope="row" class="text" title={labelOf(segment)}>
                  {labelOf(segment)}
                  {segment.server ? <span class="sub">{segment.server}</span> : null}
                </th>
                <td><SourceName source={segment.source} /></td>
                <td class="text" title={segment.path}><code>{segment.path ?? ""}</code></td>
                <td class="n" title={exact(segment.tokens)}>{count(segment.tokens)}</td>
                {STATES.map((state) => (
                  <td key={state} class={`n ${segment[state] ? "" : "faint"}`}>
                    {count(segment[state])}
                  </td>
                ))}
                <td class="n">{segment.bytes === undefined ? "–" : bytes(segment.bytes)}</td>
                <td><code class="faint">{segment.hash ?? ""}</code></td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {rows.length > SHOWN ? (
        <button type="button" class="quiet" onClick={() => setAll(!all)}>
          {all ? `The first ${SHOWN}` : `All ${rows.length} segments`}
        </button>
      ) : null}
    </>
  );
}
