/**
 * hls.js or dash.js in Chromium: `node e2e/segments.mjs URL --player hls|dash [--seconds N]`.
 *
 * Plays for N seconds by Media Source Extensions and measures how far behind live the picture is. hls.js: media time
 * from the end of the playlist, which is a part's last picture, and the time since that was listed. dash.js: by the
 * time of day that the MPD gives the media, as that library does. Prints what all peers print (interop/README.md).
 */
import { fileURLToPath } from 'node:url';

import { launch, until } from './browser.mjs';

const [url, ...rest] = process.argv.slice(2);
const option = (name, otherwise) => (rest.includes(`--${name}`) ? rest[rest.indexOf(`--${name}`) + 1] : otherwise);
const say = (event, facts = {}) => process.stdout.write(`${JSON.stringify({ event, ...facts })}\n`);

const script = (path) => fileURLToPath(new URL(`../node_modules/${path}`, import.meta.url));
const SCRIPTS = { hls: script('hls.js/dist/hls.min.js'), dash: script('dashjs/dist/modern/umd/dash.all.min.js') };
/** A page of the server's own origin, which the server knows nothing of: others may not ask loopback addresses. */
const PAGE = new URL('/segments-player.html', url).href;

/** Runs in the page: begins to play, and leaves `behindMs` and `faults` to be asked for. */
function play({ player, url }) {
  const video = document.querySelector('video');
  const faults = [];
  window.seen = { faults, stalls: 0, behindMs: () => NaN };
  if (player === 'hls') {
    const hls = new Hls({ lowLatencyMode: true });
    hls.on(Hls.Events.ERROR, (_, data) => {
      if (data.details === 'bufferStalledError') window.seen.stalls += 1;
      else faults.push(`${data.details}${data.fatal ? ', fatal' : ''}: ${data.reason ?? data.error?.message ?? data.response?.code ?? ''}`);
    });
    hls.loadSource(url);
    hls.attachMedia(video);
    // As docs/hls.md has it.
    const closeUp = () => (video.currentTime = Math.max(video.currentTime, hls.liveSyncPosition));
    video.addEventListener('playing', closeUp, { once: true });
    window.seen.behindMs = () => hls.latency * 1000;
    window.seen.target = () => hls.targetLatency * 1000;
  } else {
    const dash = dashjs.MediaPlayer().create();
    dash.updateSettings({ streaming: { delay: { applyServiceDescription: true } } });
    dash.on('error', (event) => faults.push(JSON.stringify(event.error?.message ?? event.error)));
    dash.on('playbackStalled', () => (window.seen.stalls += 1));
    dash.initialize(video, url, true);
    window.seen.behindMs = () => dash.getCurrentLiveLatency() * 1000;
    window.seen.target = () => dash.getTargetLiveDelay() * 1000;
  }
}

/** Runs in the page: how the video does for so many seconds. */
async function watch({ seconds }) {
  const video = document.querySelector('video');
  const quality = video.getVideoPlaybackQuality();
  const [from, stalls, began] = [video.currentTime, window.seen.stalls, performance.now()];
  const behind = [];
  while (performance.now() - began < seconds * 1000) {
    await new Promise((resolve) => setTimeout(resolve, 50));
    behind.push(window.seen.behindMs());
  }
  behind.sort((a, b) => a - b);
  const at = (share) => Math.round(behind[Math.floor(share * (behind.length - 1))]);
  const now = video.getVideoPlaybackQuality();
  return {
    media_seconds: Math.round((video.currentTime - from) * 100) / 100,
    decoded: now.totalVideoFrames - quality.totalVideoFrames,
    dropped: now.droppedVideoFrames - quality.droppedVideoFrames,
    behind_ms_p50: at(0.5),
    behind_ms_p95: at(0.95),
    target_ms: Math.round(window.seen.target()),
    stalls: window.seen.stalls - stalls,
  };
}

const browser = await launch();
try {
  const context = await browser.newContext();
  const page = await context.newPage();
  const failures = [];
  page.on('pageerror', (error) => failures.push(error.message));
  await context.route(PAGE, (route) => route.fulfill({ contentType: 'text/html', body: '<video muted autoplay></video>' }));
  await page.goto(PAGE);
  const [player, seconds] = [option('player', 'hls'), Number(option('seconds', '6'))];
  await page.addScriptTag({ path: SCRIPTS[player] });
  const began = Date.now();
  await page.evaluate(play, { player, url });
  const state = () =>
    page.evaluate(() => {
      const video = document.querySelector('video');
      return { frames: video.getVideoPlaybackQuality().totalVideoFrames, time: video.currentTime, width: video.videoWidth, faults: window.seen.faults };
    });
  const first = await until('pictures are shown', async () => {
    const seen = await state();
    return seen.frames > 5 && seen.width > 0 ? seen : null;
  }).catch(async (error) => {
    throw new Error(`${error.message}; ${JSON.stringify(await state())} ${failures.join('; ')}`);
  });
  say('connected', { width: first.width, first_picture_ms: Date.now() - began });
  // Players find their distance within the first seconds.
  await page.waitForTimeout(2_000);
  const seen = await page.evaluate(watch, { seconds });
  const { faults } = await state();
  if (failures.length > 0) throw new Error(failures.join('; '));
  say('done', { player, ...seen, faults });
} catch (error) {
  say('failed', { reason: error.message });
  process.exitCode = 1;
} finally {
  await browser.close();
}
