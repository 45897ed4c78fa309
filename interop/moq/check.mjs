/**
 * Chromium with the player and the publisher of moq.dev: `node interop/moq/check.mjs BUNDLE SERVER_URL`.
 *
 * SERVER_URL is that of HTTP, whose port number is that of MoQ, too. First <moq-watch> plays `live/film`,
 * which somebody publishes; then <moq-publish> publishes a made-up camera as `live/camera`, and
 * <moq-watch> plays that, and ffprobe looks at its MPEG-TS. Prints what was seen, a JSON object per line;
 * the exit status is 1 if picture or sound does not come within half a minute.
 */
import { execFile } from 'node:child_process';
import { createServer } from 'node:http';
import { readFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { promisify } from 'node:util';

import { FAKE_DEVICES } from '../../web/e2e/browser.mjs';
import { chromium } from '../../web/node_modules/playwright-core/index.mjs';

const [bundle, url] = process.argv.slice(2);
const WITHIN_MS = 30_000;

const html = `<!doctype html><meta charset="utf-8"><script type="module" src="/page.js"></script>
<moq-watch id="watch" url="${url}/live" name="film"><canvas></canvas></moq-watch>`;
const site = createServer(async (request, response) => {
  const isScript = request.url.endsWith('.js');
  response.setHeader('content-type', isScript ? 'text/javascript' : 'text/html');
  response.end(isScript ? await readFile(join(dirname(bundle), basename(request.url))) : html);
});
await new Promise((resolve) => site.listen(0, '127.0.0.1', resolve));

// Unlike the other checks with QUIC, which WebTransport is.
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
  args: [
    '--headless=new',
    '--no-sandbox',
    '--disable-gpu',
    '--no-first-run',
    '--disable-background-networking',
    '--disable-component-update',
    '--disable-sync',
    '--autoplay-policy=no-user-gesture-required',
    ...FAKE_DEVICES,
  ],
});
let failed = false;
try {
  const page = await (await browser.newContext()).newPage();
  page.on('console', (message) => {
    if (process.env.VERBOSE) console.error(message.type(), message.text());
  });
  await page.goto(`http://127.0.0.1:${site.address().port}/`);
  await see(page, 'film');
  await page.evaluate((url) => {
    const publish = document.createElement('moq-publish');
    const attributes = { url: `${url}/live`, name: 'camera', source: 'camera' };
    for (const [name, value] of Object.entries(attributes)) publish.setAttribute(name, value);
    publish.append(document.createElement('video'));
    document.body.append(publish);
    document.getElementById('watch').setAttribute('name', 'camera');
  }, url);
  await see(page, 'camera');
  // And at another door, which ffprobe of Debian reads Opus from.
  const show = ['-v', 'error', '-show_entries', 'stream=codec_name,width,height', '-of', 'json'];
  const probe = [...show, `${url}/live/camera.ts`];
  const { stdout } = await promisify(execFile)('ffprobe', probe, { timeout: WITHIN_MS });
  const { streams } = JSON.parse(stdout);
  const codecs = streams.map((stream) => stream.codec_name).sort();
  if (codecs.join() !== 'h264,opus') throw new Error(`not what was published, by MPEG-TS: ${stdout}`);
  console.log(JSON.stringify({ event: 'probed', codecs }));
} catch (error) {
  console.error(error.message);
  failed = true;
} finally {
  await browser.close();
  site.close();
}
process.exit(failed ? 1 : 0);

/** Waits until the player has decoded pictures of a stream, and has its sound, and says which it has. */
async function see(page, name) {
  const begun = Date.now();
  let seen;
  while (Date.now() - begun < WITHIN_MS) {
    seen = await page.evaluate(() => {
      const watch = document.getElementById('watch');
      const canvas = watch.querySelector('canvas');
      const [width, height] = [canvas.width, canvas.height];
      const pixels = width > 0 ? canvas.getContext('2d')?.getImageData(0, 0, width, height).data : [];
      const colours = new Set();
      for (let at = 0; at < (pixels?.length ?? 0); at += 4 * 997) {
        colours.add(pixels.slice(at, at + 3).join());
      }
      const catalog = watch.broadcast?.out.catalog.peek();
      return {
        name: watch.getAttribute('name'),
        status: watch.broadcast?.out.status.peek(),
        frames: watch.video?.out?.stats?.peek()?.frameCount ?? 0,
        sound: watch.audio?.out?.stats?.peek()?.bytesReceived ?? 0,
        width: canvas.width,
        height: canvas.height,
        colours: colours.size,
        video: Object.values(catalog?.video?.renditions ?? {}).map((entry) => entry.codec),
        audio: Object.values(catalog?.audio?.renditions ?? {}).map((entry) => entry.codec),
      };
    });
    if (seen.name === name && seen.frames > 25 && seen.colours > 3 && seen.sound > 0) {
      console.log(JSON.stringify({ event: 'seen', ...seen }));
      return;
    }
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
  throw new Error(`${name} was not seen: ${JSON.stringify(seen)}`);
}
