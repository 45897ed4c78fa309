/**
 * hls.js or dash.js in Chromium plays a file on demand and seeks in it: `node e2e/vod.mjs URL --player hls|dash`.
 *
 * Prints what all peers print (interop/README.md): how long the first picture takes, and each seek until the picture
 * there is shown.
 */
import { fileURLToPath } from 'node:url';

import { launch, until } from './browser.mjs';

const [url, ...rest] = process.argv.slice(2);
const player = rest.includes('--player') ? rest[rest.indexOf('--player') + 1] : 'hls';
const say = (event, facts = {}) => process.stdout.write(`${JSON.stringify({ event, ...facts })}\n`);

const script = (path) => fileURLToPath(new URL(`../node_modules/${path}`, import.meta.url));
const SCRIPTS = { hls: script('hls.js/dist/hls.min.js'), dash: script('dashjs/dist/modern/umd/dash.all.min.js') };
/** A page of the server's own origin, which the server knows nothing of: others may not ask loopback addresses. */
const PAGE = new URL('/vod-player.html', url).href;
/** Shares of the file that are sought, far from what is buffered. */
const PLACES = [0.75, 0.1, 0.5, 0.9, 0.3];

/** Runs in the page: begins to play. */
function play({ player, url }) {
  const video = document.querySelector('video');
  window.faults = [];
  if (player === 'hls') {
    const hls = new Hls({ maxBufferLength: 8 });
    hls.on(Hls.Events.ERROR, (_, data) => {
      if (data.fatal || data.details !== 'bufferStalledError') window.faults.push(`${data.details} ${data.reason ?? data.error?.message ?? ''}`);
    });
    hls.loadSource(url);
    hls.attachMedia(video);
  } else {
    const dash = dashjs.MediaPlayer().create();
    dash.updateSettings({ streaming: { buffer: { bufferTimeDefault: 8 } } });
    dash.on('error', (event) => window.faults.push(JSON.stringify(event.error?.message ?? event.error)));
    dash.initialize(video, url, true);
  }
}

/** Runs in the page: milliseconds until the picture at a time is shown. */
function seek(time) {
  const video = document.querySelector('video');
  const began = performance.now();
  return new Promise((resolve) => {
    const shown = () => video.requestVideoFrameCallback((_, frame) => {
      if (Math.abs(frame.mediaTime - time) < 1.5) resolve(Math.round(performance.now() - began));
      else shown();
    });
    shown();
    video.currentTime = time;
  });
}

const browser = await launch();
try {
  const context = await browser.newContext();
  const page = await context.newPage();
  await context.route(PAGE, (route) => route.fulfill({ contentType: 'text/html', body: '<video muted autoplay></video>' }));
  await page.goto(PAGE);
  await page.addScriptTag({ path: SCRIPTS[player] });
  const began = Date.now();
  await page.evaluate(play, { player, url });
  const state = () =>
    page.evaluate(() => {
      const video = document.querySelector('video');
      const frames = video.getVideoPlaybackQuality().totalVideoFrames;
      return { frames, seconds: video.duration, width: video.videoWidth, faults: window.faults };
    });
  const first = await until('pictures are shown', async () => {
    const seen = await state();
    return seen.frames > 5 && seen.width > 0 ? seen : null;
  }).catch(async (error) => {
    throw new Error(`${error.message}; ${JSON.stringify(await state())}`);
  });
  say('connected', { width: first.width, first_picture_ms: Date.now() - began, seconds: first.seconds });
  const seeks = [];
  for (const place of PLACES) seeks.push(await page.evaluate(seek, Math.floor(first.seconds * place)));
  const { faults } = await state();
  say('done', { player, seek_ms: seeks, faults });
} catch (error) {
  say('failed', { reason: error.message });
  process.exitCode = 1;
} finally {
  await browser.close();
}
