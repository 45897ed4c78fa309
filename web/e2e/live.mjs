/**
 * Browser test of live statistics with 10,000 sessions, of channels and pulls, and of a cluster:
 * `npm run e2e:live`.
 *
 * Starts the stand-in server (dev/mock-server.mjs) by itself, which serves web/dist. Prints what the page's
 * own thread costs while figures come, while sorting and while scrolling. Exits 1 and names the checks that
 * failed. LIVE_ONLY=TEXT runs only the checks whose names contain TEXT; SESSIONS=N takes another number;
 * SCREENSHOTS=DIR keeps pictures.
 */
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { launch, within } from './browser.mjs';
import { CLUSTER_CHECKS } from './cluster-checks.mjs';
import { LIVE_CHECKS } from './live-checks.mjs';
import { SOURCE_CHECKS } from './source-checks.mjs';

/** Longest a check may take altogether. */
const CHECK_MS = 180_000;
const SESSIONS = Number(process.env.SESSIONS ?? 10_000);
const SERVER = fileURLToPath(new URL('../dev/mock-server.mjs', import.meta.url));

/** Stand-ins that run. */
const running = new Set();

/** A stand-in with so many sessions; resolves once it listens. */
async function startServer({ port = 0, sessions = SESSIONS, flags = [] } = {}) {
  const child = spawn(process.execPath, [SERVER, '--port', String(port), '--sessions', String(sessions), ...flags], { stdio: ['ignore', 'pipe', 'inherit'] });
  running.add(child);
  const ended = new Promise((resolve) => child.once('exit', resolve)).then(() => running.delete(child));
  const lines = createInterface({ input: child.stdout });
  const [line] = await Promise.race([
    new Promise((resolve) => lines.once('line', (text) => resolve([text]))),
    ended.then(() => Promise.reject(new Error('the stand-in server has ended'))),
  ]);
  const url = /http:\S+/.exec(line)[0];
  return { url, port: Number(new URL(url).port), stop: () => (child.kill('SIGTERM'), ended) };
}

const browser = await launch();
const failed = [];
let ran = 0;
try {
  for (const [name, check] of [...LIVE_CHECKS, ...SOURCE_CHECKS, ...CLUSTER_CHECKS]) {
    if (process.env.LIVE_ONLY && !name.includes(process.env.LIVE_ONLY)) continue;
    ran += 1;
    const contexts = [];
    try {
      const seen = await within(check({ browser, contexts, startServer, sessions: SESSIONS }), CHECK_MS);
      console.log(`ok    ${name}${seen ? ` (${seen})` : ''}`);
    } catch (error) {
      failed.push(name);
      console.error(`FAIL  ${name}: ${error.message}`);
    } finally {
      for (const context of contexts) await context.close();
      for (const child of running) child.kill('SIGTERM');
    }
  }
} finally {
  await browser.close();
}
console.log(failed.length === 0 ? `${ran} checks passed` : `failed: ${failed.join('; ')}`);
process.exit(failed.length === 0 && ran > 0 ? 0 : 1);
