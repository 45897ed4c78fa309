/**
 * What live statistics must do in a real browser, with ten thousand sessions and a server that comes, goes
 * and refuses.
 *
 * Each check is `(test) => Promise`; `test` has browser, contexts (closed afterwards), startServer and
 * sessions (how many).
 */
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { inkOfCharts, openPage, until } from './browser.mjs';
import { inWords, installMeter } from './frame-meter.mjs';

/** Rows that may be in the page at a time: what fits on a screen, and some above and below. */
const ROWS_MAX = 60;
/** Processor time a second that the page's own thread may take for figures that come in. Measured: 40 ms. */
const BUSY_MS_PER_SECOND = 250;

async function open({ browser, contexts }, url, options = {}) {
  const opened = await openPage(browser, url, options);
  contexts.push(opened.context);
  return opened;
}

const lamp = (page) => page.getByTestId('live');
const isIn = async (page, state) => (await lamp(page).getAttribute('data-state')) === state;
const live = (page) => until('figures come', () => isIn(page, 'live'));
const number = (text) => Number(text.replaceAll(',', ''));
const noFaults = (faults) => {
  if (faults.length > 0) throw new Error([...new Set(faults)].join('\n  '));
};

async function sessionsPage(test, url, options) {
  const opened = await open(test, url, options);
  await opened.page.goto(`${url}#/sessions`);
  await opened.page.locator('.session-row').first().waitFor();
  await live(opened.page);
  return opened;
}

/** A new message has been drawn: the totals' newest figure or time differs. */
async function nextMessage(page) {
  const figures = () => page.locator('.chart-value').allInnerTexts();
  const before = (await figures()).join();
  await until('a new message is shown', async () => (await figures()).join() !== before);
}

async function showsThemAll(test) {
  const server = await test.startServer();
  const { page, faults } = await sessionsPage(test, server.url);
  await until('all sessions are counted', async () => number((await page.getByTestId('session-total').innerText()).split(' ')[0]) === test.sessions);
  const rows = await page.locator('.session-row').count();
  if (rows < 5 || rows > ROWS_MAX) throw new Error(`${rows} rows are made`);
  await nextMessage(page);
  await page.evaluate(() => scrollTo(0, document.body.scrollHeight));
  await until('the last row is shown', async () => (await page.locator(`.session-row[aria-rowindex="${test.sessions + 1}"]`).count()) === 1);
  if ((await page.locator('.session-row').count()) > ROWS_MAX) throw new Error('scrolling leaves rows behind');
  await until('addresses of the last rows are asked for', async () => (await page.locator('.session-row .session-link').last().innerText()).startsWith('192.0.2.'));
  await page.evaluate(() => scrollTo(0, 0));
  await until('charts have lines', async () => {
    const ink = await page.evaluate(inkOfCharts, '.chart-row');
    return ink.length === 3 && ink.every((points) => points > 20);
  });
  noFaults(faults);
}

/** What the page's own thread does while ten thousand sessions are live, idle and in use. */
async function doesNotStutter(test) {
  const server = await test.startServer();
  const { page, context } = await open(test, server.url);
  const measure = await installMeter(page);
  await page.goto(`${server.url}#/sessions`);
  await page.locator('.session-row').first().waitFor();
  await nextMessage(page);
  await page.mouse.move(5, 5);

  const idle = await measure(async () => {
    for (let second = 0; second < 10; second += 1) await nextMessage(page);
  });
  console.log(`      figures come:   ${inWords(idle)}`);
  const sorting = await measure(async () => {
    for (const name of ['Rate', 'Loss', 'Round trip', 'Stream', 'Rate']) {
      await page.getByRole('columnheader', { name }).getByRole('button').click();
      await nextMessage(page);
    }
  });
  console.log(`      sorting:        ${inWords(sorting)}`);
  const scrolling = await measure(() => page.evaluate(scrollThrough, { pixels: 60_000, perFrame: 200 }));
  console.log(`      scrolling:      ${inWords(scrolling)}`);
  await page.evaluate(() => scrollTo(0, 0));
  await page.locator('.session-row .cell-rate').nth(2).click();
  await page.getByTestId('session-panel').waitFor();
  const detailed = await measure(async () => {
    for (let second = 0; second < 5; second += 1) await nextMessage(page);
  });
  console.log(`      with details:   ${inWords(detailed)}`);
  const busy = (1000 * idle.cpuMs) / idle.ms;
  if (busy > BUSY_MS_PER_SECOND) throw new Error(`the page's thread is busy ${busy.toFixed(0)} ms of each second`);
  if (process.env.SCREENSHOTS) await takePictures(test, server.url, process.env.SCREENSHOTS);
  const message = await lamp(page).getAttribute('title');
  await context.close();
  return `busy ${busy.toFixed(0)} ms of each second with ${test.sessions} sessions; a message is ${message}`;
}

