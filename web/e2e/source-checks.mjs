/**
 * What the console must show of channels, pulls and pushes, and do about them, with a stand-in server that
 * has some of each, in trouble and out of it. What a real server does is seen in checks.mjs.
 */
import { openPage, until } from './browser.mjs';

async function open({ browser, contexts, startServer }, flags = [], options = {}) {
  const { url } = await startServer({ sessions: 10, flags });
  const opened = await openPage(browser, url, options);
  contexts.push(opened.context);
  await opened.page.goto(`${url}#/sources`);
  await opened.page.getByRole('heading', { name: 'Pulls' }).waitFor();
  return { url, ...opened };
}

const row = (page, kind, key) => page.locator(`tr[data-${kind}="${key}"]`);
const says = (locator, text) => until(`it says "${text}"`, async () => (await locator.innerText()).replaceAll('\u00a0', ' ').includes(text));
const value = async (locator) => Number(await locator.getAttribute('aria-valuenow'));

async function showsWhatTheyDo(test) {
  const { page, url, faults } = await open(test);
  const evening = row(page, 'channel', 'tv/evening');
  await says(evening, 'Playing');
  const bar = evening.getByRole('progressbar');
  const before = await value(bar);
  await until('the position moves', async () => (await value(bar)) !== before);
  await says(row(page, 'channel', 'tv/night'), 'retrying in');
  await says(row(page, 'channel', 'tv/night'), 'no moov box');
  await says(row(page, 'channel', 'tv/premiere'), 'starts in 4 h 59 min');
  await says(row(page, 'pull', 'sport/court-3'), 'connection refused');
  await says(row(page, 'pull', 'sport/court-4'), '1 reconnect');
  await says(row(page, 'pull', 'cam/*'), 'for any name that fits');
  // The stream is pushed twice: by a pattern, and by SRT.
  const byPattern = row(page, 'push', 'sport/court-4').filter({ hasText: 'of sport/*' });
  await says(byPattern, '412 frames left out');
  await says(row(page, 'push', 'sport/court-4').filter({ hasText: 'srt://' }), 'round trip');
  await says(row(page, 'push', 'sport/court-7'), 'BadName');
  await says(row(page, 'push', 'live/show'), 'no stream that matches');
  await says(evening, '4.3 s behind schedule');
  await evening.getByRole('link').click();
  await page.locator('.playlist .is-here').waitFor();
  if ((await page.locator('.playlist li').count()) !== 4) throw new Error('the playlist lacks items');
  await page.goto(`${url}#/stream/tv/night`);
  await page.getByText('Not on air').waitFor();
  if (faults.length > 0) throw new Error(faults.join('\n  '));
}

async function skipsAndRemoves(test) {
  const { page } = await open(test);
  const evening = row(page, 'channel', 'tv/evening');
  const item = evening.getByTestId('item');
  // Items are played for nine seconds at least: what comes within two is of the button.
  await until('an item has just begun', async () => /^0:0[01]/.test(await evening.locator('.cell-position').innerText()));
  const before = await item.innerText();
  await evening.getByRole('button', { name: /^Skip/ }).click();
  await until('another item is played', async () => (await item.innerText()) !== before, 2_000);
  await evening.getByRole('button', { name: /^Remove/ }).click();
  const dialog = page.getByRole('dialog');
  await says(dialog, 'will be back after a restart');
  await dialog.getByRole('button', { name: 'Cancel' }).click();
  await row(page, 'pull', 'sport/court-3').getByRole('button', { name: /^Remove/ }).click();
  await dialog.getByRole('button', { name: 'Remove' }).click();
  await row(page, 'pull', 'sport/court-3').waitFor({ state: 'detached' });
  await row(page, 'push', 'live/show').getByRole('button', { name: /^Remove/ }).click();
  await says(dialog, 'no longer sent on');
  await dialog.getByRole('button', { name: 'Remove' }).click();
  await row(page, 'push', 'live/show').waitFor({ state: 'detached' });
  await evening.waitFor();
}

