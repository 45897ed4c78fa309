/**
 * What the package has to do, wherever it runs: the same cases in Node and in a browser.
 *
 * `cases(library, msgpack)` gives named functions that throw when something is wrong. `library` is
 * the package, `msgpack` is @msgpack/msgpack, which goes element by element and is written by
 * others.
 */

const INTEGERS = [
  [Int8Array, 8, true],
  [Int16Array, 16, true],
  [Int32Array, 32, true],
  [BigInt64Array, 64, true],
  [Uint8Array, 8, false],
  [Uint16Array, 16, false],
  [Uint32Array, 32, false],
  [BigUint64Array, 64, false],
];
const TYPES = [...INTEGERS.map(([type]) => type), Float32Array, Float64Array];
// Nothing, what a vector leaves over, where headers grow, and where a part of the workspace ends.
const LENGTHS = [
  0, 1, 2, 15, 16, 17, 31, 63, 64, 65, 1000, 8191, 8192, 8193, 65_535, 65_536, 65_537, 140_001,
];

export function cases(library, msgpack) {
  const { load, DecodeError, encodeBin, decodeBin, decodeBinAt } = library;
  const list = [];
  const add = (name, run) => list.push({ name, run });
  const options = (type) => ({
    useBigInt64: type.name.startsWith('Big'),
    forceFloat32: type === Float32Array,
  });

  for (const type of TYPES) {
    add(`${type.name}: the bytes of @msgpack/msgpack, and back`, async () => {
      const arrays = await load();
      for (const length of LENGTHS) {
        const values = sample(type, length);
        const bytes = arrays.encode(values);
        same(bytes, msgpack.encode(plain(values), options(type)), `${length} elements encoded`);
        const back = arrays.decode(type, bytes);
        equal(back.constructor, type);
        sameBits(back, values, `${length} elements decoded`);
        const memory = new Uint8Array(bytes.length + 20).fill(0xc1);
        equal(arrays.encodeInto(values, memory, 9), 9 + bytes.length);
        same(memory.subarray(9, 9 + bytes.length), bytes, `${length} elements into memory`);
        equal(
          memory.every((byte, at) => (at >= 9 && at < 9 + bytes.length) || byte === 0xc1),
          true,
        );
        equal(arrays.encodeInto(values, memory.subarray(0, bytes.length), 0), bytes.length);
        throws(RangeError, () => arrays.encodeInto(values, memory.subarray(0, bytes.length), 1));
        throws(RangeError, () => arrays.encodeInto(values, memory.subarray(0, bytes.length - 1), 0));
        // In the middle of a document, into memory that is there.
        const document = new Uint8Array(bytes.length + 10).fill(0xc1);
        document.set(bytes, 7);
        const read = arrays.decodeAt(type, document, 7);
        equal(read.end, 7 + bytes.length);
        sameBits(read.values, values, `${length} elements at an offset`);
        const room = new type(length + 3);
        const into = arrays.decodeInto(room, document, 7);
        equal(`${into.count} ${into.end}`, `${length} ${7 + bytes.length}`);
        sameBits(room.subarray(0, length), values, `${length} elements into an array`);
        sameBits(room.subarray(length), new type(3), 'what is behind them');
      }
    });
  }

  for (const [type, bits, signed] of INTEGERS) {
    add(`${type.name}: both sides of every power of two`, async () => {
      const arrays = await load();
      const numbers = [];
      for (let bit = 0n; bit < BigInt(bits); bit += 1n) {
        for (const number of [2n ** bit - 1n, 2n ** bit, 2n ** bit + 1n]) {
          numbers.push(number);
          if (signed) numbers.push(-number, -number - 1n);
        }
      }
      const values = type.from(numbers, type.name.startsWith('Big') ? undefined : (number) => Number(number));
      // Alone, and among others so that the vectors get them.
      for (const repeat of [1, 40]) {
        const many = new type(values.length * repeat);
        for (let at = 0; at < repeat; at += 1) many.set(values, at * values.length);
        const bytes = arrays.encode(many);
        same(bytes, msgpack.encode(plain(many), options(type)), 'encoded');
        sameBits(arrays.decode(type, bytes), many, 'decoded');
      }
    });
  }

  add('any legal width of a value is read', async () => {
    const arrays = await load();
    const five = [
      [5],
      [0xcc, 5],
      [0xcd, 0, 5],
      [0xce, 0, 0, 0, 5],
      [0xcf, 0, 0, 0, 0, 0, 0, 0, 5],
      [0xd0, 5],
      [0xd1, 0, 5],
    ];
    const bytes = Uint8Array.of(0xdc, 0, five.length, ...five.flat());
    for (const type of TYPES) {
      const wanted = type.name.startsWith('Big') ? 5n : 5;
      for (const value of arrays.decode(type, bytes)) equal(value, wanted);
    }
    // A longer header than necessary, too.
    equal(arrays.decode(Int8Array, Uint8Array.of(0xdd, 0, 0, 0, 1, 0xff))[0], -1);
  });

  add('booleans, of bytes and of booleans', async () => {
    const arrays = await load();
    for (const length of LENGTHS) {
      const bools = Array.from({ length }, (_, at) => (at * at) % 3 === 0);
      const bytes = arrays.encodeBools(bools);
      same(bytes, msgpack.encode(bools), 'encoded');
      same(arrays.encodeBools(Uint8Array.from(bools, (bool) => (bool ? 200 : 0))), bytes, 'of bytes');
      same(arrays.decodeBools(bytes), Uint8Array.from(bools, Number), 'decoded');
      equal(arrays.decodeBoolsAt(bytes, 0).end, bytes.length);
    }
    fails(DecodeError, 'wrong-type', () => arrays.decodeBools(Uint8Array.of(0x91, 1)));
    throws(TypeError, () => arrays.encodeBools('true'));
  });

  add('floats keep their bits', async () => {
    const arrays = await load();
    const singles = new Float32Array(
      Uint32Array.of(0x7fc0_0001, 0x8000_0000, 0x7f80_0000, 1, 0xffc1_2345).buffer,
    );
    same(bytesOf(arrays.decode(Float32Array, arrays.encode(singles))), bytesOf(singles), 'f32');
    const doubles = new Float64Array(
      BigUint64Array.of(0x7ff8_0000_0000_0001n, 0x8000n << 48n, 1n, 0x7ff0n << 48n).buffer,
    );
    same(bytesOf(arrays.decode(Float64Array, arrays.encode(doubles))), bytesOf(doubles), 'f64');
    equal(arrays.decode(Float64Array, arrays.encode(Float32Array.of(0.1)))[0], Math.fround(0.1));
  });

  add('u8 and i8 as bin', async () => {
    for (const length of [0, 1, 255, 256, 65_535, 65_536]) {
      const bytes = sample(Uint8Array, length);
      const signed = new Int8Array(bytes.buffer);
      const bin = encodeBin(bytes);
      same(bin, msgpack.encode(bytes), `${length} bytes`);
      same(encodeBin(signed), bin, `${length} i8`);
      same(decodeBin(Uint8Array, bin), bytes, 'read');
      sameBits(decodeBin(Int8Array, bin), signed, 'read as i8');
      equal(decodeBinAt(Int8Array, bin, 0).end, bin.length);
    }
    fails(DecodeError, 'not-bin', () => decodeBin(Uint8Array, Uint8Array.of(0x91, 1)));
    fails(DecodeError, 'trailing', () => decodeBin(Uint8Array, Uint8Array.of(0xc4, 0, 0)));
    for (const bytes of [[], [0xc4], [0xc4, 2, 1], [0xc6, 0, 0], [0xc6, 0xff, 0xff, 0xff, 0xff, 1]])
      fails(DecodeError, 'truncated', () => decodeBin(Int8Array, Uint8Array.from(bytes)));
    throws(TypeError, () => encodeBin([1]));
    throws(TypeError, () => decodeBin(Uint16Array, Uint8Array.of(0xc4, 0)));
  });

  add('an array cut anywhere is truncated', async () => {
    const arrays = await load();
    for (const type of TYPES) {
      const bytes = arrays.encode(sample(type, 300));
      for (let length = 0; length < bytes.length; length += 1) {
        fails(DecodeError, 'truncated', () => arrays.decode(type, bytes.subarray(0, length)));
        if (length % 50 === 0)
          fails(DecodeError, 'truncated', () =>
            arrays.decodeInto(new type(300), bytes.subarray(0, length), 0),
          );
      }
      // Longer than the workspace, cut near each end of a part.
      const long = arrays.encode(sample(type, 70_000));
      for (const length of [65_538, 65_539, 65_540, 65_545, long.length - 1])
        if (length < long.length)
          fails(DecodeError, 'truncated', () => arrays.decode(type, long.subarray(0, length)));
    }
  });

  add('what is only announced is not allocated', async () => {
    const arrays = await load();
    for (const type of TYPES) {
      for (const bytes of [
        [0xdd, 0xff, 0xff, 0xff, 0xff],
        [0xdd, 0xff, 0xff, 0xff, 0xff, 1, 2, 3],
        [0xdc, 0xff, 0xff, 0],
      ])
        fails(DecodeError, 'truncated', () => arrays.decode(type, Uint8Array.from(bytes)));
    }
  });

  add('values of other types are named', async () => {
    const arrays = await load();
    for (const at of [0, 3, 100, 70_000]) {
      const bytes = new Uint8Array(5 + at + 2).fill(7);
      bytes.set([0xdd, 0, (at + 2) >> 16, ((at + 2) >> 8) & 0xff, (at + 2) & 0xff]);
      for (const [marker, code] of [
        [0xa1, 'wrong-type'],
        [0xc0, 'wrong-type'],
        [0xc1, 'wrong-type'],
        [0x91, 'wrong-type'],
      ]) {
        bytes[5 + at] = marker;
        const error = fails(DecodeError, code, () => arrays.decode(Int32Array, bytes));
        equal(`${error.index} ${error.marker}`, `${at} ${marker}`);
        fails(DecodeError, code, () => arrays.decode(Float64Array, bytes));
      }
    }
    equal(
      fails(DecodeError, 'out-of-range', () => arrays.decode(Uint8Array, Uint8Array.of(0x92, 1, 0xff))).index,
      1,
    );
    fails(DecodeError, 'out-of-range', () => arrays.decode(Int8Array, Uint8Array.of(0x91, 0xcc, 200)));
    fails(DecodeError, 'out-of-range', () =>
      arrays.decode(Float32Array, arrays.encode(Float64Array.of(0.1))),
    );
    fails(DecodeError, 'wrong-type', () => arrays.decode(Int32Array, arrays.encode(Float64Array.of(1))));
    for (let marker = 0; marker < 256; marker += 1) {
      if ((marker >= 0x90 && marker <= 0x9f) || marker === 0xdc || marker === 0xdd) continue;
      const error = fails(DecodeError, 'not-an-array', () =>
        arrays.decode(Uint8Array, Uint8Array.of(marker, 0, 0)),
      );
      equal(error.marker, marker);
    }
    fails(DecodeError, 'trailing', () => arrays.decode(Uint8Array, Uint8Array.of(0x91, 1, 2)));
  });

  add('wrong arguments are refused', async () => {
    const arrays = await load();
    const bytes = Uint8Array.of(0x92, 1, 2);
    for (const values of [
      [1, 2],
      null,
      undefined,
      'text',
      new DataView(new ArrayBuffer(8)),
      new ArrayBuffer(8),
      {},
    ])
      throws(TypeError, () => arrays.encode(values));
    for (const type of [Array, Uint8ClampedArray, undefined, null, 'Uint8Array', {}])
      throws(TypeError, () => arrays.decode(type, bytes));
    for (const input of [[0x90], new Int8Array(1), bytes.buffer, 'x', null, new Proxy(bytes, {})])
      throws(TypeError, () => arrays.decode(Uint8Array, input));
    for (const offset of [-1, 4, 1.5, NaN, Infinity, '0', 2 ** 32, undefined])
      throws(RangeError, () => arrays.decodeAt(Uint8Array, bytes, offset));
    throws(RangeError, () => arrays.decodeInto(new Uint8Array(1), bytes, 0));
    throws(TypeError, () => arrays.decodeInto([], bytes, 0));
    throws(TypeError, () => arrays.encodeInto([], bytes, 0));
    throws(TypeError, () => arrays.encodeInto(bytes, new Int8Array(9), 0));
    for (const offset of [-1, 4, 1.5, NaN])
      throws(RangeError, () => arrays.encodeInto(new Int8Array(0), bytes, offset));
  });

  add('a length that lies changes nothing', async () => {
    const arrays = await load();
    arrays.encode(sample(Uint8Array, 5_000));
    const values = Uint8Array.of(1, 2);
    Object.defineProperty(values, 'length', { value: 5_000 });
    same(arrays.encode(values), Uint8Array.of(0x92, 1, 2), 'encoded');
    const bytes = Uint8Array.of(0x9f, 1, 2);
    Object.defineProperty(bytes, 'length', { value: 5_000 });
    fails(DecodeError, 'truncated', () => arrays.decode(Uint8Array, bytes));
    class Longer extends Uint8Array {
      subarray() {
        return new Uint8Array(100_000);
      }
    }
    const long = new Longer(70_000);
    long.set([0xdd, 0, 1, 0, 0]);
    let failed = null;
    try {
      arrays.decode(Uint8Array, long);
    } catch (error) {
      failed = error;
    }
    equal(failed instanceof RangeError, true);
  });

  add('random bytes are an array or an error, and errors leave nothing behind', async () => {
    const arrays = await load();
    const random = generator(7);
    const good = sample(BigInt64Array, 500);
    const goodBytes = arrays.encode(good);
    for (let round = 0; round < 3_000; round += 1) {
      const bytes = Uint8Array.from({ length: random(200) }, () => random(256));
      bytes[0] = 0x90 | random(16);
      if (random(3) === 0) bytes.set([0xdc, 0, random(200)].slice(0, bytes.length));
      for (const type of TYPES) {
        let theirs = null;
        try {
          theirs = msgpack.decodeMulti(bytes, { useBigInt64: true }).next().value;
        } catch {
          // Not even MessagePack.
        }
        try {
          const { values } = arrays.decodeAt(type, bytes, 0);
          equal(values.length, theirs.length);
          values.forEach((value, at) => equal(Number(value), Number(theirs[at])));
        } catch (error) {
          if (!(error instanceof DecodeError)) throw error;
        }
      }
      if (round % 100 === 0) sameBits(arrays.decode(BigInt64Array, goodBytes), good, 'between bad ones');
    }
  });

  add('the memory of the module does not grow', async () => {
    const { instance, arrays } = await withInstance(library);
    const before = instance.exports.memory.buffer.byteLength;
    const values = sample(Float64Array, 3_000_000);
    sameBits(arrays.decode(Float64Array, arrays.encode(values)), values, 'three million numbers');
    equal(instance.exports.memory.buffer.byteLength, before);
    equal(before <= 512 * 1024, true);
    throws(RangeError, () => instance.exports.memory.grow(1));
  });

  add('the module refuses what is outside of its workspace', async () => {
    const { instance } = await withInstance(library);
    const { encode, decode, input_size } = instance.exports;
    const size = input_size();
    const bad = 3;
    for (const [kind, count] of [
      [11, 0],
      [-1, 1],
      [4, size + 1],
      [4, -1],
      [9, size / 8 + 1],
      [9, 0x2000_0000],
    ])
      equal(encode(kind, count), bad);
    for (const [kind, from, to] of [
      [11, 0, 1],
      [4, 0, size + 1],
      [4, 2, 1],
      [4, -1, -1],
      [4, size + 1, size + 1],
    ])
      equal(decode(kind, from, to, 1), bad);
    equal(decode(4, size, size, -1), 0);
  });

  return list;
}

