/**
 * Measures in Node and then in Chromium, and prints a line with fields for each case.
 *
 * usage: node run.mjs [--quick] [--runtime node|chromium]...    with MSGPACK_ARRAY, MSGPACK, PLAYWRIGHT as for the tests
 */
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';

import { measure } from './measure.mjs';
import { withPage } from '../tests/page.mjs';

const { values: options } = parseArgs({ options: { quick: { type: 'boolean' }, runtime: { type: 'string', multiple: true } } });
const wanted = (runtime) => (options.runtime ?? ['node', 'chromium']).includes(runtime);
const quick = options.quick === true;
const url = (...parts) => pathToFileURL(join(...parts)).href;

const reporter = (runtime) => ({ op, type, n, ns, msgpack_ns, vs_msgpack }) =>
  console.log(
    `RESULT msgpack-array-js runtime=${runtime} op=${op} type=${type} n=${n} ns_per_element=${ns.toFixed(3)} ` +
      `msgpack_ns_per_element=${msgpack_ns.toFixed(3)} vs_msgpack=${vs_msgpack.toFixed(2)}`,
  );

if (wanted('node')) {
  const library = await import(url(process.env.MSGPACK_ARRAY, 'msgpack-array.js'));
  const msgpack = await import(url(process.env.MSGPACK, 'dist.esm/index.mjs'));
  await measure(library, msgpack, { quick, report: reporter('node') });
}
if (wanted('chromium')) {
  const page = `
    import { measure } from '/bench/measure.mjs';
    const [library, msgpack] = await Promise.all([import('/package/msgpack-array.js'), import('/msgpack/dist.esm/index.mjs')]);
    await measure(library, msgpack, { quick: ${quick}, report: (fields) => globalThis.report(fields) });
  `;
  await withPage({ '/page.mjs': ['mjs', page] }, async (page) => {
    await page.exposeFunction('report', reporter('chromium'));
    await page.evaluate(async () => void (await import('/page.mjs')));
  });
}
