/**
 * The cases in Node. The package and @msgpack/msgpack are where the environment says:
 * MSGPACK_ARRAY (a folder), MSGPACK (a folder).
 */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { test } from 'node:test';
import assert from 'node:assert/strict';

import { cases } from './cases.mjs';

const folder = process.env.MSGPACK_ARRAY;
const url = (...parts) => pathToFileURL(join(...parts)).href;
const library = await import(url(folder, 'msgpack-array.js'));
const msgpack = await import(url(process.env.MSGPACK, 'dist.esm/index.mjs'));

for (const { name, run } of cases(library, msgpack)) test(name, run);

test('the module comes from a URL, bytes, a Response or compiled', async () => {
  const file = join(folder, 'msgpack-array.wasm');
  const bytes = await readFile(file);
  const sources = [
    pathToFileURL(file),
    url(file),
    bytes,
    new Response(bytes),
    await WebAssembly.compile(bytes),
  ];
  for (const source of sources) {
    const arrays = await library.load(source);
    assert.deepEqual(
      [...arrays.encode(Int32Array.of(1, -200, 70_000))],
      [...Buffer.from('9301d1ff38ce00011170', 'hex')],
    );
  }
  await assert.rejects(library.load(new Response('no', { status: 404 })), /status 404/);
  await assert.rejects(library.load(Uint8Array.of(1, 2, 3)), WebAssembly.CompileError);
});

test('a Buffer is a Uint8Array like others', async () => {
  const arrays = await library.load();
  const values = Float64Array.from({ length: 40_000 }, (_, at) => at / 3);
  assert.deepEqual(arrays.decode(Float64Array, Buffer.from(arrays.encode(values))), values);
});
