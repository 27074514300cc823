// Debian's chromium for the tests, and a page that remembers what it must not do: errors on the
// console, requests to anywhere else, and breaches of the content security policy.
import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";

import { chromium } from "playwright-core";

const CHROMIUM = process.env.KVGATE_CHROMIUM ?? "/usr/bin/chromium";
// The reason to skip; false if the browser is there.
export const NO_BROWSER = existsSync(CHROMIUM) ? false : `${CHROMIUM} is not installed`;
const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
export const WAIT_MS = 30_000;

export const startBrowser = () => chromium.launch({
  executablePath: CHROMIUM, headless: true, args: ["--no-sandbox", "--disable-dev-shm-usage"],
});

// Opens the dashboard. `expected` are texts that may stand on the console, for refused requests.
export async function openPage(browser, url, { width = 1280, height = 860, scheme = "light",
  expected = [] } = {}) {
  const context = await browser.newContext({ viewport: { width, height }, colorScheme: scheme,
    acceptDownloads: true });
  const page = await context.newPage();
  page.setDefaultTimeout(WAIT_MS);
  const problems = [];
  page.on("console", (message) => {
    const text = message.text();
    if (["error", "warning"].includes(message.type())
        && !expected.some((one) => text.includes(one))) problems.push(text);
  });
  page.on("pageerror", (error) => problems.push(String(error)));
  page.on("request", (request) => {
    const asked = request.url();
    if (!asked.startsWith(`${url}/`) && !asked.startsWith("blob:")) problems.push(`asked ${asked}`);
  });
  await page.goto(`${url}/dashboard/`);
  await page.locator("h1").first().waitFor();
  page.clean = () => assert.deepEqual(problems, []);
  page.view = async (hash, heading) => {
    await page.goto(`${url}/dashboard/#/${hash}`);
    await page.getByRole("heading", { level: 1, name: heading }).waitFor();
  };
  page.leave = async () => {
    page.clean();
    await context.close();
  };
  return page;
}

// Findings of axe that keep people out. The script runs beside the page, past its policy.
export async function seriousFindings(page) {
  await page.waitForLoadState("load");
  const client = await page.context().newCDPSession(page);
  const { frameTree } = await client.send("Page.getFrameTree");
  const { executionContextId } = await client.send("Page.createIsolatedWorld",
    { frameId: frameTree.frame.id, worldName: "axe" });
  const run = async (expression) => {
    const { result, exceptionDetails } = await client.send("Runtime.evaluate",
      { contextId: executionContextId, awaitPromise: true, returnByValue: true, expression });
    assert.equal(exceptionDetails, undefined, JSON.stringify(exceptionDetails));
    return result.value;
  };
  await run(`${AXE};0`);
  const found = await run(`axe.run(document, {resultTypes: ["violations"]}).then((result) =>
    result.violations.map(({id, impact, nodes}) => ({id, impact, nodes: nodes.map((node) =>
      node.html.slice(0, 200) + " " + (node.any[0] ? node.any[0].message : ""))})))`);
  await client.detach();
  return found.filter(({ impact }) => impact === "serious" || impact === "critical");
}

export async function until(read, what) {
  const end = Date.now() + WAIT_MS;
  for (;;) {
    if (await read()) return;
    if (Date.now() > end) throw new Error(`it did not happen: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
}
