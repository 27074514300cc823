// How full the places are where KV lies.
import { bytes, exact, percent } from "../format";
import type { Stats, Tier } from "../types";

const NAMES: Record<string, string> = {
  device: "Device", host: "Host memory", disk: "Disk",
};

const numberAt = (object: Record<string, unknown> | null | undefined, name: string): number =>
  typeof object?.[name] === "number" ? object[name] : 0;

// The same numbers as events have, as a gateway states them that sends none to this caller.
export function tiersOf(stats: Stats): Tier[] {
  const { engine, store } = stats;
  const block = numberAt(engine, "kv_block_bytes");
  const used = numberAt(engine, "blocks_used") + numberAt(engine, "blocks_cached");
  const tiers: Tier[] = [
    { tier: "device", used_bytes: used * block,
      capacity_bytes: numberAt(engine, "kv_blocks") * block },
    { tier: "host", used_bytes: numberAt(engine, "host_blocks") * block,
      capacity_bytes: numberAt(engine, "host_blocks_max") * block },
    { tier: "disk", used_bytes: numberAt(store, "disk_bytes"),
      capacity_bytes: numberAt(store, "capacity_bytes") },
  ];
  return tiers.filter((tier) => tier.capacity_bytes > 0);
}

const widthOf = (tier: Tier): string =>
  `${Math.min(100, 100 * tier.used_bytes / tier.capacity_bytes)}%`;

export function TierBars({ tiers }: { tiers: Tier[] }) {
  return (
    <ul class="tiers">
      {tiers.filter((tier) => tier.capacity_bytes > 0).map((tier) => (
        <li key={tier.tier}>
          <div>
            <b>{NAMES[tier.tier] ?? tier.tier}</b>
            <span title={`${exact(tier.used_bytes)} of ${exact(tier.capacity_bytes)} bytes`}>
              {bytes(tier.used_bytes)} of {bytes(tier.capacity_bytes)}
            </span>
            <span class="n">{percent(tier.used_bytes, tier.capacity_bytes)}</span>
          </div>
          <span class="meter" aria-hidden="true">
            <i style={{ width: widthOf(tier) }} />
          </span>
        </li>
      ))}
    </ul>
  );
}
