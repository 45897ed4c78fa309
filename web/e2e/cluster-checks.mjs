/**
 * What the console must show of a cluster, with a stand-in server that is a node among others, some of them in
 * trouble.
 */
import { join } from 'node:path';
import { openPage, until } from './browser.mjs';

async function open({ browser, contexts, startServer }, flags, options = {}) {
  const { url } = await startServer({ sessions: 10, flags });
  const opened = await openPage(browser, url, options);
  contexts.push(opened.context);
  return { url, ...opened };
}

const says = (locator, text) => until(`it says "${text}"`, async () => (await locator.innerText()).replaceAll('\u00a0', ' ').includes(text));
const card = (page, node) => page.locator(`.map-node[data-node="${node}"]`);

async function shot(page, name) {
  if (process.env.SCREENSHOTS) await page.screenshot({ path: join(process.env.SCREENSHOTS, `cluster-${name}.png`), fullPage: true });
}

async function showsNodesAndLinks(test) {
  const { page, url, faults } = await open(test, ['--cluster', '12', '--trouble']);
  await page.goto(url);
  await page.getByRole('link', { name: 'Cluster' }).click();
  await page.locator('.map-hub').waitFor();
  await says(page.locator('.map-hub'), 'fra-origin');
  if ((await page.locator('.map-node').count()) !== 11) throw new Error('the map lacks nodes');
  await says(card(page, 'new-edge-03'), 'no connection');
  await says(card(page, 'fra-edge-02'), 'frames are dropped');
  await says(card(page, 'fra-edge-03'), 'lost');
  await says(page.locator('tr[data-link="new-edge-03"]'), 'connection timed out');
  await says(page.locator('tr[data-node="fra-edge-04"]'), 'Draining');
  // Pointing at a node marks its rows.
  await card(page, 'par-edge-01').hover();
  await page.locator('tr[data-link="par-edge-01"].is-marked').waitFor();
  await shot(page, '12-nodes');
  if (faults.length > 0) throw new Error(faults.join('\n  '));
}

async function showsTrees(test) {
  const { page, url, faults } = await open(test, ['--cluster', '30', '--cluster-streams', '400']);
  await page.goto(`${url}#/cluster`);
  const search = page.getByPlaceholder("Part of a stream's name");
  await search.fill('MAIN');
  await page.getByRole('link', { name: 'Tree of live/main-stage' }).click();
  await page.locator('.tree-card').nth(29).waitFor();
  await until('the map has the tree', async () => (await page.locator('.map-tree').count()) === 29);
  await says(page.locator('.tree-card[data-node="fra-edge-02"]'), 'feeds 8');
  await shot(page, 'tree');
  // A tree that is wider than its panel is scrolled there.
  await page.setViewportSize({ width: 900, height: 900 });
  await until('the tree is wider than its place', () => page.locator('.tree-row .tree-scroll').evaluate((tree) => tree.scrollWidth > tree.clientWidth));
  const width = await page.evaluate(() => document.documentElement.scrollWidth);
  if (width > 900) throw new Error(`the page is ${width} pixels wide`);
  // It stays when the list has others.
  await search.fill('room-39');
  await until('the list has others', async () => (await page.locator('tr[data-stream]').count()) === 10);
  await page.locator('.tree-card').nth(29).waitFor();
  await page.getByRole('link', { name: 'Show all links' }).click();
  await page.locator('.tree-card').first().waitFor({ state: 'detached' });
  await page.goto(`${url}#/cluster?stream=live%2Fnobody`);
  await page.getByText('Nobody publishes live/nobody').waitFor();
  await page.goto(`${url}#/stream/live/backstage`);
  await page.getByRole('heading', { name: 'In the cluster' }).waitFor();
  if (faults.length > 0) throw new Error(faults.join('\n  '));
}

async function remembersWhoWasThere(test) {
  const { page, url } = await open(test, ['--cluster', '3', '--die', '3', '--no-nats']);
  await page.goto(`${url}#/cluster`);
  await card(page, 'par-edge-01').waitFor();
  await says(card(page, 'par-edge-01'), 'gone');
  await says(page.locator('tr[data-node="par-edge-01"]'), 'Gone');
  await says(page.getByTestId('directory-note'), 'Running streams go on');
}

async function isNotThereOnASingleNode(test) {
  const { page, url } = await open(test, []);
  await page.goto(url);
  await page.getByRole('link', { name: 'Workers' }).waitFor();
  await until('the server is known', async () => (await page.locator('.server-line').innerText()).includes('Online'));
  if ((await page.getByRole('link', { name: 'Cluster' }).count()) !== 0) throw new Error('a single node has a page of its cluster');
  await page.goto(`${url}#/cluster`);
  await page.getByText('This server is a single node').waitFor();
}

async function fitsOnAPhone(test) {
  const { page, url } = await open(test, ['--cluster', '12', '--trouble'], { viewport: { width: 390, height: 844 } });
  await page.goto(`${url}#/cluster`);
  await card(page, 'new-edge-03').waitFor();
  await page.getByRole('link', { name: 'Tree of live/main-stage' }).click();
  await page.locator('.tree-card').nth(11).waitFor();
  const width = await page.evaluate(() => document.documentElement.scrollWidth);
  if (width > 390) throw new Error(`the page is ${width} pixels wide`);
  await shot(page, 'phone');
}

export const CLUSTER_CHECKS = [
  ['the map and the tables show nodes, links and their troubles', showsNodesAndLinks],
  ['the tree of a stream is shown, whatever is listed', showsTrees],
  ['a node that has gone is remembered', remembersWhoWasThere],
  ['a single node has no page of a cluster', isNotThereOnASingleNode],
  ['the page of the cluster fits on a phone', fitsOnAPhone],
];
