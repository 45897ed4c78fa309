/**
 * The cases in Chromium, in a page and in a worker, from a server on loopback that sends the files as they are
 * in the package. MSGPACK_ARRAY and MSGPACK are folders as for Node, PLAYWRIGHT that of playwright-core.
 */
import { createServer } from 'node:http';
import { readFile } from 'node:fs/promises';
import { join, normalize } from 'node:path';
import { pathToFileURL } from 'node:url';
import { after, before, test } from 'node:test';
import assert from 'node:assert/strict';

const { chromium } = (await import(pathToFileURL(join(process.env.PLAYWRIGHT, 'index.js')).href)).default;
const FOLDERS = { package: process.env.MSGPACK_ARRAY, msgpack: process.env.MSGPACK, tests: import.meta.dirname };
const TYPES = { js: 'text/javascript', mjs: 'text/javascript', wasm: 'application/wasm', html: 'text/html' };
const RUN = `
  import { cases } from '/tests/cases.mjs';
  const [library, msgpack] = await Promise.all([import('/package/msgpack-array.js'), import('/msgpack/dist.esm/index.mjs')]);
  const done = [];
  for (const { name, run } of cases(library, msgpack)) {
    try { await run(); done.push({ name }); } catch (error) { done.push({ name, error: String(error.stack ?? error) }); }
  }
`;
const PAGES = {
  '/': ['html', '<!doctype html><title>cases</title>'],
  '/page.mjs': ['mjs', `${RUN} globalThis.done = done;`],
  '/worker.mjs': ['mjs', `${RUN} postMessage(done);`],
};

const server = createServer(async (request, response) => {
  try {
    const path = normalize(new URL(request.url, 'http://localhost').pathname);
    const [, folder, ...rest] = path.split('/');
    const [type, body] = PAGES[path] ?? [path.split('.').at(-1), await readFile(join(FOLDERS[folder], ...rest))];
    const policy = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; connect-src 'self'";
    response.writeHead(200, { 'Content-Type': TYPES[type], 'Content-Security-Policy': policy });
    response.end(body);
  } catch {
    response.writeHead(404).end();
  }
});
let browser;
let page;

before(async () => {
  await new Promise((listening) => server.listen(0, '127.0.0.1', listening));
  browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
    args: ['--headless=new', '--no-sandbox', '--disable-gpu', '--disable-background-networking'],
  });
  page = await browser.newPage();
  await page.goto(`http://127.0.0.1:${server.address().port}/`);
});

after(async () => {
  await browser?.close();
  server.close();
});

function check(done) {
  assert.ok(done.length > 20, `${done.length} cases`);
  assert.deepEqual(done.filter(({ error }) => error), []);
  return done.length;
}

test('in a page', async (context) => {
  const done = await page.evaluate(async () => {
    await import('/page.mjs');
    return globalThis.done;
  });
  context.diagnostic(`${check(done)} cases`);
});

test('in a worker', async (context) => {
  const done = await page.evaluate(
    () =>
      new Promise((resolve, reject) => {
        const worker = new Worker('/worker.mjs', { type: 'module' });
        worker.onmessage = ({ data }) => resolve(data);
        worker.onerror = ({ message }) => reject(new Error(message));
      }),
  );
  context.diagnostic(`${check(done)} cases`);
});
