// Every view in every state that a gateway can bring it into, on made-up data.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";

import { NO_BROWSER, openPage, seriousFindings, startBrowser, until } from "./browser.mjs";
import { HOSTILE, KEY, Mock, USER_KEY } from "./mock.mjs";

const VIEWS = [["overview", "Overview"], ["requests", "Requests"], ["prefixes", "Prefixes"],
  ["sessions", "Sessions"], ["models", "Models and upstreams"], ["advice", "Advice"]];
// What the browser itself says of a status, or of a connection that ends.
const REFUSED = ["Failed to load resource"];

describe("dashboard", { skip: NO_BROWSER }, () => {
  let browser;
  before(async () => {
    browser = await startBrowser();
  });
  after(() => browser.close());

  // Runs a case on a gateway of its own, and closes both.
  const on = async (options, page, run) => {
    const mock = await new Mock(options).listen();
    try {
      const opened = await openPage(browser, mock.url, page);
      await run(opened, mock);
      await opened.leave();
    } finally {
      await mock.stop();
    }
  };

  for (const [scheme, width] of [["light", 1280], ["dark", 1280], ["dark", 400], ["light", 400]]) {
    test(`every view in ${scheme} at ${width} pixels fits and keeps nobody out`, async () => {
      await on({}, { scheme, width }, async (page, mock) => {
        const broken = mock.records.find((one) => one.break?.cause === "system_changed");
        const all = [...VIEWS, [`requests/${broken.id}`, broken.id],
          ["sessions/agent-refactor-7f3", "agent-refactor-7f3"]];
        for (const [hash, heading] of all) {
          await page.view(hash, heading);
          await until(() => page.evaluate(() => !document.querySelector(".skeleton")), hash);
          assert.deepEqual(await seriousFindings(page), [], `${hash} ${scheme} ${width}`);
          const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
          assert.ok(wide <= 0, `${hash} is ${wide} pixels too wide`);
        }
      });
    });
  }

  test("costs stand beside what they were directly and without cache, if that is known",
    async () => {
      await on({}, {}, async (page, mock) => {
        const labels = () => page.locator(".costs dt").allTextContents();
        await page.locator(".costs").waitFor();
        assert.deepEqual(await labels(), ["Actual", "Directly", "Without cache"]);
        const shown = (await page.locator(".costs dd:not(.note)").allTextContents())
          .map((text) => Number(text.slice(1)));
        assert.ok(shown[0] < shown[1] && shown[1] < shown[2], String(shown));
        await page.locator(".tile", { hasText: "Cost a minute" }).getByText(/directly, \$/)
          .waitFor();
        mock.older = true; // a gateway that does not estimate it
        await page.reload();
        await page.locator(".costs").waitFor();
        assert.deepEqual(await labels(), ["Actual", "Without cache"]);
        assert.equal(await page.getByText("directly").count(), 0);
      });
    });

  test("budgets show what is used, the fullest first, and nothing where there are none",
    async () => {
      await on({}, { expected: REFUSED }, async (page, mock) => {
        const card = page.locator(".card", { has: page.getByRole("heading", { name: "Budgets" }) });
        await card.waitFor();
        assert.deepEqual(await card.locator("tbody .who").allTextContents(),
          ["ci", "agents", "agents", "alice"]);
        const rows = card.locator("tbody tr");
        await rows.nth(0).getByText("used up").waitFor();
        await rows.nth(1).getByText("over 80%").waitFor();
        await rows.nth(1).locator('[title="$8.71 of $10"]').waitFor();
        await rows.nth(1).getByText(/^in \d+ (h|min|s)$/).waitFor();
        assert.equal(await rows.nth(3).locator(".badge").count(), 0);
        assert.equal(await rows.nth(3).locator(".meter s").count(), 2, "marks at 50 and 80 %");
        mock.failures.set("budgets", 404); // a gateway that knows none
        await page.reload();
        await page.getByRole("heading", { name: "Tiers" }).waitFor();
        assert.equal(await card.count(), 0);
      });
    });

  test("a prefix shows its hits, what they saved, and the tier that it is in", async () => {
    await on({}, {}, async (page, mock) => {
      const [first, second] = mock.prefixes;
      await page.view("prefixes", "Prefixes");
      const row = page.locator("tr", { hasText: "engineer" });
      await row.locator(`[title="${first.hits} requests read it"]`).waitFor();
      await row.getByText("device").waitFor();
      await row.getByText("pinned").waitFor();
      await row.getByText(/\d (h|min)( \d+ (min|s))?$/).first().waitFor(); // the time it saved
      const branch = page.locator("tr", { hasText: second.id.slice(0, 7) });
      await branch.getByText(`+${second.shared_hits} shared`).waitFor();
      const title = await branch.locator("td.tier").getAttribute("title");
      assert.match(title, /^device: [\d,]+ tokens, host: [\d,]+ tokens$/);
      await page.getByText(/are counted since the gateway began, 2 h ago/).waitFor();
      for (const one of mock.prefixes) {
        Object.assign(one, { hits: undefined, saved_tokens: undefined, tier: null,
          tiers: undefined, shared_hits: undefined });
      }
      await page.reload(); // an engine that is busy, or none
      await page.getByText("engineer").first().waitFor();
      assert.equal(await row.locator("td.tier").textContent(), "–");
      assert.equal(await row.locator("td.hits").textContent(), "–");
    });
  });

  test("an empty gateway says in each view what would stand there", async () => {
    await on({ state: "empty" }, {}, async (page) => {
      const says = { overview: "No request was answered", requests: "No request yet",
        prefixes: "No prefix is kept", sessions: "No session is kept",
        models: "No upstream is configured", advice: "Nothing to change" };
      for (const [hash, heading] of VIEWS) {
        await page.view(hash, heading);
        await page.getByText(says[hash]).first().waitFor();
        assert.deepEqual(await seriousFindings(page), [], hash);
      }
    });
  });

  test("a slow answer shows that it loads, a failed one why, and trying again helps", async () => {
    await on({}, { expected: REFUSED }, async (page, mock) => {
      mock.delays.set("prefixes", 1500);
      await page.view("prefixes", "Prefixes");
      await page.locator(".skeleton").waitFor();
      await page.getByText("engineer").first().waitFor();
      mock.delays.clear();
      mock.failures.set("sessions", 503);
      await page.view("sessions", "Sessions");
      await page.getByText("It failed on purpose.").waitFor();
      mock.failures.clear();
      await page.getByRole("button", { name: "Try again" }).click();
      await page.getByRole("link", { name: "nightly-triage" }).waitFor();
    });
  });

  test("what was there stays when the next answer fails, and says that it is old", async () => {
    await on({}, { expected: REFUSED }, async (page, mock) => {
      await page.view("models", "Models and upstreams");
      await page.getByRole("heading", { name: "anthropic" }).waitFor();
      mock.failures.set("stats", 500);
      await page.getByText("Not up to date").first().waitFor();
      await page.getByRole("heading", { name: "anthropic" }).waitFor();
    });
  });

  test("a key signs in, a wrong one is told so, and signing out forgets it", async () => {
    await on({ keys: true }, { expected: REFUSED }, async (page, mock) => {
      await page.getByLabel("Key").waitFor();
      assert.deepEqual(await seriousFindings(page), []);
      await page.getByLabel("Key").fill("wrong");
      await page.getByRole("button", { name: "Sign in" }).click();
      await page.getByText("does not know this key").waitFor();
      await page.getByLabel("Key").fill(KEY);
      await page.keyboard.press("Enter");
      await page.getByRole("heading", { name: "Overview" }).waitFor();
      await page.getByText("Live", { exact: true }).waitFor();
      await page.reload();
      await page.getByRole("heading", { name: "Overview" }).waitFor();
      const kept = await page.evaluate(() => [sessionStorage.length, localStorage.length,
        document.cookie, location.href.includes("key-of")]);
      assert.deepEqual(kept, [1, 0, "", false]);
      await page.getByRole("button", { name: "Sign out" }).click();
      await page.getByLabel("Key").waitFor();
      assert.equal(await page.evaluate(() => sessionStorage.length), 0);
      await until(() => mock.readers.size === 0, "the events end");
    });
  });

  test("a user sees what a user may, and of the rest that it takes an admin", async () => {
    await on({ keys: true }, { expected: REFUSED }, async (page, mock) => {
      mock.failures.set("prefixes", 403);
      await page.getByLabel("Key").fill(USER_KEY);
      await page.keyboard.press("Enter");
      await page.getByText("Requests a minute").waitFor();
      await page.locator(".tile.main", { hasText: "tokens" }).waitFor();
      assert.equal(await page.getByText("Active requests").count(), 0);
      await page.view("models", "Models and upstreams");
      await page.getByText("Upstreams are shown to admins").waitFor();
      await page.view("prefixes", "Prefixes");
      await page.getByText("Your key may not see this").waitFor();
      await page.getByText("It takes a key of the role admin").waitFor();
    });
  });

  test("texts of others are shown as texts, whatever they are", async () => {
    await on({ state: "hostile" }, {}, async (page, mock) => {
      const all = [...VIEWS, [`requests/${mock.records[0].id}`, mock.records[0].id],
        [`sessions/${encodeURIComponent(HOSTILE)}`, /img/]];
      for (const [hash, heading] of all) {
        await page.view(hash, heading);
        await until(() => page.evaluate(() => !document.querySelector(".skeleton")), hash);
        assert.equal(await page.locator("main img, main [onerror]").count(), 0, hash);
        assert.notEqual(await page.title(), "owned");
      }
      await page.view("requests", "Requests");
      await page.getByText("<img src=x").first().waitFor();
      await page.view("sessions", "Sessions");
      await page.getByRole("link", { name: /img/ }).click();
      await page.getByText("Context over turns").first().waitFor();
      await page.getByRole("button", { name: "Compact now" }).click();
      await page.getByRole("button", { name: "Compact", exact: true }).click();
      await until(() => mock.calls.length === 1, "it is compacted");
      assert.equal(mock.calls[0].path, `sessions/${encodeURIComponent(HOSTILE)}/compact`);
    });
  });

  test("requests appear by themselves, and a lost connection comes back", async () => {
    await on({ records: 5 }, { expected: REFUSED }, async (page, mock) => {
      await page.view("requests", "Requests");
      await until(() => mock.readers.size === 1, "it reads events");
      mock.emit({ set: { model: "brand-new-model" } });
      await page.getByRole("cell", { name: "brand-new-model" }).waitFor();
      for (const reader of mock.readers) reader.destroy();
      await page.getByText(/Reconnecting|Connecting/).waitFor();
      await page.getByText("Live", { exact: true }).waitFor();
      mock.emit({ set: { model: "after-the-gap" } });
      await page.getByRole("cell", { name: "after-the-gap" }).waitFor();
      mock.send("dropped", { count: 12 });
      await page.locator('[title*="12 requests were left out"]').waitFor();
    });
  });

  test("a filter holds for old and new requests, and the address keeps it", async () => {
    await on({}, {}, async (page, mock) => {
      await page.view("requests", "Requests");
      await page.keyboard.press("/");
      await page.keyboard.type("model:gpt-6-sol upstream:openai");
      await page.keyboard.press("Enter");
      await until(async () => (await page.locator("tbody td:nth-child(2)").allTextContents())
        .every((text) => text === "gpt-6-sol" || text === ""), "only that model");
      assert.match(page.url(), /model=gpt-6-sol&upstream=openai/);
      mock.emit({ kind: { model: "other", upstream: "x", dialect: "openai",
        endpoint: "responses", price: 1, out: 1, tps: 9 } });
      mock.emit({ kind: { model: "gpt-6-sol", upstream: "openai", dialect: "openai",
        endpoint: "responses", price: 1, out: 1, tps: 9 }, set: { session: "of-this-filter" } });
      await page.getByRole("cell", { name: "of-this-filter" }).waitFor();
      assert.equal(await page.getByRole("cell", { name: "other", exact: true }).count(), 0);
      await page.getByLabel("Filter").fill("colour:red");
      await page.getByText("Not a filter: colour:red").waitFor();
      await page.getByRole("button", { name: "Clear" }).click();
      await page.getByRole("button", { name: "Breaks" }).click();
      await until(() => page.url().includes("break=any"), "the address says so");
      await page.reload();
      await page.getByRole("button", { name: "Breaks", pressed: true }).waitFor();
    });
  });

  test("all can be done with keys alone", async () => {
    await on({}, {}, async (page, mock) => {
      await page.keyboard.press("2");
      await page.getByRole("heading", { level: 1, name: "Requests" }).waitFor();
      await page.locator("tbody tr:not(.spacer)").first().waitFor();
      for (let i = 0; i < 3; ++i) await page.keyboard.press("ArrowDown");
      await page.keyboard.press("ArrowUp");
      await page.locator("tr.chosen").waitFor();
      assert.equal(await page.locator("tr.chosen").getAttribute("aria-rowindex"), "3");
      const second = mock.records[1].id;
      mock.emit();
      await page.getByRole("button", { name: "1 new" }).waitFor(); // it moves nothing that is read
      await page.keyboard.press("Enter");
      await page.getByRole("heading", { level: 1, name: second }).waitFor();
      await page.keyboard.press("?");
      await page.getByRole("dialog", { name: "Keys" }).waitFor();
      await page.keyboard.press("Escape");
      assert.equal(await page.getByRole("dialog").count(), 0);
      await page.keyboard.press("1");
      await page.getByRole("group", { name: /^Hit rate/ }).focus();
      await page.keyboard.press("ArrowLeft");
      await page.locator(".tip").waitFor();
      for (const theme of ["dark", "light"]) {
        await page.keyboard.press("t");
        assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), theme);
      }
      assert.equal(await page.evaluate(() => {
        const side = document.querySelector(".side a");
        side.focus();
        return getComputedStyle(side).outlineStyle !== undefined;
      }), true);
    });
  });

  test("every action asks first, says what it does, and then does it", async () => {
    await on({}, {}, async (page, mock) => {
      const confirm = async (name) => {
        const dialog = page.getByRole("dialog");
        await dialog.waitFor();
        assert.equal(mock.calls.length, calls, "nothing is done before it is said");
        await dialog.getByRole("button", { name, exact: true }).click();
        await dialog.waitFor({ state: "detached" });
        calls = mock.calls.length;
        return mock.calls[calls - 1];
      };
      let calls = 0;
      await page.view("prefixes", "Prefixes");
      const [pinned, loose] = mock.prefixes;
      await page.getByRole("button", { name: "Unpin engineer" }).click();
      assert.deepEqual(await confirm("Unpin"), { method: "DELETE",
        path: `prefixes/${pinned.id}/pin`, body: null, type: undefined });
      await page.locator("tr", { hasText: loose.id.slice(0, 7) }).getByRole("button",
        { name: /^Pin/ }).click();
      await page.getByRole("textbox", { name: "Name" }).fill("kept");
      await page.getByLabel("Hours").fill("2");
      assert.deepEqual(await confirm("Pin"), { method: "POST", path: `prefixes/${loose.id}/pin`,
        body: { name: "kept", ttl_seconds: 7200 }, type: "application/json" });
      await page.getByRole("button", { name: "Delete kept" }).click();
      assert.equal((await confirm("Delete")).path, `prefixes/${loose.id}?force=1`);
      await page.getByRole("button", { name: "Warm a prompt" }).click();
      await page.getByLabel("Prompt, or a request").fill('{"messages": [1]}');
      assert.deepEqual((await confirm("Warm")).body, { model: "local", messages: [1] });
      await page.getByRole("button", { name: "Export shop" }).click();
      const file = page.waitForEvent("download");
      await page.getByRole("dialog").getByRole("button", { name: "Export", exact: true }).click();
      assert.match((await file).suggestedFilename(), /^[0-9a-f]{32}\.kvgate$/);

      await page.view("sessions/agent-refactor-7f3", "agent-refactor-7f3");
      for (const [button, path] of [["Compact now", "compact"], ["Undo", "undo"]]) {
        await page.getByRole("button", { name: button }).click();
        assert.equal((await confirm(button.split(" ")[0])).path,
          `sessions/agent-refactor-7f3/${path}`);
      }
      await page.getByRole("button", { name: "Fork", exact: true }).click();
      await page.getByLabel("Key of the new session").fill("a-branch");
      assert.deepEqual((await confirm("Fork")).body, { key: "a-branch" });
      await page.getByRole("heading", { level: 1, name: "a-branch" }).waitFor();
      await page.getByRole("button", { name: "Delete" }).click();
      await page.getByText("This cannot be undone").waitFor();
      await page.getByRole("button", { name: "Cancel" }).click();
      assert.equal(mock.calls.length, calls);
      await page.getByRole("button", { name: "Delete" }).click();
      assert.deepEqual(await confirm("Delete"), { method: "DELETE", path: "sessions/a-branch",
        body: null, type: undefined });
      await page.getByRole("heading", { level: 1, name: "Sessions" }).waitFor();
    });
  });

  test("a hundred requests a second leave the page quick and the document small", async () => {
    await on({ records: 300 }, {}, async (page, mock) => {
      await page.view("requests", "Requests");
      await page.locator("tbody tr:not(.spacer)").first().waitFor();
      const frames = () => page.evaluate(() => new Promise((resolve) => {
        const end = performance.now() + 2000;
        let many = 0;
        const step = () => {
          many += 1;
          if (performance.now() < end) requestAnimationFrame(step);
          else resolve(many);
        };
        requestAnimationFrame(step);
      }));
      const idle = await frames();
      const timer = setInterval(() => mock.emit(), 10);
      const busy = await frames();
      clearInterval(timer);
      const sent = mock.records.length;
      assert.ok(busy > idle / 10, `${busy} frames under load, ${idle} without`);
      await page.locator(`a[href="#/requests/${mock.records[0].id}"]`).waitFor();
      const rows = await page.locator("tbody tr:not(.spacer)").count();
      assert.ok(rows < 80, `${rows} rows of ${sent} stand in the document`);
      console.log(`# frames in 2 s: ${idle} idle, ${busy} under load; ${rows} rows of ${sent}`);
    });
  });

  test("an action that fails says why and stays open", async () => {
    await on({}, { expected: REFUSED }, async (page, mock) => {
      mock.failures.set("sessions/docs-writer/compact", 409);
      await page.view("sessions/docs-writer", "docs-writer");
      await page.getByRole("button", { name: "Compact now" }).click();
      await page.getByRole("button", { name: "Compact", exact: true }).click();
      await page.getByRole("dialog").getByText("It failed on purpose.").waitFor();
    });
  });
});
