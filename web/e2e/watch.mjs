/**
 * Chromium on the console's page for viewers: `node e2e/watch.mjs URL --transport rtc|hls|http|ws [--seconds N]`.
 *
 * Plays by this transport for N seconds and counts what was shown: pictures, by how much their times went on,
 * the longest gap between two of them, stalls, and reconnects as the page counts them. Stalls are told apart:
 * `starved` are those of a page that got no processor for a while. Prints what all peers print
 * (interop/README.md).
 */
import { expectPlayback, launch, openPage } from './browser.mjs';

const [url, ...rest] = process.argv.slice(2);
const option = (name, otherwise) => (rest.includes(`--${name}`) ? rest[rest.indexOf(`--${name}`) + 1] : otherwise);
const say = (event, facts = {}) => process.stdout.write(`${JSON.stringify({ event, ...facts })}\n`);

/** Runs in the page: watches the video element until its pictures have gone on by so many seconds. */
function watch({ seconds, patienceMs }) {
  const video = document.querySelector('[data-testid=player] video');
  const seen = { frames: 0, media_seconds: 0, longest_gap_ms: 0, longest_step_ms: 0, stalls: 0, starved: 0 };
  const quality = video.getVideoPlaybackQuality();
  let last = null;
  // A timer of the page's own shows when it stood still; a buffer runs dry a while later.
  let [beat, stoodStill] = [performance.now(), -Infinity];
  const check = () => {
    const now = performance.now();
    if (now - beat > 250) stoodStill = now;
    beat = now;
  };
  const heart = setInterval(check, 50);
  video.addEventListener('waiting', () => {
    check();
    seen[performance.now() - stoodStill < 3_000 ? 'starved' : 'stalls'] += 1;
  });
  return new Promise((resolve) => {
    const finish = () => {
      clearInterval(heart);
      const { totalVideoFrames, droppedVideoFrames } = video.getVideoPlaybackQuality();
      // Of a picture that was replaced before it could be shown the page hears nothing.
      seen.decoded = totalVideoFrames - quality.totalVideoFrames;
      seen.dropped = droppedVideoFrames - quality.droppedVideoFrames;
      for (const name of ['media_seconds', 'longest_gap_ms', 'longest_step_ms']) seen[name] = Math.round(seen[name] * 1000) / 1000;
      resolve(seen);
    };
    const timer = setTimeout(finish, seconds * 1000 + patienceMs);
    const take = (now, { mediaTime }) => {
      seen.frames += 1;
      if (last !== null) {
        seen.longest_gap_ms = Math.max(seen.longest_gap_ms, now - last.now);
        // By WebRTC the element's clock begins anew when it has to; forward is what counts.
        seen.longest_step_ms = Math.max(seen.longest_step_ms, 1000 * (mediaTime - last.mediaTime));
        seen.media_seconds += Math.max(0, mediaTime - last.mediaTime);
      }
      last = { now, mediaTime };
      if (seen.media_seconds < seconds) return video.requestVideoFrameCallback(take);
      clearTimeout(timer);
      finish();
    };
    video.requestVideoFrameCallback(take);
  });
}

const browser = await launch();
try {
  const [seconds, transport] = [Number(option('seconds', '10')), option('transport', 'rtc')];
  const { page, faults } = await openPage(browser, url);
  await page.goto(url);
  const button = page.getByTestId(`transport-${transport}`);
  await button.click();
  const before = await expectPlayback(page);
  say('connected', { width: before.width, height: before.height });
  const leftOut = async () => Number((await page.locator('[data-stat=dropped]').innerText()).replaceAll(',', '')) || 0;
  const leftOutBefore = await leftOut();
  const seen = await page.evaluate(watch, { seconds, patienceMs: 30_000 });
  const shown = await page.locator('[data-testid^=transport-][aria-pressed=true]').getAttribute('data-testid');
  // Of WebRTC's pictures, a busy browser decodes some only; then the page counts those as well.
  seen.left_out = transport === 'rtc' ? (await leftOut()) - leftOutBefore : 0;
  // By HLS, as the page measures it; a screenshot shows where.
  if (transport === 'hls') seen.behind_s = Number.parseFloat(await page.locator('[data-stat=delay]').innerText());
  if (process.env.SCREENSHOTS) await page.screenshot({ path: `${process.env.SCREENSHOTS}/watch-${transport}.png` });
  const reconnects = Number(await page.locator('[data-stat=reconnects]').innerText());
  if (faults.length > 0) throw new Error(faults.join('; '));
  say('done', { transport: shown.replace('transport-', ''), ...seen, reconnects, colours: before.colours });
} catch (error) {
  say('failed', { reason: error.message });
  process.exitCode = 1;
} finally {
  await browser.close();
}
