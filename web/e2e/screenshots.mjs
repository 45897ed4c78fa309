/**
 * Pictures of every page, on desktop and phone, dark and light, for people to look at.
 */
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { expectPlayback, openPage } from './browser.mjs';

const SIZES = { desktop: { width: 1440, height: 900 }, phone: { width: 390, height: 844 } };

export async function takeScreenshots(browser, url, demo, directory) {
  await mkdir(directory, { recursive: true });
  const pages = {
    overview: '#/',
    stream: `#/stream/${demo}`,
    sessions: '#/sessions',
    sources: '#/sources',
    recordings: '#/recordings',
    workers: '#/workers',
    publish: '#/publish',
    watch: `#/watch/${demo}`,
  };
  for (const [size, viewport] of Object.entries(SIZES)) {
    for (const colorScheme of ['dark', 'light']) {
      const { context, page } = await openPage(browser, url, { viewport, colorScheme });
      for (const [name, hash] of Object.entries(pages)) {
        await page.goto(url + hash);
        if (['overview', 'stream', 'watch'].includes(name)) await expectPlayback(page);
        else await page.locator('.panel').first().waitFor();
        await page.screenshot({ path: join(directory, `${name}-${size}-${colorScheme}.png`) });
      }
      await context.close();
    }
  }
}
