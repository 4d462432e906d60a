/** Every screen, at every width and in both themes: axe finds nothing, nothing is wider than the window, and no text is
 * the colour of what it stands on. With `INTERLOCK_PICTURES=FOLDER` each is kept as a picture, to be looked at. */

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Eyes, NETWORK, until, World } from "./world.ts";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const PICTURES = process.env["INTERLOCK_PICTURES"];
const SIZES = [["desk", 1280, 800], ["tablet", 820, 1180], ["phone", 390, 844]] as const;
const THEMES = ["light", "dark"] as const;

const world = new World();
let eyes: Eyes;
let page: Page;
const tasks: Record<string, string> = {};

beforeAll(async () => {
  await world.start();
  tasks["deploy"] = await world.open("api-fix", "Fix the login redirect, then deploy", 'say I changed **two** files:\\n\\n- `src/auth.py` checks where `next` leads\\n- `tests/test_auth.py` holds it to that\\n\\nAll tests pass. Now I deploy. ; call Edit {"file_path": "src/auth.py"} -> The file was updated.; call Bash {"command": "pytest -q"} -> 41 passed in 2.31s; request Bash {"command": "make deploy ENV=prod REGION=eu-west-1"} -> deployed; say It is deployed.');
  tasks["schema"] = await world.open("schema", "Add a table for users", "ask Which database is it for? | PostgreSQL | SQLite; say The table is there.");
  tasks["flaky"] = await world.open("flaky", "Why does this test fail now and then?", "say The test reads the clock twice, so; result error_during_execution connection reset");
  tasks["docs"] = await world.open("docs", "Sum up the changelog", "usage 2100 90 0.21; say # Changelog\\n\\nIt has **three** parts:\\n\\n1. added\\n2. changed\\n3. fixed\\n\\n```python\\nfor part in parts:\\n    print(part)\\n```\\n\\nSee https://example.org/changelog for all of it.");
  tasks["ui"] = await world.open("ui", "Make the board a grid", "think Where is the grid?; call Read {\"file_path\": \"web/app/styles.css\"} -> 120 lines; say I am moving the board to a grid; gate never");
  await world.open("tests");
  tasks["pane"] = await world.open("pane", "Show your colours", 'call Bash {"command": "pytest -q"} -> 41 passed; say All tests pass.', true);
  await world.status(tasks["deploy"], "PENDING_CONFIRMATION");
  await world.status(tasks["schema"], "PENDING_CONFIRMATION");
  await world.status(tasks["docs"], "COMPLETED");
  await world.reached("never");
  eyes = await Eyes.open();
  page = await eyes.logIn(world);
});

afterAll(async () => {
  await eyes?.close();
  await world.close();
});

const live = () => page.locator(".fresh.live").first().waitFor();
const SCREENS: readonly (readonly [string, () => Promise<unknown>])[] = [
  ["board", async () => { await page.goto(world.url); await page.locator(".row-link").first().waitFor(); await live(); }],
  ["session", async () => { await page.goto(`${world.url}/s/${tasks["docs"]}`); await page.locator(".message.answer").first().waitFor(); await live(); }],
  ["question", async () => {
    const [asked] = (await world.api("GET", `/api/tasks/${tasks["deploy"]}/approvals`)).items;
    await page.goto(`${world.url}/s/${tasks["deploy"]}/q/${encodeURIComponent(asked.approval_id)}`);
    await page.locator(".question").waitFor();
    await page.locator(".session .fresh.live").waitFor();
  }],
  ["terminal", async () => { await page.goto(`${world.url}/s/${tasks["pane"]}?tab=terminal`); await page.locator(".terminal .fresh.live").waitFor(); }],
  ["why", async () => { await page.goto(`${world.url}/s/${tasks["flaky"]}?tab=why`); await page.locator(".why-lines").waitFor(); }],
  ["usage", async () => { await page.goto(`${world.url}/s/${tasks["docs"]}?tab=usage`); await page.locator("table").waitFor(); }],
  ["new", async () => { await page.goto(`${world.url}/new`); await page.locator("form").waitFor(); await live(); }],
  ["settings", async () => { await page.goto(`${world.url}/settings`); await page.getByRole("button", { name: "Show a one-time link" }).click(); await page.locator(".qr").waitFor(); await page.locator(".devices li").first().waitFor(); }],
];

async function check(name: string): Promise<void> {
  const found: string[] = [];
  for (const [size, width, height] of SIZES) {
    await page.setViewportSize({ width, height });
    for (const theme of THEMES) {
      await page.evaluate((chosen) => { document.documentElement.dataset["theme"] = chosen; }, theme);
      const where = `${name} ${size} ${theme}`;
      const beyond = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      if (beyond > 0) found.push(`${where}: ${beyond} px wider than the window`);
      const violations: any[] = await page.evaluate(async () => (await (globalThis as any).axe.run(document, { resultTypes: ["violations"] })).violations);
      for (const one of violations) found.push(`${where}: ${one.id} ${one.nodes.map((node: any) => `${node.html.slice(0, 120)} ${node.failureSummary ?? ""}`).slice(0, 3).join(" | ")}`);
      if (PICTURES) await page.screenshot({ path: `${PICTURES}/${name}-${size}-${theme}.png` });
    }
  }
  await page.setViewportSize({ width: 1280, height: 800 });
  expect(found).toEqual([]);
  expect(eyes.faults.splice(0)).toEqual([]);
}

/** axe is put into the page by the debugger: the page's own policy would not let it in. */
async function withAxe(): Promise<void> {
  const session = await page.context().newCDPSession(page);
  await session.send("Runtime.evaluate", { expression: AXE });
  await session.detach();
}

for (const [name, go] of SCREENS) {
  test(`${name}, at each width and in both themes`, async () => {
    await go();
    await withAxe();
    await check(name);
  });
}

test("login, at each width and in both themes", async () => {
  eyes.mayFail = /401/;
  page = await (await eyes.context()).newPage();
  await page.goto(`${world.url}/`);
  await page.getByText("interlock open").waitFor();
  await withAxe();
  await check("login");
});

test("not connected, at each width and in both themes", async () => {
  eyes.mayFail = NETWORK;
  page = await eyes.logIn(world);
  await page.goto(world.url);
  await page.locator(".row-link").first().waitFor();
  await withAxe();
  await world.kill();
  await page.locator(".banner").waitFor();
  await until("all that was live is dated", async () => (await page.locator(".fresh.live, .pulse").count()) === 0);
  await check("lost");
});
