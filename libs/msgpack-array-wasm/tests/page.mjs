/**
 * A page in Chromium, from a server on loopback that sends the package's files as they are, and
 * nothing else. MSGPACK_ARRAY and MSGPACK are folders as for Node, PLAYWRIGHT that of
 * playwright-core.
 */
import { createServer } from 'node:http';
import { readFile } from 'node:fs/promises';
import { join, normalize } from 'node:path';
import { pathToFileURL } from 'node:url';

const TYPES = { js: 'text/javascript', mjs: 'text/javascript', wasm: 'application/wasm', html: 'text/html' };
const HEADERS = {
  'Content-Security-Policy':
    "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; connect-src 'self'",
  // Its clock is finer then.
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Embedder-Policy': 'require-corp',
};

/**
 * Gives `use` a page at `/` of a server that also has `pages`: by path, the ending of the type and
 * the text.
 */
export async function withPage(pages, use) {
  const { chromium } = (await import(pathToFileURL(join(process.env.PLAYWRIGHT, 'index.js')).href)).default;
  const folders = {
    package: process.env.MSGPACK_ARRAY,
    msgpack: process.env.MSGPACK,
    tests: import.meta.dirname,
    bench: join(import.meta.dirname, '../bench'),
  };
  const known = { '/': ['html', '<!doctype html><title>msgpack-array</title>'], ...pages };
  const server = createServer(async (request, response) => {
    try {
      const path = normalize(new URL(request.url, 'http://localhost').pathname);
      const [, folder, ...rest] = path.split('/');
      const [type, body] = known[path] ?? [
        path.split('.').at(-1),
        await readFile(join(folders[folder], ...rest)),
      ];
      response.writeHead(200, { 'Content-Type': TYPES[type], ...HEADERS });
      response.end(body);
    } catch {
      response.writeHead(404).end();
    }
  });
  await new Promise((listening) => server.listen(0, '127.0.0.1', listening));
  let browser = null;
  try {
    browser = await chromium.launch({
      executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
      args: ['--headless=new', '--no-sandbox', '--disable-gpu', '--disable-background-networking'],
    });
    const page = await browser.newPage();
    page.setDefaultTimeout(0);
    await page.goto(`http://127.0.0.1:${server.address().port}/`);
    await use(page);
  } finally {
    await browser?.close();
    server.close();
  }
}
