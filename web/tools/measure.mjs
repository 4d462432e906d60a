// Measures the page at a server: `node web/tools/measure.mjs LINK TASK SECONDS` logs in by the link, waits for the board,
// opens the task and watches frames while others stream. Prints one line of JSON. Used by bench/web.py.
import { chromium } from "playwright-core";

const [link, task, seconds] = process.argv.slice(2);
const args = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args });
try {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
  const page = await context.newPage();
  await page.goto(link);
  await page.locator(".row-link").first().waitFor();
  await page.reload();
  await page.locator(".row-link").first().waitFor();
  const board = await page.evaluate(() => performance.now());
  const origin = new URL(link).origin;
  await page.goto(`${origin}/s/${task}`);
  await page.locator(".message.answer, .message.commentary").first().waitFor();
  const frames = await page.evaluate(
    (limit) =>
      new Promise((done) => {
        const gaps = [];
        const began = performance.now();
        let last = began;
        const tasks = [];
        new PerformanceObserver((list) => tasks.push(...list.getEntries().map((entry) => entry.duration))).observe({ type: "longtask" });
        const look = (now) => {
          gaps.push(now - last);
          last = now;
          if (now - began < limit * 1000) requestAnimationFrame(look);
          else done({ gaps: gaps.slice(1).sort((one, other) => one - other), longest: Math.max(0, ...tasks), count: tasks.length });
        };
        requestAnimationFrame(look);
      }),
    Number(seconds),
  );
  const session = await context.newCDPSession(page);
  await session.send("HeapProfiler.collectGarbage");
  const { usedSize } = await session.send("Runtime.getHeapUsage");
  const at = (share) => frames.gaps[Math.min(frames.gaps.length - 1, Math.floor(frames.gaps.length * share))];
  console.log(JSON.stringify({ board_ms: board, frames: frames.gaps.length, p50_ms: at(0.5), p95_ms: at(0.95), longest_task_ms: frames.longest, long_tasks: frames.count, heap_mb: usedSize / 1e6 }));
} finally {
  await browser.close();
}
