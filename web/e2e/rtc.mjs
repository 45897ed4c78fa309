/**
 * Browser test of WebRTC: `MILLSTREAM_URL=http://127.0.0.1:8080/ npm run e2e:rtc`.
 *
 * Chromium with a made-up camera and microphone publishes by WHIP from the console and plays by WHEP. Needs a
 * running server with the demo channel, or `npm run mock -- CLIP --rtc`. RTC_ONLY=TEXT runs only the checks
 * whose names contain TEXT. Exits 1 and names the checks that failed.
 */
import { FAKE_DEVICES, launch, within } from './browser.mjs';
import { RTC_CHECKS } from './rtc-checks.mjs';

const CHECK_MS = 180_000;

const url = process.env.MILLSTREAM_URL?.replace(/\/*$/, '/');
if (!url) {
  console.error('MILLSTREAM_URL is not set: start `millstream demo` and name its address, e.g. http://127.0.0.1:8080/');
  process.exit(2);
}

async function api(path) {
  const response = await fetch(`${url}api/v1${path}`, { signal: AbortSignal.timeout(10_000) });
  if (!response.ok) throw new Error(`GET /api/v1${path} answered ${response.status}`);
  return response.json();
}

const browser = await launch(FAKE_DEVICES);
const failed = [];
let ran = 0;
try {
  for (const [name, check] of RTC_CHECKS) {
    if (process.env.RTC_ONLY && !name.includes(process.env.RTC_ONLY)) continue;
    ran += 1;
    const contexts = [];
    try {
      const seen = await within(check({ browser, url, api, contexts }), CHECK_MS);
      console.log(`ok    ${name}${seen ? ` (${seen})` : ''}`);
    } catch (error) {
      failed.push(name);
      console.error(`FAIL  ${name}: ${error.message}`);
    } finally {
      for (const context of contexts) await context.close();
    }
  }
} finally {
  await browser.close();
}
console.log(failed.length === 0 ? `${ran} checks passed` : `failed: ${failed.join('; ')}`);
process.exit(failed.length === 0 && ran > 0 ? 0 : 1);
