/** What a person sees, in a real Chromium against a real server with scripted agents: what is lost on the way is found,
 * nothing is said twice, and in the end the page has what the server has. No console error, no CSP report. */

import type { Page, WebSocketRoute } from "playwright-core";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { converged, Eyes, NETWORK, until, World } from "./world.ts";

const world = new World();
let eyes: Eyes;
let page: Page;

beforeAll(async () => {
  await world.start();
  eyes = await Eyes.open();
  page = await eyes.logIn(world);
});

afterEach(() => {
  expect(eyes.faults.splice(0)).toEqual([]);
  eyes.mayFail = null;
});

afterAll(async () => {
  await eyes?.close();
  await world.close();
});

async function look(at: Page, taskId: string, rest = ""): Promise<void> {
  await at.goto(`${world.url}/s/${taskId}${rest}`);
  await at.locator(".session .fresh.live").first().waitFor(); // the terminal has one of its own
}

const answers = (at: Page) => at.locator(".message.answer, .message.commentary");
const answer = (at: Page, text: string | RegExp) => answers(at).filter({ hasText: text });
const card = (at: Page) => at.locator(".question");

const wasRead = (at: Page) => until("all of the card was on the screen", async () => (await card(at).count()) > 0 && (await at.locator(".unread").count()) === 0);

/** A page of its own, whose socket goes through our hands. `drops` says which frames of the server do not arrive. */
async function between(drops: (frame: any) => boolean = () => false): Promise<{ page: Page; sockets: WebSocketRoute[]; lose: (drop: (frame: any) => boolean) => void }> {
  const context = await eyes.context();
  const sockets: WebSocketRoute[] = [];
  let drop = drops;
  await context.routeWebSocket(/\/api\/socket/, (socket) => {
    const server = socket.connectToServer();
    sockets.push(socket);
    server.onMessage((message) => {
      if (!drop(JSON.parse(String(message)))) socket.send(message);
    });
  });
  const other = await context.newPage();
  await other.goto(await world.ticket("operator", "second browser"));
  await other.waitForURL(`${world.url}/`);
  await other.locator(".top .fresh.live").waitFor();
  return { page: other, sockets, lose: (next) => (drop = next) };
}

test("an empty board is live, and says what to do next", async () => {
  await page.getByText("No session yet.").waitFor();
  expect(await page.getByRole("link", { name: "Start an agent" }).getAttribute("href")).toBe("/new");
});

test("a link logs in once, its ticket stays nowhere, and no script can read the cookie", async () => {
  const link = await world.ticket("operator");
  const first = await (await eyes.context()).newPage();
  await first.goto(link);
  await first.waitForURL(`${world.url}/`);
  expect(await first.evaluate(() => document.cookie + JSON.stringify(localStorage) + location.href)).not.toContain(link.split("#t=")[1]);
  expect((await first.context().cookies()).every((cookie) => cookie.httpOnly && cookie.sameSite === "Strict")).toBe(true);
  eyes.mayFail = /401/;
  const second = await (await eyes.context()).newPage();
  await second.goto(link);
  await second.getByRole("alert").waitFor();
  await second.context().close();
  await first.context().close();
});

test("a stream is shown while it grows, over a reload and a new page, and to its end", async () => {
  const task = await world.open("streams", "say one 👩‍👩‍👧 漢 ; gate half; say two");
  await world.reached("half");
  await look(page, task);
  await answer(page, "one 👩‍👩‍👧 漢").waitFor();
  await page.reload();
  await answer(page, "one 👩‍👩‍👧 漢").waitFor();
  await converged(world, page, task);
  const context = page.context();
  await page.close();
  page = await context.newPage();
  await look(page, task);
  await answer(page, "one").waitFor();
  world.gate("half");
  await answer(page, "two").waitFor();
  await world.status(task, "COMPLETED");
  await converged(world, page, task);
  expect(await answers(page).count()).toBe(1);
});