/** Runs in the page: scrolls so many pixels with each frame. */
function scrollThrough({ pixels, perFrame }) {
  return new Promise((resolve) => {
    const end = scrollY + pixels;
    const step = () => {
      scrollBy(0, perFrame);
      if (scrollY + 1 >= end) resolve();
      else requestAnimationFrame(step);
    };
    requestAnimationFrame(step);
  });
}

async function sortsByAnyColumn(test) {
  const server = await test.startServer();
  const { page, faults } = await sessionsPage(test, server.url);
  const rates = async () => (await page.locator('.session-row .cell-rate').allInnerTexts()).slice(0, 8).map(inBits);
  const sort = page.getByRole('columnheader', { name: 'Rate' });
  await sort.getByRole('button').click();
  await page.mouse.move(5, 5);
  await until('the highest rates come first', async () => isOrdered((await rates()).map((rate) => -rate)));
  if ((await sort.getAttribute('aria-sort')) !== 'descending') throw new Error('the head of the column does not say so');
  await sort.getByRole('button').click();
  await page.mouse.move(5, 5);
  await until('the lowest rates come first', async () => isOrdered(await rates()));
  await page.getByRole('columnheader', { name: 'Loss' }).getByRole('button').click();
  await page.mouse.move(5, 5);
  await until('those who lose most come first', async () => Number.parseFloat(await page.locator('.session-row .cell-loss').first().innerText()) > 1);
  noFaults(faults);
}

const inBits = (text) => Number.parseFloat(text) * { bit: 1, kbit: 1e3, Mbit: 1e6 }[/([kM]?bit)/.exec(text)?.[1] ?? 'bit'];
const isOrdered = (values) => values.length > 3 && values.every((value, index) => index === 0 || values[index - 1] <= value);

/** Rows under the pointer stay where they are although their figures change. */
async function holdsRowsUnderThePointer(test) {
  const server = await test.startServer({ sessions: 300 });
  const { page } = await sessionsPage(test, server.url);
  await page.getByRole('columnheader', { name: 'Rate' }).getByRole('button').click();
  await page.locator('.session-row').nth(3).hover();
  const ids = () => page.locator('.session-row').evaluateAll((rows) => rows.slice(0, 12).map((row) => row.dataset.session).join());
  await nextMessage(page);
  const rate = page.getByRole('columnheader', { name: 'Rate' });
  await rate.getByText('order held').waitFor();
  const held = await ids();
  // Some sessions leave each second, so only their order is compared.
  for (let second = 0; second < 4; second += 1) {
    await nextMessage(page);
    const now = (await ids()).split(',');
    const before = held.split(',').filter((id) => now.includes(id));
    if (before.length < 6 || before.join() !== now.filter((id) => before.includes(id)).join()) throw new Error(`rows moved from ${held} to ${now}`);
  }
  await page.mouse.move(5, 5);
  await until('they are sorted again', async () => (await ids()) !== held);
  await rate.getByText('order held').waitFor({ state: 'detached' });
}

async function findsSessions(test) {
  const server = await test.startServer();
  const { page, faults } = await sessionsPage(test, server.url);
  const total = async () => (await page.getByTestId('session-total').innerText()).split(' of ').map(number);
  await page.getByLabel('Search').fill('court');
  await until('those of the stream are counted', async () => {
    const [found, all] = await total();
    return all === test.sessions && found > 0.2 * all && found < 0.3 * all;
  });
  const id = await page.locator('.session-row').nth(4).getAttribute('data-session');
  const address = await until('a row has its address', async () => {
    const text = await page.locator(`.session-row[data-session="${id}"] .session-link`).innerText();
    return text.startsWith('192.0.2.') ? text : null;
  });
  await page.getByLabel('Search').fill(address);
  await until('it is found by its address', async () => (await page.locator(`.session-row[data-session="${id}"]`).count()) === 1 && (await total())[0] < 10);
  const protocol = await page.locator(`.session-row[data-session="${id}"] .cell-role .sub`).innerText();
  const other = protocol === 'whep' ? 'http-flv' : 'whep';
  await page.getByLabel('Search').fill(`${address} ${protocol} role:player worker:${id.split('-')[0]}`);
  await until('it is found by several words', async () => (await page.locator(`.session-row[data-session="${id}"]`).count()) === 1 && (await total())[0] < 10);
  await page.getByLabel('Search').fill(`${address} protocol:${other}`);
  await page.getByText('Lists sessions that match all words.').waitFor();
  await page.getByLabel('Search').fill('');
  await page.locator('.filters select').first().selectOption('publisher');
  await until('publishers alone are listed', async () => (await total())[0] === 4);
  noFaults(faults);
}

