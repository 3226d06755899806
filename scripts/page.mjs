// Looks at the live page with a headless Chromium, as scripts/check-page and scripts/pictures ask.
//
//   node scripts/page.mjs ADDRESS FOLDER [check|rest AXE]
//
// Draws the page dark and light, 1280 and 360 pixels wide, into FOLDER. With `check` it fails where the page
// writes to the console or asks for anything that fails, is wider than the window, has a finding of axe-core
// (the file AXE, axe.min.js) that is serious, or is painted first after 100 ms (the fastest of some loads); with
// `rest`, where nothing happens, also where it shows other figures than /api/stats. Chromium is spoken to over two pipes, so nothing else is needed.
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const [address, folder, what, axeFile] = process.argv.slice(2);
const checks = what === "check" || what === "rest";
const LOADS = 7;
const MOST_MS = 100;
const sleep = ms => new Promise(done => setTimeout(done, ms));
const failures = [];
const fail = text => { failures.push(text); console.error("FAILED: " + text); };

const profile = mkdtempSync(join(tmpdir(), "terrace-page-"));
const chromium = spawn(process.env.CHROMIUM || "chromium", ["--headless", "--no-sandbox", "--disable-gpu",
  "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update",
  "--disable-sync", "--hide-scrollbars", "--user-data-dir=" + profile, "--remote-debugging-pipe", "about:blank"],
  { stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"] });
const [to, from] = [chromium.stdio[3], chromium.stdio[4]];
const waiting = new Map();
const heard = [];
let last = 0, text = "";
from.setEncoding("utf8");
from.on("data", data => {
  text += data;
  for (let end; (end = text.indexOf("\0")) >= 0; text = text.slice(end + 1)) {
    const message = JSON.parse(text.slice(0, end));
    if (message.id) {
      const [done, failed] = waiting.get(message.id);
      waiting.delete(message.id);
      message.error ? failed(new Error(message.error.message)) : done(message.result);
    } else {
      heard.push(message);
    }
  }
});
const call = (method, params = {}, sessionId) => new Promise((done, failed) => {
  waiting.set(++last, [done, failed]);
  to.write(JSON.stringify({ id: last, method, params, sessionId }) + "\0");
});

const { targetId } = await call("Target.createTarget", { url: "about:blank" });
const { sessionId } = await call("Target.attachToTarget", { targetId, flatten: true });
const ask = (method, params) => call(method, params, sessionId);
const run = async (expression) => {
  const answer = await ask("Runtime.evaluate", { expression, awaitPromise: true, returnByValue: true });
  if (answer.exceptionDetails) throw new Error(JSON.stringify(answer.exceptionDetails));
  return answer.result.value;
};
await ask("Page.bringToFront");
for (const domain of ["Page", "Runtime", "Log", "Network"]) await ask(domain + ".enable");

// Loads the page, and waits for so many frames.
const load = async (width, height, colours, frames) => {
  await ask("Emulation.setDeviceMetricsOverride", { width, height, deviceScaleFactor: 1, mobile: width < 500 });
  await ask("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value: colours }] });
  await ask("Page.navigate", { url: address });
  for (let tries = 0; tries < 600; tries++) {
    await sleep(50);
    if (await run("+(document.body && document.body.dataset.frames || 0)").catch(() => 0) >= frames) return;
  }
  throw new Error("no frames came to the page at " + address);
};

const look = async () => {
  for (const [width, height] of [[1280, 820], [360, 1300]]) {
    for (const colours of ["dark", "light"]) {
      const name = `${colours} at ${width}`;
      // Some frames, so that there is a course to be seen.
      await load(width, height, colours, 6);
      const shot = await ask("Page.captureScreenshot", { format: "png" });
      const file = join(folder, `page-${colours}${width < 500 ? "-narrow" : ""}.png`);
      writeFileSync(file, Buffer.from(shot.data, "base64"));
      if (!checks) continue;
      const wide = await run("document.documentElement.scrollWidth");
      if (wide > width) fail(`${name}: the page is ${wide} pixels wide`);
      await run(readFileSync(axeFile, "utf8") + ";0");
      // The page changes twice a second, and what was found must still be there when axe-core says where.
      const found = await run("axe.run(document).then(r => r.violations.map(v => "
        + "[v.impact, v.id, v.nodes.map(n => n.target.join(' ') + ': ' + n.failureSummary)]))");
      const serious = found.filter(([impact]) => impact === "serious" || impact === "critical");
      serious.forEach(each => fail(`${name}: axe-core: ${JSON.stringify(each)}`));
      console.log(`${name}: drawn, ${wide} wide; axe-core: ${serious.length} serious findings, `
        + `${found.length - serious.length} others ${found.map(v => v[1]).join(" ")}`);
    }
  }
};

const figures = async () => {
  // Of one moment if nothing happens; otherwise only the limits stand still.
  await load(1280, 820, "light", 3);
  const shown = await run("({limit: $('limit').textContent, name: $('name').textContent, "
    + "rows: [...$('rows').children].map(tr => [...tr.children].map(td => td.textContent)), "
    + "legend: [...$('legend').children].map(li => li.lastChild.textContent), size: 0})");
  const stats = await run("fetch('api/stats' + location.search).then(r => r.json())");
  const told = await run(`[${[stats.memory.limit]}].map(size)[0]`);
  if (shown.limit !== told) fail(`the page shows a limit of ${shown.limit}, and /api/stats has ${told}`);
  const each = stats.structures.flatMap(s => [s, ...(s.by_index || [])]);
  if (each.length !== shown.rows.length) fail(`${shown.rows.length} rows for ${each.length} structures`);
  for (const [i, one] of each.entries()) {
    const cells = await run(`[${one.tiers === "two" || one.tiers === 2 ? one.hot_records : "undefined"}, `
      + `${one.cold_records}].map(short)`);
    const row = shown.rows[i] || [];
    const name = row[0] || "";
    if (!name.endsWith(one.name)) fail(`row ${i} is ${name} and not ${one.name}`);
    if (row[3] !== cells[0] || row[4] !== cells[1]) {
      fail(`${one.name}: the page shows ${row[3]} hot and ${row[4]} cold, /api/stats has ${cells}`);
    }
  }
  const parts = stats.memory;
  const sum = Object.keys(parts).filter(k => k !== "limit").reduce((all, k) => all + parts[k], 0);
  if (sum !== parts.limit) fail(`the memory adds up to ${sum} of ${parts.limit}`);
  console.log(`figures: ${each.length} rows, limit ${shown.limit}: those of /api/stats`);
};

const paint = async () => {
  const times = [];
  for (let n = 0; n < LOADS; n++) {
    await load(1280, 820, "light", 1);
    // It is told of only when it was to be seen.
    const first = await run("new Promise(done => { const tell = list => list.getEntries().forEach(e => "
      + "e.name === 'first-contentful-paint' && done(e.startTime)); setTimeout(() => done(null), 5000); "
      + "new PerformanceObserver(tell).observe({ type: 'paint', buffered: true }); })");
    if (first === null) { fail("no first paint was recorded"); return; }
    times.push(first);
  }
  times.sort((a, b) => a - b);
  const middle = times[LOADS >> 1];
  console.log(`first paint: median ${middle.toFixed(0)} ms of ${LOADS} loads, `
    + `${times[0].toFixed(0)} to ${times[LOADS - 1].toFixed(0)}`);
  // Others may use the machine meanwhile, so the fastest one says what the page needs.
  if (!(times[0] < MOST_MS)) fail(`the first paint came after ${times[0].toFixed(0)} ms`);
};

const silence = () => {
  for (const { method, params } of heard) {
    const bad = method === "Runtime.consoleAPICalled" || method === "Runtime.exceptionThrown"
      || method === "Log.entryAdded"
      // Going to another page ends the stream of events.
      || (method === "Network.loadingFailed" && !params.canceled && params.type !== "EventSource");
    if (bad) fail(`${method}: ${JSON.stringify(params)}`);
    const url = method === "Network.requestWillBeSent" && params.request.url;
    if (url && !url.startsWith(address) && !/^(data|about|blob):/.test(url)) fail("it asks for " + url);
  }
  console.log(`console: ${failures.length ? "see above" : "nothing"}`);
};

// The history that is not answered is asked for again.
const asksAgain = async () => {
  await ask("Network.setBlockedURLs", { urls: ["*/api/history*"] });
  await load(1280, 820, "light", 3);
  const before = await run("points.length");
  await ask("Network.setBlockedURLs", { urls: [] });
  for (let tries = 0; tries < 200 && !await run("points.length > 1 && !missing"); tries++) await sleep(100);
  const after = await run("[points.length, missing]");
  if (before > 1 || after[0] < 2 || after[1]) fail(`the history is not asked for again: ${before}, then ${after}`);
  else console.log(`history: ${before} points while it is not answered, ${after[0]} afterwards`);
};

try {
  await look();
  if (what === "rest") await figures();
  if (checks) { await paint(); silence(); await asksAgain(); }
} catch (e) {
  fail(e.stack);
} finally {
  chromium.kill();
  await new Promise(done => chromium.once("exit", done));
  rmSync(profile, { recursive: true, force: true, maxRetries: 5 });
}
process.exit(failures.length ? 1 : 0);