/** The form keeps what was entered when the server refuses it. */
async function addsAndIsRefused(test) {
  const { page } = await open(test, ['--empty']);
  await page.getByText('No channel yet').waitFor();
  await page.getByRole('button', { name: 'Add channel' }).click();
  const dialog = page.getByRole('dialog');
  const add = dialog.getByRole('button', { name: 'Add channel' });
  await says(dialog, 'lost when the server restarts');
  await dialog.getByLabel('Stream').fill('mill');
  await dialog.getByLabel('Playlist').fill('file:///etc/passwd');
  await says(dialog, 'file: is not possible');
  if (await add.isEnabled()) throw new Error('a file: address can be sent');
  await dialog.getByLabel('Playlist').fill('https://example.org/a.mp4\n\nhttp://192.168.0.1/b.mp4');
  await add.click();
  await says(page.getByTestId('refusal'), 'line 3: the address is private');
  if (!(await dialog.getByLabel('Playlist').inputValue()).includes('a.mp4')) throw new Error('the form has lost its playlist');
  await dialog.getByLabel('Playlist').fill('https://example.org/a.mp4');
  await add.click();
  await dialog.waitFor({ state: 'detached' });
  await says(row(page, 'channel', 'live/mill'), 'a.mp4');
  await page.getByRole('button', { name: 'Add pull' }).click();
  await dialog.getByLabel('Stream').fill('court');
  await dialog.getByLabel('Address').fill('rtmp://user:secret@example.org/live/court');
  await dialog.getByRole('button', { name: 'Add pull' }).click();
  await row(page, 'pull', 'live/court').waitFor();
  await page.getByRole('button', { name: 'Add pull' }).click();
  await dialog.getByLabel('App').fill('cam');
  await dialog.getByLabel('Stream').fill('*');
  await dialog.getByLabel('Address').fill('rtsp://user:secret@example.org/a');
  await says(dialog, 'Needs {stream}');
  await dialog.getByLabel('Address').fill('rtsp://user:secret@example.org/{stream}');
  const addPull = dialog.getByRole('button', { name: 'Add pull' });
  if (await addPull.isEnabled()) throw new Error('a pattern that is always pulled');
  await dialog.getByLabel('Only while somebody plays it').check();
  await dialog.getByRole('button', { name: 'Add pull' }).click();
  await row(page, 'pull', 'cam/*').waitFor();
  await page.getByRole('button', { name: 'Add push' }).click();
  await dialog.getByLabel('Streams').fill('live/*');
  await dialog.getByLabel('Address').fill('rtmp://user:secret@example.org/{app}/{stream}?key=secret');
  await dialog.getByRole('button', { name: 'Add push' }).click();
  await row(page, 'push', 'live/*').waitFor();
  await page.getByRole('button', { name: 'Add push' }).click();
  await dialog.getByLabel('Streams').fill('tv/*');
  await dialog.getByLabel('Address').fill('rtmp://example.org/{app}/{stream}');
  if (await dialog.getByLabel('Token').count() > 0) throw new Error('RTMP takes a token');
  await dialog.getByLabel('Address').fill('whips://example.org/whip/{app}/{stream}');
  await dialog.getByLabel('Token').fill('secret');
  const type = await dialog.getByLabel('Token').getAttribute('type');
  if (type !== 'password') throw new Error('the token can be read');
  const isAdded = (request) => request.method() === 'POST' && request.url().endsWith('/pushes');
  const asked = page.waitForRequest(isAdded);
  await dialog.getByRole('button', { name: 'Add push' }).click();
  if ((await asked).postDataJSON().token !== 'secret') throw new Error('the token is not sent');
  await row(page, 'push', 'tv/*').waitFor();
  if ((await page.content()).includes('secret')) throw new Error('the password is shown');
}

async function fitsOnAPhone(test) {
  const { page } = await open(test, [], { viewport: { width: 390, height: 844 } });
  await row(page, 'channel', 'tv/night').waitFor();
  const width = await page.evaluate(() => document.documentElement.scrollWidth);
  if (width > 390) throw new Error(`the page is ${width} pixels wide`);
  await row(page, 'channel', 'tv/evening').getByRole('button', { name: /^Remove/ }).click();
  await page.getByRole('dialog').waitFor();
}

async function serverWithoutThem(test) {
  const { page, url } = await open(test);
  const nothing = (route) => route.fulfill({ status: 404, contentType: 'application/json', body: '{"error":{"code":"not_found","message":"nothing here"}}' });
  await page.route(/\/api\/v1\/(channels|pulls|pushes)$/, nothing);
  await page.goto('about:blank');
  await page.goto(`${url}#/sources`);
  await page.getByText('This server has no channels.').waitFor();
}

export const SOURCE_CHECKS = [
  ['channels and pulls are listed with what they do', showsWhatTheyDo],
  ['an item is skipped, a pull removed, after a question', skipsAndRemoves],
  ['a channel and a pull are added, refusals stand in the form', addsAndIsRefused],
  ['the sources page fits on a phone', fitsOnAPhone],
  ['a server without channels is no error', serverWithoutThem],
];
