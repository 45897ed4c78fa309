/** Compiled, never run: what the declarations promise to a strict compiler. */
import {
  type DecodeError,
  type MsgpackArrays,
  decodeBin,
  encodeBin,
  load,
} from '../package/msgpack-array.js';

async function use(): Promise<void> {
  const arrays: MsgpackArrays = await load(new URL('https://example.com/msgpack-array.wasm'));
  const bytes: Uint8Array<ArrayBuffer> = arrays.encode(BigInt64Array.of(1n));
  const numbers: Float64Array = arrays.decode(Float64Array, bytes);
  const { values, end }: { values: BigUint64Array; end: number } = arrays.decodeAt(BigUint64Array, bytes, 0);
  const after: number = arrays.encodeInto(numbers, bytes, 0);
  const { count } = arrays.decodeInto(numbers, bytes, end);
  const bools: Uint8Array = arrays.decodeBools(arrays.encodeBools([true, false]));
  const signed: Int8Array = decodeBin(Int8Array, encodeBin(Int8Array.of(-1)));
  // @ts-expect-error no typed array
  arrays.encode([1, 2]);
  // @ts-expect-error not a type of numbers that are read
  arrays.decode(Uint8ClampedArray, bytes);
  console.log(values, count, after, bools, signed);
}

export const code = (error: DecodeError): string => error.code;
export default use;
