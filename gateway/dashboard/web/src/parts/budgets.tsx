// What keys and tenants have used of their budgets: those that are closest to their limit first.
// Nothing is shown where there are no budgets.
import { useState } from "preact/hooks";

import { useData } from "../api";
import { count, dollars, exact, percent } from "../format";
import { now, useStore } from "../store";
import type { Budget, Budgets, TenantBudgets } from "../types";
import { Badge, Card } from "./ui";

const SHOWN = 6;

interface Row {
  tenant: TenantBudgets;
  budget: Budget;
}

const isMoney = (budget: Budget): boolean => budget.budget.startsWith("dollars");
const amount = (budget: Budget, value: number): string =>
  isMoney(budget) ? dollars(value * 1e9) : count(value);

// "dollars_per_day" → "dollars a day".
const nameOf = (budget: Budget): string =>
  budget.budget.replace("_per_", " a ").replaceAll("_", " ");

function rowsOf(budgets: Budgets): Row[] {
  return budgets.data
    .flatMap((tenant) => (tenant.budgets ?? []).map((budget) => ({ tenant, budget })))
    .sort((a, b) => b.budget.share - a.budget.share);
}

export function BudgetsCard() {
  const found = useData<Budgets>("budgets", {}, 15_000);
  const [all, setAll] = useState(false);
  const rows = found.data?.data ? rowsOf(found.data) : [];
  if (rows.length === 0) return null; // none is set, or this gateway knows none
  const thresholds = found.data?.thresholds ?? [];
  const full = rows.filter(({ budget }) => budget.share >= 1).length;
  return (
    <Card title="Budgets" hint="Of calendar days and months of UTC"
      actions={full ? <Badge tone="bad">{count(full)} used up</Badge> : null}>
      {found.error ? <p class="stale" role="status">Not up to date: {found.error.message}</p>
        : null}
      <table class="budgets">
        <thead>
          <tr>
            <th scope="col">Key or tenant</th>
            <th scope="col" class="kind mid-only">Budget</th>
            <th scope="col" class="grow">Used</th>
            <th scope="col" class="n mid-only">Left</th>
            <th scope="col" class="n">Renews</th>
          </tr>
        </thead>
        <tbody>
          {(all ? rows : rows.slice(0, SHOWN)).map((row) => (
            <BudgetRow key={`${row.tenant.tenant} ${row.budget.budget}`} row={row}
              thresholds={thresholds} />
          ))}
        </tbody>
      </table>
      {rows.length > SHOWN ? (
        <button type="button" class="quiet" onClick={() => setAll(!all)}>
          {all ? "Fewer" : `All ${rows.length}`}
        </button>
      ) : null}
    </Card>
  );
}

function BudgetRow({ row: { tenant, budget }, thresholds }: { row: Row; thresholds: number[] }) {
  const ms = useStore(now);
  const renews = Date.parse(budget.renews_at);
  const left = (renews - ms) / 1000;
  const passed = thresholds.filter((one) => one < 1 && budget.share >= one);
  const state = budget.share >= 1 ? "full" : passed.length > 1 ? "soon" : "";
  return (
    <tr>
      <th scope="row">
        <span class="who" title={tenant.tenant}>{tenant.tenant || "without a key"}</span>
        <span class="sub narrow-only">{nameOf(budget)}</span>
      </th>
      <td class="mid-only">{nameOf(budget)}</td>
      <td class="grow">
        <span title={isMoney(budget) ? `$${budget.used} of $${budget.limit}`
          : `${exact(budget.used)} of ${exact(budget.limit)} tokens`}>
          <b>{amount(budget, budget.used)}</b> of {amount(budget, budget.limit)}
          {" · "}{percent(budget.used, budget.limit)}
        </span>
        {state === "full" ? <>{" "}<Badge tone="bad">used up</Badge></>
          : passed.length ? <>{" "}<Badge tone={state === "soon" ? "warn" : "plain"}
            title="The highest threshold that it has passed">
            over {percent(Math.max(...passed), 1)}</Badge></> : null}
        <span class={`meter marked ${state}`} aria-hidden="true">
          <i style={{ width: `${Math.min(100, 100 * budget.share)}%` }} />
          {thresholds.filter((one) => one < 1).map((one) =>
            <s key={one} style={{ left: `${100 * one}%` }} />)}
        </span>
      </td>
      <td class="n mid-only">{amount(budget, budget.left)}</td>
      <td class="n" title={new Date(renews).toUTCString()}>
        {Number.isNaN(renews) ? "–" : `in ${coarse(left)}`}
      </td>
    </tr>
  );
}

// In one unit: who waits for a month to end does not count its minutes.
function coarse(seconds: number): string {
  const [unit, name] = seconds > 2 * 86400 ? [86400, "d"] : seconds > 7200 ? [3600, "h"]
    : seconds > 120 ? [60, "min"] : [1, "s"];
  return `${Math.max(0, Math.round(seconds / unit))} ${name}`;
}
