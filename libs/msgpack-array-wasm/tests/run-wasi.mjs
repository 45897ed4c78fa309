/**
 * Runs a program for WASI in Node: cargo's runner for tests that were compiled to WebAssembly.
 *
 * usage: node --no-warnings run-wasi.mjs PROGRAM [ARGUMENT]...
 */
import { readFile } from 'node:fs/promises';
import { WASI } from 'node:wasi';

const [program, ...rest] = process.argv.slice(2);
const wasi = new WASI({
  version: 'preview1',
  args: [program, ...rest],
  env: { RUST_BACKTRACE: '0' },
  // The kept corpus of the fuzz targets is found by its path.
  preopens: { '/': '/' },
  returnOnExit: true,
});
const { instance } = await WebAssembly.instantiate(await readFile(program), wasi.getImportObject());
process.exitCode = wasi.start(instance);