test("the board is live, and a row moves by what the server says", async () => {
  await page.goto(world.url);
  const task = await world.open("moves", "say now; gate moves; say then");
  const row = page.locator(".row-link", { hasText: "moves" });
  await page.locator(".group-working .row-link", { hasText: "moves" }).waitFor();
  world.gate("moves");
  await page.locator(".group-done .row-link", { hasText: "moves" }).waitFor();
  await row.click();
  await page.locator(".session .fresh.live").waitFor();
  await page.locator(".group-idle .row-link", { hasText: "moves" }).waitFor(); // it was seen
  await converged(world, page, task);
});

test("a question shows all of its arguments, and Enter never allows", async () => {
  const task = await world.open("asks", 'request Bash {"command": "make deploy"} -> deployed; say It is deployed.');
  await world.status(task, "PENDING_CONFIRMATION");
  await look(page, task);
  await card(page).waitFor();
  expect(await card(page).textContent()).toContain("make deploy");
  await page.keyboard.press("Enter");
  await page.getByLabel("Why not (sent with Deny)").press("Enter");
  await wasRead(page);
  await card(page).getByRole("button", { name: "Yes" }).press("Enter");
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
  expect(await page.locator(".question .steps, .question.over").count()).toBe(0); // an act would be shown at once
  expect((await world.task(task)).summary.task_status).toBe("PENDING_CONFIRMATION");
  await page.locator(".transcript").focus();
  await until("the key is taken once the card was read", async () => {
    await page.keyboard.press("a");
    return (await page.locator(".question .steps, .question.over").count()) > 0;
  });
  await answer(page, "It is deployed.").waitFor();
  await card(page).getByText(/This question is over/).waitFor(); // it stays, and says how it ended
  await converged(world, page, task);
});

test("a question is answered by words, and by one of its options", async () => {
  const task = await world.open("choice", "ask Which database? | PostgreSQL | SQLite; say Taken.");
  await world.status(task, "PENDING_CONFIRMATION");
  await look(page, task);
  await wasRead(page);
  await card(page).getByRole("button", { name: "SQLite" }).click();
  await answer(page, "Taken.").waitFor();
  await converged(world, page, task);
});

test("of two devices one is first, and the other is told who", async () => {
  const task = await world.open("race", 'request Bash {"command": "rm -r build"} -> gone; say Done with it.');
  await world.status(task, "PENDING_CONFIRMATION");
  const other = await between((frame) => !/^(hello|ack|refused|.*:joined)$/.test(frame.type));
  await look(other.page, task);
  await card(other.page).waitFor();
  await look(page, task);
  await wasRead(page);
  await card(page).getByRole("button", { name: "Yes" }).click();
  await answer(page, "Done with it.").waitFor();
  eyes.mayFail = /409|404/;
  await card(other.page).getByRole("button", { name: "Deny" }).click();
  await card(other.page).getByText(/was not taken/).waitFor();
  await other.page.context().close();
  await converged(world, page, task);
});

test("a cold link to a question opens it, and one to a question that is over says how it ended", async () => {
  const task = await world.open("linked", 'request Bash {"command": "make test"} -> ok; say Tested.');
  await world.status(task, "PENDING_CONFIRMATION");
  const [asked] = (await world.api("GET", `/api/tasks/${task}/approvals`)).items;
  const path = `/q/${encodeURIComponent(asked.approval_id)}`;
  await look(page, task, path);
  await card(page).getByText("make test").waitFor();
  await world.api("POST", `/api/tasks/${task}/approvals/${encodeURIComponent(asked.approval_id)}/decision`, { is_allowed: false });
  await card(page).getByText(/This question is over/).waitFor();
  await look(page, task, path);
  await card(page).getByText(/This question is over/).waitFor();
  expect(await card(page).getByRole("button", { name: "Deny" }).count()).toBe(0);
});

