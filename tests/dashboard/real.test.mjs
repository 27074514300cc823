// The page on the real binary: what it makes of real answers, and what its actions really do.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";

import { NO_BROWSER, openPage, seriousFindings, startBrowser, until } from "./browser.mjs";
import { NO_BINARY, Real, SESSION } from "./traffic.mjs";

const KEYS = { root: { key: "key-of-root", role: "admin" }, bob: { key: "key-of-bob",
  role: "user" } };
const STATUSES = ["Failed to load resource"]; // what the browser itself says of a 404 or a 503

describe("dashboard on the real gateway", { skip: NO_BROWSER || NO_BINARY }, () => {
  let browser;
  let real;
  let ids;
  before(async () => {
    browser = await startBrowser();
    real = await Real.start();
    ids = await real.traffic();
    await until(async () => (await real.ask("requests?limit=100")).body.data
      .some((record) => record.id === ids.session), "the ledger has all");
  });
  after(async () => {
    await real?.stop();
    await browser?.close();
  });

  const on = async (page, run) => {
    const opened = await openPage(browser, real.url, { expected: STATUSES, ...page });
    await run(opened);
    await opened.leave();
  };
  const prefixes = async () => (await real.ask("prefixes")).body.data;

  for (const [scheme, width] of [["light", 1280], ["dark", 400]]) {
    test(`every view shows this traffic, in ${scheme} at ${width} pixels`, async () => {
      await on({ scheme, width }, async (page) => {
        const views = { overview: /Overview/, requests: /Requests/, prefixes: /Prefixes/,
          sessions: /Sessions/, [`sessions/${SESSION}`]: SESSION, models: /Models/,
          advice: /Advice/ };
        for (const name of ["first", "broken", "responses", "messages", "translated", "local",
          "session", "failed"]) {
          if (ids[name]) views[`requests/${ids[name]}`] = ids[name];
        }
        for (const [hash, heading] of Object.entries(views)) {
          await page.view(hash, heading);
          await until(() => page.evaluate(() => !document.querySelector(".skeleton")), hash);
          assert.deepEqual(await seriousFindings(page), [], hash);
          const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
          assert.ok(wide <= 0, `${hash} is ${wide} pixels too wide`);
        }
      });
    });
  }

  test("the table lists all requests, filters ask the gateway", async () => {
    await on({}, async (page) => {
      await page.view("requests", "Requests");
      const rows = page.locator("tbody tr:not(.spacer)");
      await until(async () => await rows.count() >= 12, "twelve rows");
      await page.getByLabel("Filter").fill("upstream:claude");
      await page.keyboard.press("Enter");
      await until(async () => await rows.count() === 2, "two went to claude");
    });
  });

  test("a broken prefix shows where, with the words that differ", async () => {
    await on({}, async (page) => {
      const { body } = await real.ask(`requests/${ids.broken}`);
      await page.view(`requests/${ids.broken}`, ids.broken);
      await page.getByRole("heading", { name: "Where the prefix broke" }).waitFor();
      await page.getByText(body.break.path, { exact: true }).waitFor();
      assert.match(await page.locator(".diff del").first().textContent(), /\d/);
      const named = await page.locator(".source-table").first().locator("tbody tr").count();
      assert.equal(named, Object.keys(body.attribution).length);
    });
  });

  test("numbers of a request are those of its record", async () => {
    await on({}, async (page) => {
      for (const name of ["responses", "messages", "local"]) {
        const { body } = await real.ask(`requests/${ids[name]}`);
        await page.view(`requests/${ids[name]}`, ids[name]);
        const { cache_read_tokens: read, input_tokens: input } = body.usage;
        const tile = page.locator(".tile", { hasText: "Hit rate" });
        await tile.waitFor();
        const hit = (await tile.textContent()).replace(/^Hit rate/, "");
        const percent = Number(/^[<>]?([\d.]+)%/.exec(hit)?.[1]);
        assert.ok(Math.abs(percent - 100 * read / input) <= 0.6, `${hit} of ${read}/${input}`);
        await page.locator(`[title="${body.usage.output_tokens}"]`).first().waitFor();
      }
    });
  });

  test("the overview sums what was sent", async () => {
    await on({}, async (page) => {
      await page.view("overview", "Overview");
      const { body } = await real.ask("stats?step=all&by=source");
      const sources = page.locator(".card", { hasText: "Context by source" });
      await sources.locator("tbody tr").first().waitFor();
      const names = await sources.locator("tbody th").allTextContents();
      assert.deepEqual(names.sort(), body.data.map((row) => row.name.replace("_", " ")).sort());
      await page.getByText("prompt tokens were read from a cache").waitFor();
      await page.getByRole("link", { name: "system changed" }).waitFor();
      await page.getByText("Where prefixes broke").waitFor();
      const budgets = page.locator(".card",
        { has: page.getByRole("heading", { name: "Budgets" }) });
      const { body: { data } } = await real.ask("budgets");
      await until(async () => await budgets.locator("tbody tr").count()
        === data.flatMap((one) => one.budgets).length, "a row for each budget");
      await budgets.getByText(/of 50M/).first().waitFor();
    });
  });

  test("a prompt's ribbon has the segments of its record, tools by their servers", async () => {
    await on({}, async (page) => {
      const { body } = await real.ask(`requests/${ids.broken}`);
      await page.view(`requests/${ids.broken}`, ids.broken);
      const segments = body.segments.filter((one) => one.tokens > 0);
      assert.ok(segments.length >= 4, JSON.stringify(body.segments));
      await page.locator(".segment").first().waitFor();
      assert.equal(await page.locator(".segment").count(), segments.length);
      await page.locator(".break-mark").waitFor();
      await page.getByRole("rowheader", { name: "github · mcp__github__merge" })
        .or(page.getByRole("rowheader", { name: "github · merge" })).first().waitFor();
    });
  });

  test("upstreams and models are shown with their speed", async () => {
    await on({}, async (page) => {
      await page.view("models", "Models and upstreams");
      for (const name of ["open", "claude"]) {
        const card = page.locator(".card", { has: page.getByRole("heading", { name }) });
        await card.getByText("healthy").waitFor();
      }
      await page.getByRole("link", { name: "gpt-5.5" }).waitFor();
      await page.getByText("Local engine").waitFor();
    });
  });

  test("a session's context is drawn by source, with its window", async () => {
    await on({}, async (page) => {
      await page.view(`sessions/${SESSION}`, SESSION);
      await page.getByRole("button", { name: "by source", pressed: true }).waitFor();
      await page.locator(".bound", { hasText: "window hard" }).waitFor();
      await page.locator(".mark").first().waitFor(); // its window was exceeded once
      await page.getByRole("button", { name: "Table" }).click();
      await page.getByRole("region", { name: /Context over turns, as a table/ }).waitFor();
    });
  });

  test("a request appears while the page is open", async () => {
    await on({}, async (page) => {
      await page.view("requests", "Requests");
      await page.getByText("Live", { exact: true }).waitFor();
      const { id } = await real.chat("gpt-5.5", "short", "new");
      await page.locator(`a[href="#/requests/${id}"]`).waitFor();
      await page.view("overview", "Overview");
      await page.locator(".tile.main", { hasText: /\d%/ }).waitFor();
    });
  });

  test("a prefix that was read shows how often, and where it is", async () => {
    await on({}, async (page) => {
      const read = (await prefixes()).find((one) => one.hits > 0);
      assert.ok(read.saved_tokens >= 32 && read.saved_ms > 0, JSON.stringify(read));
      await page.view("prefixes", "Prefixes");
      const hits = page.locator(`[title="${read.hits} requests read it"]`);
      const row = page.locator("tr", { has: hits }).first();
      await row.getByText("device").waitFor();
      await row.locator('[title$="tokens were read that would have been computed"]').waitFor();
      await page.getByText("are counted since the gateway began").waitFor();
    });
  });

  test("a prefix is warmed, unpinned, pinned, exported and deleted", async () => {
    await on({}, async (page) => {
      await page.view("prefixes", "Prefixes");
      await page.getByRole("button", { name: "Unpin the-warm-one" }).click();
      await page.getByRole("button", { name: "Unpin", exact: true }).click();
      await page.getByText("The prefix is no longer pinned.").waitFor();
      assert.ok(!(await prefixes()).some((one) => one.name === "the-warm-one"));
      const before = new Set((await prefixes()).map((one) => one.id));
      await page.getByRole("button", { name: "Warm a prompt" }).click();
      const text = "Never seen before. ".repeat(60);
      await page.getByLabel("Prompt, or a request").fill(text);
      await page.getByRole("dialog").getByRole("button", { name: "Warm", exact: true }).click();
      await page.getByText("The prompt is warm.").waitFor();
      let made;
      await until(async () => {
        made = (await prefixes()).find((one) => !before.has(one.id)
          && (one.preview ?? "").startsWith("Never seen"));
        return made !== undefined;
      }, "it is listed");
      const row = page.locator("tr", { hasText: "Never seen before." });
      await row.waitFor();
      await row.getByRole("button", { name: made.pinned ? /^Unpin/ : /^Pin/ }).click();
      if (made.pinned) {
        await page.getByRole("button", { name: "Unpin", exact: true }).click();
        await page.getByText("The prefix is no longer pinned.").waitFor();
        await row.getByRole("button", { name: /^Pin/ }).click();
      }
      await page.getByRole("textbox", { name: "Name" }).fill("by-hand");
      await page.getByRole("dialog").getByRole("button", { name: "Pin", exact: true }).click();
      await page.getByText("The prefix is pinned.").waitFor();
      const pinned = (await prefixes()).find((one) => one.name === "by-hand");
      assert.equal(pinned.id, made.id);
      await page.getByRole("button", { name: "Export by-hand" }).click();
      const file = page.waitForEvent("download");
      await page.getByRole("dialog").getByRole("button", { name: "Export", exact: true }).click();
      assert.equal((await file).suggestedFilename(), `${made.id}.kvgate`);
      await page.getByText("The prefix was exported.").waitFor();
      await page.getByRole("button", { name: "Delete by-hand" }).click();
      await page.getByRole("dialog").getByRole("button", { name: "Delete", exact: true }).click();
      await page.getByText("The prefix was deleted.").waitFor();
      assert.ok(!(await prefixes()).some((one) => one.id === made.id));
    });
  });

  test("a session is forked, exported, compacted and deleted", async () => {
    await on({}, async (page) => {
      const shown = async (key) => real.ask(`sessions/${encodeURIComponent(key)}`);
      await page.view(`sessions/${SESSION}`, SESSION);
      await page.getByRole("button", { name: "Fork", exact: true }).click();
      await page.getByLabel("Key of the new session").fill("a-fork");
      await page.getByRole("dialog").getByRole("button", { name: "Fork", exact: true }).click();
      await page.getByRole("heading", { level: 1, name: "a-fork" }).waitFor();
      assert.equal((await shown("a-fork")).body.turns, (await shown(SESSION)).body.turns);
      const file = page.waitForEvent("download");
      await page.getByRole("button", { name: "Export" }).click();
      await page.getByRole("dialog").getByRole("button", { name: "Export", exact: true }).click();
      assert.equal((await file).suggestedFilename(), "a-fork.jsonl");
      await page.getByRole("button", { name: "Compact now" }).click();
      await page.getByRole("dialog").getByRole("button", { name: "Compact", exact: true }).click();
      // A model of random weights writes no summary that is shorter: then the gateway's reason
      // stands in the dialog.
      await page.getByText("The session was compacted.").or(page.locator("dialog .problem"))
        .first().waitFor();
      if (await page.getByRole("dialog").count()) {
        await page.getByRole("button", { name: "Cancel" }).click();
      }
      await page.getByRole("button", { name: "Delete" }).click();
      await page.getByRole("dialog").getByRole("button", { name: "Delete", exact: true }).click();
      await page.getByRole("heading", { level: 1, name: "Sessions" }).waitFor();
      assert.equal((await shown("a-fork")).status, 404);
      await page.getByRole("link", { name: SESSION }).waitFor();
    });
  });

  test("the files are compressed, known again, and the page may do nothing else", async () => {
    const get = (path, headers) => fetch(`${real.url}${path}`, { headers, redirect: "manual" });
    const page = await get("/dashboard/");
    assert.equal(page.headers.get("content-encoding"), "gzip");
    assert.match(page.headers.get("content-security-policy"), /^default-src 'none'; script-src/);
    const again = await get("/dashboard/", { "if-none-match": page.headers.get("etag") });
    assert.equal(again.status, 304);
    const root = await get("/dashboard");
    assert.deepEqual([root.status, root.headers.get("location")], [308, "dashboard/"]);
  });

  test("with keys: signed out, refused, signed in, each sees what is theirs", async () => {
    const kept = await Real.start(KEYS);
    try {
      await kept.chat("gpt-5.5", "as root", "one");
      const page = await openPage(browser, kept.url, { expected: STATUSES });
      await page.getByLabel("Key").fill("no-key");
      await page.keyboard.press("Enter");
      await page.getByText("does not know this key").waitFor();
      await page.getByLabel("Key").fill(KEYS.bob.key);
      await page.keyboard.press("Enter");
      await page.getByRole("heading", { name: "Overview" }).waitFor();
      await page.view("requests", "Requests");
      await page.getByText("No request yet").waitFor();
      await page.getByRole("button", { name: "Sign out" }).click();
      await page.getByLabel("Key").fill(KEYS.root.key);
      await page.keyboard.press("Enter");
      await page.getByRole("cell", { name: "gpt-5.5" }).waitFor();
      await page.view("models", "Models and upstreams");
      await page.getByText("Local engine").waitFor();
      await page.leave();
    } finally {
      await kept.stop();
    }
  });
});