/** A session that ends while it is looked at leaves its figures, and says so. */
async function staysWithASessionThatEnds(test) {
  const server = await test.startServer({ sessions: 40 });
  const { page } = await sessionsPage(test, server.url);
  for (let second = 0; second < 4; second += 1) await nextMessage(page);
  await page.locator('.session-row .cell-rate').nth(20).click();
  const panel = page.getByTestId('session-panel');
  await panel.getByRole('button', { name: 'Kick' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Kick' }).click();
  await panel.getByText('This session has ended.').waitFor();
  await until('its chart is still there', async () => (await page.evaluate(inkOfCharts, '.session-panel'))[0] > 5);
  // Every chart still has its last figure above it, and a second later too.
  for (let second = 0; second < 2; second += 1) {
    const figures = await panel.locator('.chart-value').allInnerTexts();
    if (figures.length < 2 || !figures.every((text) => /\d/.test(text))) throw new Error(`of the session that ended is left: ${figures}`);
    await nextMessage(page);
  }
  await panel.getByRole('button', { name: 'Close the details' }).click();
  await panel.waitFor({ state: 'detached' });
}

/** Opening the details leaves the row under the pointer, so that a second click hits the same session. */
async function detailsMoveNoRow(test) {
  const server = await test.startServer({ sessions: 60 });
  for (const width of [1024, 1280, 1366, 1440, 1600]) {
    const { page } = await sessionsPage(test, server.url, { viewport: { width, height: 900 } });
    // Made-up publishers never leave.
    await page.locator('.filters select').first().selectOption('publisher');
    await until('publishers alone are listed', async () => (await page.locator('.session-row').count()) === 4);
    const cell = page.locator('.session-row .cell-role').nth(2);
    await cell.hover();
    const id = await page.locator('.session-row').nth(2).getAttribute('data-session');
    const row = page.locator(`.session-row[data-session="${id}"]`);
    const before = await row.boundingBox();
    await cell.click();
    await page.getByTestId('session-panel').waitFor();
    await nextMessage(page);
    const after = await row.boundingBox();
    if (after.y !== before.y || after.height !== before.height) throw new Error(`at ${width} the row went from ${before.y} to ${after.y}`);
  }
}

/**
 * The page's clock stands still while the server is started again, so that the page does not ask by itself:
 * only the button can take the banner away.
 */
async function comesBackAfterTheServer(test) {
  // An address of its own: on 127.0.0.1 a client may be given the port before the server is back.
  const place = { sessions: 200, flags: ['--address', '127.0.0.2'] };
  const server = await test.startServer(place);
  const { page } = await open(test, server.url);
  await page.clock.install();
  await page.goto(`${server.url}#/sessions`);
  await page.locator('.session-row').first().waitFor();
  await live(page);
  await server.stop();
  await until('the loss is told', () => isIn(page, 'lost'));
  const banner = page.getByTestId('connection');
  await banner.getByText('Figures are the last ones received.').waitFor();
  if ((await page.getByText('Figures are the last ones received.').count()) !== 1) throw new Error('it is said twice');
  const [title, told] = [await page.getByRole('heading', { level: 1 }).boundingBox(), await banner.boundingBox()];
  if (told.y < title.y + title.height) throw new Error('the banner lies over the title');
  if ((await page.locator('.session-row').count()) === 0) throw new Error('the rows went away with the server');
  await page.clock.pauseAt(Date.now() + 60_000);
  // A request of the page that is still under way is refused before this one.
  await page.evaluate(() => fetch('/api/v1/server').then(() => Promise.reject(new Error('somebody answers')), () => {}));
  const again = await test.startServer({ ...place, port: server.port });
  await banner.getByRole('button', { name: 'Try now' }).click();
  await banner.getByRole('button').waitFor({ state: 'detached' });
  await page.clock.resume();
  await live(page);
  await nextMessage(page);
  await again.stop();
}

async function asksForAToken(test) {
  const server = await test.startServer({ sessions: 50, flags: ['--deny', '401'] });
  const { page } = await open(test, server.url);
  await page.goto(`${server.url}#/sessions`);
  await page.getByText('needs a token').waitFor();
  await page.getByLabel('Management token').fill('secret');
  await page.getByRole('button', { name: 'Use this token' }).click();
  await page.locator('.session-row').first().waitFor();
  await live(page);
}

async function asksOneByOneWithoutWebSockets(test) {
  const server = await test.startServer({ sessions: 50, flags: ['--no-websocket'] });
  const { page } = await open(test, server.url);
  await page.goto(`${server.url}#/sessions`);
  await page.locator('.session-row').first().waitFor();
  await until('figures are asked for', () => isIn(page, 'asking'));
  await page.getByText('Figures are polled once a second.').waitFor();
  await nextMessage(page);
  await nextMessage(page);
}

async function fitsAPhone(test) {
  const server = await test.startServer();
  const { page, faults } = await sessionsPage(test, server.url, { viewport: { width: 390, height: 844 } });
  await page.getByLabel('Order').selectOption('loss');
  await until('those who lose most come first', async () => /Loss\s*[1-9]/.test(await page.locator('.session-row .cell-loss').first().evaluate((cell) => `Loss ${cell.textContent}`)));
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  if (wide > 0) throw new Error(`the page is ${wide} pixels too wide`);
  await page.getByLabel('Order').selectOption('connected');
  await until('there are cards of TCP', async () => (await page.locator('.session-row .cell-queue.on-card').count()) > 0);
  const cards = await page.locator('.session-row').evaluateAll((rows) =>
    rows.map((row) => [row.querySelector('.cell-role .sub').textContent, [...row.querySelectorAll('.number')].filter((cell) => cell.checkVisibility()).map((cell) => cell.dataset.label).join()]));
  for (const [protocol, figures] of cards) {
    const expected = protocol === 'whep' ? ['Rate,Loss,Round trip'] : ['Rate,Queue,Dropped', 'Rate,Connected'];
    if (!expected.includes(figures)) throw new Error(`a card by ${protocol} shows ${figures}`);
  }
  await page.locator('.session-row .cell-rate').first().click();
  const panel = await page.getByTestId('session-panel').boundingBox();
  if (panel.width < 380 || panel.height < 800) throw new Error(`the details cover ${panel.width}x${panel.height}`);
  noFaults(faults);
}

async function takePictures(test, url, directory) {
  await mkdir(directory, { recursive: true });
  for (const [size, viewport] of Object.entries({ desktop: { width: 1440, height: 900 }, phone: { width: 390, height: 844 } })) {
    for (const colorScheme of ['dark', 'light']) {
      const { page } = await sessionsPage(test, url, { viewport, colorScheme });
      const picture = (name) => page.screenshot({ path: join(directory, `${name}-${size}-${colorScheme}.png`) });
      for (let second = 0; second < 8; second += 1) await nextMessage(page);
      await picture('live-sessions');
      await page.locator('.session-row .cell-rate').nth(2).click();
      await until('the chart of the rate has a line', async () => (await page.evaluate(inkOfCharts, '.session-panel'))[0] > 20);
      await picture('live-session');
      await page.goto(`${url}#/stream/sport/court-2`);
      await page.locator('.chart-row').waitFor();
      await nextMessage(page);
      await page.locator('.chart-row').scrollIntoViewIfNeeded();
      await picture('live-stream');
    }
  }
}

export const LIVE_CHECKS = [
  ['all sessions are there, few rows are made', showsThemAll],
  ['the page does not stutter', doesNotStutter],
  ['rows are sorted by any column', sortsByAnyColumn],
  ['rows under the pointer stay', holdsRowsUnderThePointer],
  ['details move no row', detailsMoveNoRow],
  ['sessions are found by stream, address and role', findsSessions],
  ['a session that ends leaves its figures', staysWithASessionThatEnds],
  ['figures come back with the server', comesBackAfterTheServer],
  ['a token opens the stream of figures', asksForAToken],
  ['without WebSockets figures are asked for', asksOneByOneWithoutWebSockets],
  ['a phone shows cards and details', fitsAPhone],
];
