/** The cases in Chromium, in a page and in a worker. */
import { test } from 'node:test';
import assert from 'node:assert/strict';

import { withPage } from './page.mjs';

const RUN = `
  import { cases } from '/tests/cases.mjs';
  import * as library from '/package/msgpack-array.js';
  import * as msgpack from '/msgpack/dist.esm/index.mjs';
  const done = [];
  for (const { name, run } of cases(library, msgpack)) {
    try {
      await run();
      done.push({ name });
    } catch (error) {
      done.push({ name, error: String(error.stack ?? error) });
    }
  }
`;
const PAGES = {
  '/page.mjs': ['mjs', `${RUN} globalThis.done = done;`],
  '/worker.mjs': ['mjs', `${RUN} postMessage(done);`],
};

function check(context, done) {
  assert.ok(done.length > 20, `${done.length} cases`);
  assert.deepEqual(
    done.filter(({ error }) => error),
    [],
  );
  context.diagnostic(`${done.length} cases`);
}

test('in a page', (context) =>
  withPage(PAGES, async (page) => {
    const done = await page.evaluate(async () => {
      await import('/page.mjs');
      return globalThis.done;
    });
    check(context, done);
  }));

test('in a worker', (context) =>
  withPage(PAGES, async (page) => {
    const done = await page.evaluate(
      () =>
        new Promise((resolve, reject) => {
          const worker = new Worker('/worker.mjs', { type: 'module' });
          worker.onmessage = ({ data }) => resolve(data);
          worker.onerror = ({ message }) => reject(new Error(message));
        }),
    );
    check(context, done);
  }));
