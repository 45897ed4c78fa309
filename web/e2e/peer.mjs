/**
 * Chromium as a WebRTC peer of the tests with other programs: `node e2e/peer.mjs publish|play URL [--codec C] [--seconds N]`.
 *
 * Takes what all peers take and prints what all print (interop/README.md): flash and beep are published, or found in what is
 * played. Playing ends after N seconds of picture and sound; publishing with standard input. The page is the server's own
 * (nothing of the console): what is measured is Chromium and the server.
 */
import { launch, openPage } from './browser.mjs';
import { measure, publish } from './flash-and-beep.mjs';

const [action, url, ...options] = process.argv.slice(2);
const option = (name, otherwise) => (options.includes(`--${name}`) ? options[options.indexOf(`--${name}`) + 1] : otherwise);
const say = (event, facts = {}) => process.stdout.write(`${JSON.stringify({ event, ...facts })}\n`);

const browser = await launch();
try {
  const { page } = await openPage(browser, url, { bypassCSP: true });
  // Any page of the server's: addresses of loopback may use everything, as those of HTTPS.
  await page.goto(new URL('/healthz', url).href);
  const asked = { url, codec: option('codec', ''), seconds: Number(option('seconds', '10')) };
  if (action === 'publish') {
    say('connected', await page.evaluate(publish, asked));
    await new Promise((resolve) => process.stdin.on('end', resolve).resume());
    say('done', await page.evaluate(() => window.finish()));
  } else if (action === 'play') {
    const meter = page.evaluate(measure, asked);
    await page.waitForFunction(() => window.isConnected === true);
    say('connected');
    say('done', await meter);
  } else {
    throw new Error('usage: peer.mjs publish|play URL [--codec C] [--seconds N]');
  }
} catch (error) {
  say('failed', { reason: error.message });
  process.exitCode = 1;
} finally {
  await browser.close();
}
