// Charts over time, as SVG: stacked bars or lines over equal steps. Each can be read with the
// pointer, with the arrow keys, and as a table.
import { useState } from "preact/hooks";

import { clock, day } from "../format";
import { useWidth } from "./ui";

export interface Series {
  name: string;
  look: string; // a class: k-cached, k-line …
}

export interface Point {
  us: number;
  values: (number | null)[]; // one for each series; null: there is none
}

export interface ChartProps {
  title: string;
  kind: "bars" | "lines";
  step: "minute" | "hour" | "day" | "turn";
  points: Point[];
  series: Series[];
  show: (value: number) => string;
  height?: number;
  max?: number; // of the axis; else the largest value
  table: boolean;
  bare?: boolean; // without times below: the chart under it has them
  labelOf?: (point: Point) => string;
  marks?: { index: number; text: string }[];
  lines?: { value: number; text: string }[];
}

const LEFT = 46;
const TOP = 8;

function niceMax(value: number): number {
  if (!(value > 0)) return 1;
  const unit = 10 ** Math.floor(Math.log10(value));
  const step = [1, 1.5, 2, 3, 4, 5, 6, 8, 10].find((factor) => factor * unit >= value)!;
  return step * unit;
}

const stackOf = (point: Point): number =>
  point.values.reduce<number>((sum, value) => sum + (value ?? 0), 0);

function labelFor(props: ChartProps, point: Point): string {
  if (props.labelOf) return props.labelOf(point);
  if (props.step === "day") return day(point.us);
  return props.step === "hour" ? `${day(point.us)} ${clock(point.us)}` : clock(point.us);
}

// The points of a series in runs, because a missing value interrupts its line.
function runsOf(points: Point[], series: number): [number, number][][] {
  const runs: [number, number][][] = [];
  let run: [number, number][] = [];
  points.forEach((point, index) => {
    const value = point.values[series];
    if (value === null || value === undefined) {
      if (run.length) runs.push(run);
      run = [];
    } else {
      run.push([index, value]);
    }
  });
  if (run.length) runs.push(run);
  return runs;
}

interface Frame {
  width: number;
  height: number;
  top: number;
  x: (index: number) => number; // the middle of a step
  y: (value: number) => number;
  band: number;
}

function Bars({ props, frame }: { props: ChartProps; frame: Frame }) {
  const gap = frame.band > 6 ? 2 : frame.band > 3 ? 1 : 0;
  return (
    <>
      {props.points.map((point, index) => {
        let below = 0;
        return point.values.map((value, at) => {
          if (!value) return null;
          const from = frame.y(below);
          below += value;
          const to = frame.y(below);
          return (
            <rect key={`${index}-${at}`} class={props.series[at]!.look}
              x={frame.x(index) - frame.band / 2 + gap / 2} y={to}
              width={Math.max(1, frame.band - gap)} height={Math.max(0.5, from - to)} />
          );
        });
      })}
    </>
  );
}

function Lines({ props, frame }: { props: ChartProps; frame: Frame }) {
  const path = (run: [number, number][]) =>
    run.map(([index, value], at) =>
      `${at ? "L" : "M"}${frame.x(index).toFixed(1)} ${frame.y(value).toFixed(1)}`).join("");
  return (
    <>
      {props.series.map((series, at) => runsOf(props.points, at).map((run, index) => run.length > 1
        ? <path key={`${at}-${index}`} class={`line ${series.look}`} d={path(run)} />
        : <circle key={`${at}-${index}`} class={`dot ${series.look}`} r={2.5}
          cx={frame.x(run[0]![0])} cy={frame.y(run[0]![1])} />))}
    </>
  );
}

// The patterns of states, once for the page; style/charts.css names them.
export function Patterns() {
  return (
    <svg class="patterns" width="0" height="0" aria-hidden="true">
      <defs>
        <pattern id="pat-written" width="5" height="5" patternUnits="userSpaceOnUse"
          patternTransform="rotate(45)">
          <rect width="5" height="5" class="pat-back" />
          <rect width="2.6" height="5" class="pat-front" />
        </pattern>
        <pattern id="pat-uncached" width="4" height="4" patternUnits="userSpaceOnUse">
          <rect width="4" height="4" class="pat-pale" />
          <circle cx="2" cy="2" r="0.9" class="pat-dot" />
        </pattern>
      </defs>
    </svg>
  );
}

function Axes({ props, frame, max }: { props: ChartProps; frame: Frame; max: number }) {
  const every = Math.max(1, Math.ceil(props.points.length / Math.max(2, frame.width / 90)));
  return (
    <g class="axes">
      {[0, 0.5, 1].map((part) => (
        <g key={part}>
          <line x1={LEFT} x2={frame.width} y1={frame.y(max * part)} y2={frame.y(max * part)} />
          <text x={LEFT - 6} y={frame.y(max * part) + 3.5} text-anchor="end">
            {props.show(max * part)}
          </text>
        </g>
      ))}
      {props.points.map((point, index) => !props.bare
        && index % every === Math.floor(every / 2) ? (
        <text key={point.us} x={frame.x(index)} y={frame.height - 4} text-anchor="middle">
          {props.step === "hour" ? clock(point.us) : labelFor(props, point)}
        </text>
      ) : null)}
    </g>
  );
}

