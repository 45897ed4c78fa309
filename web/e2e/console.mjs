/**
 * Browser test of the console: `MILLSTREAM_URL=http://127.0.0.1:8080/ npm run e2e`.
 *
 * Needs a running server with the demo channel and Chromium (CHROMIUM names another binary). MILLSTREAM_FILM
 * is an MP4 file below its `sources.files_root`; without it no channel is played. With SCREENSHOTS=DIR it
 * also writes pictures of every page there. Exits 1 and names the checks that failed.
 */
import { launch, openPage, within } from './browser.mjs';
import { CHECKS } from './checks.mjs';
import { takeScreenshots } from './screenshots.mjs';

/** Longest a check may take altogether. */
const CHECK_MS = 120_000;

const url = process.env.MILLSTREAM_URL?.replace(/\/*$/, '/');
if (!url) {
  console.error('MILLSTREAM_URL is not set: start `millstream demo` and name its address, e.g. http://127.0.0.1:8080/');
  process.exit(2);
}

/** JSON of the management API, asked from here and not through the page. */
async function api(path) {
  const response = await fetch(`${url}api/v1${path}`, { signal: AbortSignal.timeout(10_000) });
  if (!response.ok) throw new Error(`GET /api/v1${path} answered ${response.status}`);
  return response.json();
}

const browser = await launch();
const failed = [];
try {
  const agent = `millstream-e2e/${process.pid}`;
  const userAgent = `Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/${browser.version()} Safari/537.36 ${agent}`;
  const { context, page, faults } = await openPage(browser, url, { userAgent });
  const film = process.env.MILLSTREAM_FILM ?? null;
  for (const [name, check] of CHECKS) {
    if (film === null && name.startsWith('a channel')) {
      console.log(`skip  ${name}: MILLSTREAM_FILM is not set`);
      continue;
    }
    try {
      const seen = await within(check({ page, url, api, agent, film }), CHECK_MS);
      console.log(`ok    ${name}${seen?.frames ? ` (${seen.width}x${seen.height}, ${seen.frames} frames, ${seen.colours} colours)` : ''}`);
    } catch (error) {
      failed.push(name);
      console.error(`FAIL  ${name}: ${error.message}`);
    }
  }
  if (faults.length > 0) {
    failed.push('a page without faults');
    console.error(`FAIL  a page without faults:\n  ${[...new Set(faults)].join('\n  ')}`);
  }
  await context.close();
  if (process.env.SCREENSHOTS) await takeScreenshots(browser, url, (await api('/server')).demo_stream, process.env.SCREENSHOTS);
} catch (error) {
  failed.push('the test itself');
  console.error(`FAIL  the test itself: ${error.message}`);
} finally {
  await browser.close();
}
console.log(failed.length === 0 ? `${CHECKS.length} checks passed` : `failed: ${failed.join('; ')}`);
process.exit(failed.length === 0 ? 0 : 1);