async function withInstance({ load, MsgpackArrays }) {
  // `load` keeps its instance to itself, so the module is taken on its way.
  const { instantiate } = WebAssembly;
  let instance = null;
  WebAssembly.instantiate = async (...parts) => (instance = await instantiate(...parts));
  try {
    const arrays = await load();
    equal(arrays instanceof MsgpackArrays, true);
    return { instance, arrays };
  } finally {
    WebAssembly.instantiate = instantiate;
  }
}

/**
 * A list of which @msgpack/msgpack makes the shortest forms: it writes every bigint with eight
 * bytes.
 */
function plain(values) {
  const short = (number) => (number >= -(2n ** 31n) && number < 2n ** 32n ? Number(number) : number);
  return Array.from(values, (value) => (typeof value === 'bigint' ? short(value) : value));
}

/** Numbers of all lengths of a type, by a generator with a seed. */
function sample(type, length) {
  const random = generator(length + type.name.length);
  // No whole ones: @msgpack/msgpack writes those as integers.
  if (type.name.startsWith('Float'))
    return type.from({ length }, () => (random(2 ** 20) - 2 ** 19) / 1024 + 0.1);
  const bits = 8 * type.BYTES_PER_ELEMENT;
  const big = type.name.startsWith('Big');
  return type.from({ length }, () => {
    const wide =
      (BigInt(random(2 ** 31)) << 33n) ^ (BigInt(random(2 ** 31)) << 11n) ^ BigInt(random(2 ** 11));
    // Runs of one length, and mixtures.
    const keep = random(4) === 0 ? 1 + random(bits) : bits;
    const number = BigInt.asIntN(keep, wide);
    return big ? number : Number(BigInt.asIntN(bits, number));
  });
}

/** Whole numbers below a limit; the same ones for the same seed. */
function generator(seed) {
  let state = (seed * 2_654_435_761 + 1) >>> 0;
  return (limit) => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) % limit;
  };
}

function bytesOf(values) {
  return new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
}

function sameBits(a, b, what) {
  same(bytesOf(a), bytesOf(b), what);
}

function same(a, b, what) {
  if (a.length !== b.length) throw new Error(`${what}: ${a.length} bytes instead of ${b.length}`);
  for (let at = 0; at < a.length; at += 1)
    if (a[at] !== b[at]) throw new Error(`${what}: byte ${at} is ${a[at]} instead of ${b[at]}`);
}

function equal(a, b) {
  if (a !== b) throw new Error(`${String(a)} instead of ${String(b)}`);
}

function throws(type, run) {
  try {
    run();
  } catch (error) {
    if (error instanceof type) return error;
    throw new Error(`${String(error)} instead of ${type.name}`);
  }
  throw new Error(`nothing instead of ${type.name}`);
}

function fails(type, code, run) {
  const error = throws(type, run);
  equal(error.code, code);
  return error;
}