function Tip({ props, frame, index }: { props: ChartProps; frame: Frame; index: number }) {
  const point = props.points[index]!;
  const left = frame.x(index);
  const toLeft = left > frame.width * 0.6;
  const at = toLeft ? { right: `${frame.width - left + 8}px` } : { left: `${left + 8}px` };
  return (
    <div class="tip" style={at} role="status">
      <b>{labelFor(props, point)}</b>
      <dl>
        {props.series.map((series, i) => (
          <div key={series.name}>
            <dt><i class={`key ${series.look}`} />{series.name}</dt>
            <dd>{point.values[i] === null || point.values[i] === undefined ? "–"
              : props.show(point.values[i]!)}</dd>
          </div>
        ))}
      </dl>
    </div>
  );
}

function AsTable({ props }: { props: ChartProps }) {
  return (
    <div class="chart-table" tabIndex={0} role="region" aria-label={`${props.title}, as a table`}>
      <table>
        <caption class="hidden">{props.title}</caption>
        <thead>
          <tr>
            <th scope="col">{props.step === "turn" ? "Turn" : "Time"}</th>
            {props.series.map((series) => (
              <th key={series.name} scope="col" class="n">{series.name}</th>
            ))}
          </tr>
        </thead>
        <tbody>
          {props.points.map((point) => (
            <tr key={point.us}>
              <th scope="row">{labelFor(props, point)}</th>
              {point.values.map((value, i) => (
                <td key={i} class="n">{value === null ? "–" : props.show(value)}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

export function Chart(props: ChartProps) {
  const [ref, width] = useWidth<HTMLDivElement>();
  const [at, setAt] = useState<number | null>(null);
  const { points, height = 150 } = props;
  const bottom = props.bare ? 6 : 18;
  const largest = Math.max(0, ...(props.lines ?? []).map((line) => line.value),
    ...points.map((point) => props.kind === "bars" ? stackOf(point)
      : Math.max(0, ...point.values.map((value) => value ?? 0))));
  const max = props.max ?? niceMax(largest);
  const band = (width - LEFT) / Math.max(1, points.length);
  const frame: Frame = {
    width, height, band, top: TOP,
    x: (index) => LEFT + band * (index + 0.5),
    y: (value) => TOP + (height - TOP - bottom) * (1 - Math.min(value, max) / max),
  };
  const index = at === null || at >= points.length ? null : at;
  const move = (event: PointerEvent) => {
    const box = ref.current!.getBoundingClientRect();
    const found = Math.floor((event.clientX - box.left - LEFT) / band);
    setAt(found >= 0 && found < points.length ? found : null);
  };
  const press = (event: KeyboardEvent) => {
    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (event.key === "Escape") setAt(null);
    if (!step || points.length === 0) return;
    event.preventDefault();
    setAt((old) => Math.min(points.length - 1, Math.max(0, (old ?? points.length) + step)));
  };
  const latest = points[points.length - 1];
  const summary = `${props.title}. ${latest ? props.series.map((series, i) =>
    `${series.name} ${latest.values[i] == null ? "–" : props.show(latest.values[i]!)}`).join(", ")
    : "No data"}.`;
  if (props.table) return <AsTable props={props} />;
  return (
    <div class="chart" ref={ref} tabIndex={0} role="group" aria-label={summary}
      onPointerMove={move} onPointerLeave={() => setAt(null)} onKeyDown={press}
      onBlur={() => setAt(null)}>
      <svg width={width} height={height} aria-hidden="true">
        {width > 0 ? (
          <>
            <Axes props={props} frame={frame} max={max} />
            {index !== null ? (
              <rect class="cursor" x={frame.x(index) - band / 2} y={TOP} width={band}
                height={height - TOP - bottom} />
            ) : null}
            {props.kind === "bars" ? <Bars props={props} frame={frame} />
              : <Lines props={props} frame={frame} />}
            {(props.lines ?? []).map((line) => (
              <g key={line.text} class="bound">
                <line x1={LEFT} x2={width} y1={frame.y(line.value)} y2={frame.y(line.value)} />
                <text x={width - 2} y={frame.y(line.value) - 3} text-anchor="end">{line.text}</text>
              </g>
            ))}
            {(props.marks ?? []).map((mark) => (
              <g key={mark.index} class="mark">
                <title>{mark.text}</title>
                <line x1={frame.x(mark.index) - band / 2} x2={frame.x(mark.index) - band / 2}
                  y1={TOP} y2={height - bottom} />
                <path d={`M${frame.x(mark.index) - band / 2 - 4} ${TOP}h8l-4 6z`} />
              </g>
            ))}
          </>
        ) : null}
      </svg>
      {index !== null && width > 0 ? <Tip props={props} frame={frame} index={index} /> : null}
    </div>
  );
}

const STEP_US = { minute: 60e6, hour: 3600e6, day: 86400e6 };

// One point for each step of the range: empty buckets are left out of the gateway's answers.
export function pointsOf<T extends { time_us: number }>(
  step: "minute" | "hour" | "day", fromUs: number, toUs: number, buckets: T[],
  valuesOf: (bucket: T | undefined) => (number | null)[]): Point[] {
  const width = STEP_US[step];
  const first = Math.floor(fromUs / width);
  const last = Math.floor((toUs - 1) / width);
  const found = new Map(buckets.map((bucket) => [Math.floor(bucket.time_us / width), bucket]));
  const points: Point[] = [];
  for (let at = Math.max(first, last - 400); at <= last; ++at) {
    points.push({ us: at * width, values: valuesOf(found.get(at)) });
  }
  return points;
}