test("a prompt walks its receipts, and a draft outlives a reload and another session", async () => {
  const task = await world.open("sends");
  const other = await world.open("elsewhere");
  await look(page, task);
  const prompt = page.locator("#prompt");
  await prompt.fill("say a draft");
  await look(page, other);
  await look(page, task);
  expect(await prompt.inputValue()).toBe("say a draft");
  await prompt.evaluate((box) => box.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", isComposing: true, bubbles: true, cancelable: true })));
  expect(await prompt.inputValue()).toBe("say a draft"); // that Enter ended a word, and no prompt
  await prompt.press("Enter");
  await answer(page, "a draft").waitFor();
  expect(await prompt.inputValue()).toBe("");
  await page.locator(".message.user .steps .done", { hasText: "started" }).waitFor();
  await converged(world, page, task);
});

test("a prompt whose answer was lost is sent once, also over a reload", async () => {
  const task = await world.open("once");
  await look(page, task);
  eyes.mayFail = NETWORK;
  await page.route("**/prompts", async (route) => {
    await route.fetch();
    await route.abort("connectionreset");
  });
  await page.locator("#prompt").fill("say exactly once");
  await page.locator("#prompt").press("Enter");
  await world.status(task, "COMPLETED");
  await page.unroute("**/prompts");
  await page.reload();
  await answer(page, "exactly once").waitFor();
  await until("nothing waits in the page", async () => (await page.locator(".message.sending").count()) === 0);
  expect(world.prompts().filter((text) => text.includes("exactly once"))).toHaveLength(1);
  expect(await page.evaluate(() => localStorage.getItem("interlock.outbox"))).toBeNull();
  await converged(world, page, task);
});

test("frames that do not arrive are asked for", async () => {
  const other = await between((frame) => frame.type === "chat:start" || (frame.type === "chat:chunk" && frame.offset === 0));
  const task = await world.open("lossy");
  await look(other.page, task);
  await world.prompt(task, "say a hole is filled; gate lossy; say and closed");
  await answer(other.page, "a hole is filled").waitFor();
  world.gate("lossy");
  await world.status(task, "COMPLETED");
  await converged(world, other.page, task);
  await other.page.context().close();
});

test("a connection that closes, cleanly or not, is made again", async () => {
  const other = await between();
  const task = await world.open("closes", "say before; gate closes; say after");
  await look(other.page, task);
  for (const code of [1000, 1001, 1008, 1012, 1013]) {
    const count = other.sockets.length;
    await other.sockets.at(-1)?.close({ code, reason: "a test" });
    await until(`a new connection after ${code}`, () => other.sockets.length > count);
    await other.page.locator(".session .fresh.live").waitFor();
  }
  world.gate("closes");
  await world.status(task, "COMPLETED");
  await converged(world, other.page, task);
  await other.page.context().close();
});

test("a hidden tab that missed the end of a turn, and a question that came and went, finds out", async () => {
  const other = await between();
  const task = await world.open("freezes", 'say before; gate freezes; request Bash {"command": "true"} -> ok; say after');
  await world.reached("freezes");
  await look(other.page, task);
  // A page of headless Chromium is never hidden or frozen, whatever it is told: so it is told to itself.
  const turn = (state: string, seconds: number) =>
    other.page.evaluate(([now, later]) => {
      const real = Date.now.bind(Date);
      Date.now = () => real() + Number(later) * 1000;
      Object.defineProperty(document, "visibilityState", { configurable: true, get: () => now });
      document.dispatchEvent(new Event("visibilitychange"));
    }, [state, seconds] as const);
  await turn("hidden", 0);
  other.lose((frame) => !/^(hello|ack|refused|.*:joined)$/.test(frame.type));
  world.gate("freezes");
  await world.status(task, "PENDING_CONFIRMATION");
  const [asked] = (await world.api("GET", `/api/tasks/${task}/approvals`)).items;
  await world.api("POST", `/api/tasks/${task}/approvals/${encodeURIComponent(asked.approval_id)}/decision`, { is_allowed: true });
  await world.status(task, "COMPLETED");
  other.lose(() => false);
  await turn("visible", 5);
  await answer(other.page, "after").waitFor();
  await converged(world, other.page, task);
  expect(await other.page.getByRole("button", { name: "Yes" }).count()).toBe(0);
  await other.page.context().close();
});

test("hostile text stays text", async () => {
  const asked: string[] = [];
  const watch = (request: { url(): string }) => asked.push(request.url());
  page.on("request", watch);
  const task = await world.open("hostile", "say <img src=x onerror=alert(1)> <script>alert(1)</script> [click](javascript:alert(1)) ![p](https://evil.example/p.png) https://evil.example/ \u202egnp.exe");
  await world.status(task, "COMPLETED");
  await look(page, task);
  await answer(page, "<script>alert(1)</script>").waitFor();
  expect(await page.locator(".message img, .message script, .message a[href^=javascript]").count()).toBe(0);
  expect(await page.locator(".message.answer a").evaluateAll((links) => links.map((link) => (link as HTMLAnchorElement).protocol))).toEqual(expect.arrayContaining(["https:"]));
  await converged(world, page, task);
  expect(asked.filter((url) => !url.startsWith(world.url))).toEqual([]);
  page.off("request", watch);
});

test("what was never on the screen is not allowed by one press", async () => {
  const long = Array.from({ length: 120 }, (_, at) => `echo ${at} ${"x".repeat(200)}`).join(" && ");
  const task = await world.open("long", `request Bash {"command": "${long}\u202e && rm -rf /"} -> ok; say Long.`);
  await world.status(task, "PENDING_CONFIRMATION");
  await page.setViewportSize({ width: 390, height: 844 });
  const [asked] = (await world.api("GET", `/api/tasks/${task}/approvals`)).items;
  await look(page, task, `/q/${encodeURIComponent(asked.approval_id)}`);
  await card(page).waitFor();
  expect(await card(page).textContent()).toContain("‹U+202E› && rm -rf /"); // whole, and marked
  const allow = card(page).getByRole("button", { name: "Yes" });
  expect(await allow.evaluate((button) => button.getBoundingClientRect().bottom <= innerHeight)).toBe(true);
  await page.locator(".unread").waitFor();
  await page.keyboard.press("a");
  await allow.click();
  await card(page).getByText(/Press again/).waitFor();
  expect((await world.task(task)).summary.task_status).toBe("PENDING_CONFIRMATION");
  await card(page).locator(".question-body").evaluate(async (box) => {
    for (let at = 0; at < box.scrollHeight; at += 150) {
      box.scrollTop = at;
      await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    }
  });
  await wasRead(page);
  await allow.click();
  await world.status(task, "COMPLETED");
  await page.setViewportSize({ width: 1280, height: 800 });
  await look(page, task);
  await converged(world, page, task);
});

test("an interrupt asks first, and is a wish until the server says how it ended", async () => {
  const task = await world.open("stops", "say begun; hang");
  await look(page, task);
  await answer(page, "begun").waitFor();
  await page.locator(".transcript").focus();
  await page.keyboard.press("c");
  await page.getByRole("dialog").getByRole("button", { name: "Interrupt" }).click();
  await world.status(task, "CANCELLED");
  await converged(world, page, task);
});

test("a new session begins from the form, and its draft is gone once it has", async () => {
  await page.goto(`${world.url}/new`);
  await page.getByRole("radio", { name: "scripted" }).click();
  await page.getByLabel("Folder").fill(world.folder);
  await page.getByLabel("Title").fill("formed");
  await page.getByLabel("Prompt").fill("say Begun by a form.");
  await page.reload();
  expect(await page.getByLabel("Prompt").inputValue()).toBe("say Begun by a form.");
  await page.locator(".top .fresh.live").waitFor();
  await page.getByRole("button", { name: "Start" }).click();
  await answer(page, "Begun by a form.").waitFor();
  const task = new URL(page.url()).pathname.split("/").at(-1) as string;
  await world.status(task, "COMPLETED");
  await converged(world, page, task);
  expect(await page.evaluate(() => localStorage.getItem("interlock.draft.new"))).toBeNull();
});

test("the terminal is shown as it is, and looking changes nothing", async () => {
  const task = await world.open("pane", "say In a terminal.", undefined, true);
  await world.status(task, "COMPLETED");
  const before = await world.api("GET", `/api/tasks/${task}/screen`);
  const observer = await eyes.logIn(world, "observer", { viewport: { width: 390, height: 844 } });
  const { version } = (await world.task(task)).summary;
  await look(observer, task, "?tab=terminal");
  await observer.locator(".terminal .fresh.live").waitFor();
  const rows = await observer.locator(".screen").textContent();
  expect(rows).toContain("In a terminal.");
  await observer.locator("body").press("x"); // an observer's keys do nothing
  const after = await world.api("GET", `/api/tasks/${task}/screen`);
  expect([after.columns, after.height, (await world.task(task)).summary.version]).toEqual([before.columns, before.height, version]);
  await observer.context().close();
});

test("an observer sees no act, and is refused one", async () => {
  const task = await world.open("looks", 'request Bash {"command": "make"} -> ok; say Made.');
  await world.status(task, "PENDING_CONFIRMATION");
  const observer = await eyes.logIn(world, "observer");
  await look(observer, task);
  await card(observer).waitFor();
  expect(await observer.locator("#prompt, .answers, .composer, .session-bar button, a[href='/new']").count()).toBe(0);
  eyes.mayFail = /403/;
  const status = await observer.evaluate(async (id) => {
    const headers = { "Content-Type": "application/json", "X-Interlock": "1" };
    return (await fetch(`/api/tasks/${id}/prompts`, { method: "POST", headers, body: '{"text":"say no"}' })).status;
  }, task);
  expect(status).toBe(403);
  await observer.context().close();
});

test("a login that is revoked ends at once, and its draft stays", async () => {
  const task = await world.open("revoked");
  const other = await eyes.logIn(world);
  await look(other, task);
  await other.locator("#prompt").fill("kept");
  const lines = (await other.evaluate(async () => (await (await fetch("/api/logins")).json()).items)) as { login_id: string; is_this: boolean }[];
  eyes.mayFail = NETWORK;
  await world.api("DELETE", `/api/logins/${lines.find((line) => line.is_this)?.login_id}`);
  await other.getByText("interlock open").waitFor();
  expect(await other.evaluate((id) => localStorage.getItem(`interlock.draft.${id}`), task)).toBe("kept");
  await other.context().close();
});

test("a server that is killed in mid-stream and comes back: dated meanwhile, equal after", async () => {
  const task = await world.open("killed", "say half of it; gate never; say the rest");
  await world.reached("never");
  await look(page, task);
  await answer(page, "half of it").waitFor();
  eyes.mayFail = NETWORK;
  await world.kill();
  await page.getByText(/Not connected since \d\d:\d\d:\d\d\. What you see is from then\./).waitFor();
  expect(await page.locator(".pulse").count()).toBe(0);
  expect(await page.title()).toBe("Interlock, not connected");
  await page.locator(".row-link", { hasText: "killed" }).getByText(/was working.*as of/).waitFor();
  await answer(page, "half of it").waitFor();
  await page.locator("#prompt").fill("say after the crash");
  await page.locator("#prompt").press("Enter");
  await page.getByText("waits for the connection").waitFor();
  await world.start();
  await page.locator(".session .fresh.live").waitFor();
  await answer(page, "after the crash").waitFor();
  await converged(world, page, task);
  expect(world.prompts().filter((text) => text.includes("after the crash"))).toHaveLength(1);
});
