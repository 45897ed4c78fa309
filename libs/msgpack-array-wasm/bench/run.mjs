/**
 * Measures in Node and in Chromium, each type in a process or browser of its own, and prints a line
 * for each case.
 *
 * usage: node run.mjs [--quick] [--runtime node|chromium]...    with MSGPACK_ARRAY, MSGPACK,
 * PLAYWRIGHT as for the tests
 */
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';

import { PARTS, measure } from './measure.mjs';
import { withPage } from '../tests/page.mjs';

const { values: options } = parseArgs({
  options: {
    quick: { type: 'boolean' },
    runtime: { type: 'string', multiple: true },
    part: { type: 'string' },
  },
});
const wanted = (runtime) => (options.runtime ?? ['node', 'chromium']).includes(runtime);
const quick = options.quick === true;
const url = (...parts) => pathToFileURL(join(...parts)).href;

const reporter =
  (runtime) =>
  ({ op, type, n, ns, msgpack_ns, vs_msgpack }) =>
    console.log(
      `RESULT msgpack-array-js runtime=${runtime} op=${op} type=${type} n=${n} ` +
        `ns_per_element=${ns.toFixed(3)} msgpack_ns_per_element=${msgpack_ns.toFixed(3)} vs_msgpack=${vs_msgpack.toFixed(2)}`,
    );

if (options.part !== undefined) {
  const library = await import(url(process.env.MSGPACK_ARRAY, 'msgpack-array.js'));
  const msgpack = await import(url(process.env.MSGPACK, 'dist.esm/index.mjs'));
  await measure(library, msgpack, { part: options.part, quick, report: reporter('node') });
} else {
  for (const part of PARTS) {
    if (wanted('node')) {
      const again = [import.meta.filename, '--part', part, ...(quick ? ['--quick'] : [])];
      const { status } = spawnSync(process.execPath, again, { stdio: 'inherit' });
      if (status !== 0) process.exit(1);
    }
    if (wanted('chromium')) await inChromium(part);
  }
}

async function inChromium(part) {
  const text = `
    import { measure } from '/bench/measure.mjs';
    import * as library from '/package/msgpack-array.js';
    import * as msgpack from '/msgpack/dist.esm/index.mjs';
    const report = (fields) => globalThis.report(fields);
    await measure(library, msgpack, { part: '${part}', quick: ${quick}, report });
  `;
  await withPage({ '/page.mjs': ['mjs', text] }, async (page) => {
    await page.exposeFunction('report', reporter('chromium'));
    await page.evaluate(async () => void (await import('/page.mjs')));
  });
}
