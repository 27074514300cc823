// Numbers for people. Each returns a short text; the exact value belongs into a title.

const SIZES = ["", "K", "M", "B", "T"];

function trimmed(value: number, digits: number): string {
  return value.toFixed(digits).replace(/\.0+$/, "");
}

// 999, 12.3K, 4.56M: three digits that count.
export function count(value: number | undefined | null): string {
  if (value === undefined || value === null || !Number.isFinite(value)) return "–";
  let size = 0;
  let rest = Math.abs(value);
  while (rest >= 999.5 && size < SIZES.length - 1) {
    rest /= 1000;
    size += 1;
  }
  const digits = size === 0 ? (rest < 10 && !Number.isInteger(rest) ? 1 : 0) : rest < 10 ? 2
    : rest < 100 ? 1 : 0;
  return (value < 0 ? "−" : "") + trimmed(rest, digits) + SIZES[size];
}

export function exact(value: number | undefined | null): string {
  return value === undefined || value === null ? "" : value.toLocaleString("en-US");
}

// As many digits as it takes to see two that are not zero: $12.40, $0.083, $0.00042.
export function dollars(nano: number | undefined | null): string {
  if (nano === undefined || nano === null || !Number.isFinite(nano)) return "–";
  const value = Math.abs(nano) / 1e9;
  const sign = nano < 0 ? "−" : "";
  if (value === 0) return "$0";
  if (value >= 999_500) return `${sign}$${count(value)}`;
  if (value >= 1000) return `${sign}$${Math.round(value).toLocaleString("en-US")}`;
  if (value >= 1) return `${sign}$${value.toFixed(2)}`;
  const digits = Math.min(9, Math.max(2, 1 - Math.floor(Math.log10(value))));
  return `${sign}$${value.toFixed(digits)}`;
}

// What something would have cost otherwise: "$1.20 directly, $3.10 without cache". Older gateways
// do not estimate the former.
export const costNote = (cost: { direct_nanodollars?: number; uncached_nanodollars: number }) =>
  (cost.direct_nanodollars === undefined ? "" : `${dollars(cost.direct_nanodollars)} directly, `)
  + `${dollars(cost.uncached_nanodollars)} without cache`;

export function bytes(value: number | undefined | null): string {
  if (value === undefined || value === null || !Number.isFinite(value)) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let size = 0;
  let rest = value;
  while (rest >= 1000 && size < units.length - 1) {
    rest /= 1024;
    size += 1;
  }
  return `${trimmed(rest, size === 0 || rest >= 100 ? 0 : 1)} ${units[size]}`;
}

export function percent(part: number, whole: number): string {
  if (!(whole > 0)) return "–";
  const value = (100 * part) / whole;
  if (value > 0 && value < 0.1) return "<0.1%";
  if (value > 99.9 && value < 100) return ">99.9%";
  return `${trimmed(value, value >= 99.5 || value < 10 ? 1 : 0)}%`;
}

// Microseconds: 830 µs, 12.3 ms, 1.42 s, 2 min 5 s.
export function micros(value: number | undefined | null): string {
  if (value === undefined || value === null || !Number.isFinite(value)) return "–";
  if (value < 1000) return `${Math.round(value)} µs`;
  if (value < 1e6) return `${trimmed(value / 1e3, value < 1e5 ? 1 : 0)} ms`;
  if (value < 60e6) return `${trimmed(value / 1e6, value < 1e7 ? 2 : 1)} s`;
  return span(value / 1e6);
}

// A duration in seconds, in its two largest units: 4 s, 3 min 12 s, 2 h 5 min, 3 d 4 h.
export function span(seconds: number): string {
  const s = Math.max(0, Math.round(seconds));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min${s % 60 ? ` ${s % 60} s` : ""}`;
  const minutes = Math.floor(s / 60);
  const rest = minutes % 60;
  if (s < 86400) return `${Math.floor(minutes / 60)} h${rest ? ` ${rest} min` : ""}`;
  const hours = Math.floor(minutes / 60);
  return `${Math.floor(hours / 24)} d${hours % 24 ? ` ${hours % 24} h` : ""}`;
}

// A countdown that keeps its width: 4:07, 1:04:07.
export function countdown(seconds: number): string {
  const s = Math.max(0, Math.floor(seconds));
  const two = (value: number) => String(value).padStart(2, "0");
  const hours = Math.floor(s / 3600);
  const minutes = Math.floor((s % 3600) / 60);
  return hours ? `${hours}:${two(minutes)}:${two(s % 60)}` : `${minutes}:${two(s % 60)}`;
}

export function ago(us: number, nowUs: number): string {
  const seconds = (nowUs - us) / 1e6;
  if (seconds < -1) return `in ${span(-seconds)}`;
  if (seconds < 1.5) return "now";
  if (seconds < 60) return `${Math.floor(seconds)} s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ago`;
  return `${Math.floor(seconds / 86400)} d ago`;
}

const FULL = new Intl.DateTimeFormat(undefined, {
  year: "numeric", month: "short", day: "2-digit", hour: "2-digit", minute: "2-digit",
  second: "2-digit", fractionalSecondDigits: 3, timeZoneName: "short", hour12: false,
});
const CLOCK = new Intl.DateTimeFormat(undefined, {
  hour: "2-digit", minute: "2-digit", hour12: false,
});
const SECONDS = new Intl.DateTimeFormat(undefined, {
  hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false,
});
const DAY = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric" });

export const absolute = (us: number): string => FULL.format(us / 1000);
export const clock = (us: number): string => CLOCK.format(us / 1000);
export const clockSeconds = (us: number): string => SECONDS.format(us / 1000);
export const day = (us: number): string => DAY.format(us / 1000);

const NAMES = new Map([["ttl_lapsed", "TTL lapsed"], ["provider_miss", "provider eviction"]]);

// "tools_reordered" → "tools reordered".
export const words = (name: string | undefined): string =>
  name === undefined ? "" : NAMES.get(name) ?? name.replaceAll("_", " ");

// The middle of a long id says least.
export const short = (id: string, length = 12): string =>
  id.length <= length ? id : `${id.slice(0, length - 5)}…${id.slice(-4)}`;
