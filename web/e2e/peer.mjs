/**
 * Chromium as a WebRTC peer of the tests with other programs: `node e2e/peer.mjs publish|play URL... [--codec
 * C] [--seconds N]`.
 *
 * Takes what all peers take and prints what all print (interop/README.md): flash and beep are published, or
 * found in what is played. Playing ends after N seconds of picture and audio; publishing with standard input.
 * Several streams are played at the same time, each in a page of its own; there is a `done` for each, in
 * their order. The pages are the server's own (nothing of the console): what is measured is Chromium and the
 * server.
 */
import { launch, openPage } from './browser.mjs';
import { measure, publish } from './flash-and-beep.mjs';

const [action, ...rest] = process.argv.slice(2);
const urls = rest.filter((word) => word.startsWith('http'));
const option = (name, otherwise) => (rest.includes(`--${name}`) ? rest[rest.indexOf(`--${name}`) + 1] : otherwise);
const say = (event, facts = {}) => process.stdout.write(`${JSON.stringify({ event, ...facts })}\n`);

// Loopback may use everything, as what comes over HTTPS; so may the server, if it is in a namespace of its own.
const browser = await launch([`--unsafely-treat-insecure-origin-as-secure=${urls.map((url) => new URL(url).origin).join()}`]);

async function blankPage(url) {
  const { page } = await openPage(browser, url, { bypassCSP: true });
  // Any page of the server's.
  await page.goto(new URL('/healthz', url).href);
  return page;
}

try {
  const how = { codec: option('codec', ''), seconds: Number(option('seconds', '10')) };
  const pages = await Promise.all(urls.map(blankPage));
  if (action === 'publish') {
    const [page] = pages;
    say('connected', await page.evaluate(publish, { ...how, url: urls[0] }));
    await new Promise((resolve) => process.stdin.on('end', resolve).resume());
    say('done', await page.evaluate(() => window.finish()));
  } else if (action === 'play') {
    const meters = pages.map((page, index) => page.evaluate(measure, { ...how, url: urls[index] }));
    await Promise.race([Promise.all(pages.map((page) => page.waitForFunction(() => window.isConnected === true))), Promise.all(meters)]);
    say('connected');
    for (const facts of await Promise.all(meters)) say('done', facts);
  } else {
    throw new Error('usage: peer.mjs publish|play URL... [--codec C] [--seconds N]');
  }
} catch (error) {
  say('failed', { reason: error.message });
  process.exitCode = 1;
} finally {
  await browser.close();
}
