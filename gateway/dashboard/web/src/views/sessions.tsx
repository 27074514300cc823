// The conversations that the gateway keeps, the one used last first.
import { useEffect, useState } from "preact/hooks";

import { ApiError, ask, useData } from "../api";
import { count, exact } from "../format";
import { Empty, Show, Time } from "../parts/ui";
import { hrefOf, replaceQuery, type Route } from "../route";
import type { Page, Session } from "../types";

const PAGE = 100;

export function Sessions({ route }: { route: Route }) {
  const first = useData<Page<Session>>("sessions", { limit: PAGE }, 10_000);
  const [more, setMore] = useState<{ data: Session[]; next: string | null } | null>(null);
  const [problem, setProblem] = useState("");
  const wanted = (route.query.key ?? "").toLowerCase();
  useEffect(() => setMore(null), [first.data?.next]);
  const older = async (next: string) => {
    try {
      const page = await ask<Page<Session>>("sessions", { limit: PAGE, before: next });
      setMore((old) => ({ data: [...(old?.data ?? []), ...page.data], next: page.next ?? null }));
      setProblem("");
    } catch (error) {
      setProblem(error instanceof ApiError ? error.message : "The gateway does not answer.");
    }
  };
  return (
    <>
      <div class="title">
        <h1>Sessions</h1>
        <form class="filter" role="search" onSubmit={(event) => event.preventDefault()}>
          <label class="hidden" htmlFor="filter">Filter by key</label>
          <input id="filter" type="search" placeholder="part of a key" autocomplete="off"
            spellcheck={false} value={route.query.key ?? ""}
            onInput={(event) => replaceQuery({ key: event.currentTarget.value })} />
        </form>
      </div>
      <section class="card flush" aria-label="Sessions">
        <Show of={first} lines={8}>
          {(page) => {
            const all = [...page.data, ...(more?.data ?? [])];
            const next = more ? more.next : page.next ?? null;
            const rows = all.filter((one) => one.key.toLowerCase().includes(wanted));
            return (
              <>
                {all.length === 0 ? <NoSession /> : rows.length === 0
                  ? <Empty title="No key holds that text" /> : <SessionTable rows={rows} />}
                {problem ? <p class="problem" role="alert">{problem}</p> : null}
                {next ? <button type="button" class="quiet" onClick={() => void older(next)}>
                  Older sessions</button> : null}
              </>
            );
          }}
        </Show>
      </section>
    </>
  );
}

function NoSession() {
  return (
    <Empty title="No session is kept">
      A request with the header <code>x-kvgate-session: KEY</code> begins one; so do stored
      responses and conversations. They belong to the key that a client sends: sign in with the same
      one to see them.
    </Empty>
  );
}

function SessionTable({ rows }: { rows: Session[] }) {
  const most = Math.max(1, ...rows.map((one) => one.turns));
  return (
    <div class="table-scroll" tabIndex={0} role="region" aria-label="Sessions">
      <table class="sessions">
        <thead>
          <tr>
            <th scope="col">Key</th><th scope="col">Model</th>
            <th scope="col" class="mid-only">Dialect</th><th scope="col" class="n">Turns</th>
            <th scope="col" class="bar-column wide-only"><span class="hidden">Turns</span></th>
            <th scope="col">Last turn</th><th scope="col" class="mid-only">Begun</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((one) => (
            <tr key={one.key}>
              <th scope="row" class="text" title={one.key}>
                <a href={hrefOf("sessions", one.key)}>{one.key}</a>
              </th>
              <td class="text" title={one.model}>{one.model || "–"}</td>
              <td class="mid-only">{one.dialect}</td>
              <td class="n" title={exact(one.turns)}>{count(one.turns)}</td>
              <td class="bar-column wide-only">
                <span class="meter" aria-hidden="true">
                  <i style={{ width: `${100 * one.turns / most}%` }} />
                </span>
              </td>
              <td><Time us={one.updated_at * 1e6} /></td>
              <td class="mid-only"><Time us={one.created_at * 1e6} /></td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
