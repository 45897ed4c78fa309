/**
 * What does an array of numbers cost in JavaScript, and what does it cost with @msgpack/msgpack?
 *
 * Runs in Node and in a browser. Both sides are used in their best way: an Encoder and a Decoder
 * that are kept, a list of numbers (or bigints) for @msgpack/msgpack, which writes typed arrays as
 * `bin`, and a typed array for msgpack-array. Each gives a new result. `encode-into` is into memory
 * that is kept, on both sides; `decode-into` is into an array that is kept, against the same
 * `decode` of @msgpack/msgpack, which has no such thing.
 *
 * Arrays are many different ones in rotation, because one repeated trains the branch predictor.
 * Both sides take turns in rounds of about the same time, so that a busy machine slows both; a time
 * is the median of a side's rounds.
 */

const TYPES = {
  i8: Int8Array,
  i16: Int16Array,
  i32: Int32Array,
  i64: BigInt64Array,
  u8: Uint8Array,
  u16: Uint16Array,
  u32: Uint32Array,
  u64: BigUint64Array,
  f32: Float32Array,
  f64: Float64Array,
};
const LENGTHS = [1 << 10, 1 << 16, 1 << 20];
/** Numbers of a rotation together. */
const ROTATION = 1 << 17;
/** Numbers that are gone through first. */
const ROUND = 1 << 18;
/**
 * What a round of either side takes, unless one call takes longer: less than other programs of a
 * busy machine leave, and the same for both, or the slower side would be interrupted more often
 * than the faster one.
 */
const ROUND_MS = 1;

/** What `measure` can be asked for. */
export const PARTS = [...Object.keys(TYPES), 'statistics'];

/**
 * Measures one part, and gives each case to `report`, as fields of a RESULT line. Each part belongs
 * in a process or page of its own: code that has seen all types is compiled for all of them, and
 * @msgpack/msgpack gets slower.
 */
export async function measure(library, msgpack, { part, quick, report }) {
  const arrays = await library.load();
  const roundsOf = (n) => (n > 1 << 16 ? (quick ? 5 : 9) : quick ? 21 : 51);
  if (part === 'statistics') {
    for (const n of [100, 10_000])
      report({ op: part, type: 'columns', n, ...statistics(arrays, msgpack, n, roundsOf(n)) });
    return;
  }
  const [type, Type] = [part, TYPES[part]];
  for (const n of LENGTHS) {
    const kept = { useBigInt64: type.endsWith('64') && type !== 'f64', forceFloat32: type === 'f32' };
    const [encoder, decoder] = [new msgpack.Encoder(kept), new msgpack.Decoder(kept)];
    const rotation = Array.from({ length: Math.max(2, ROTATION / n) }, () => {
      const values = random(Type, n);
      const bytes = arrays.encode(values);
      return { values, bytes, list: Array.from(values) };
    });
    for (const { bytes, list } of rotation) {
      const theirs = encoder.encode(list);
      if (theirs.length !== bytes.length && !kept.useBigInt64) throw new Error(`${type}: not the same bytes`);
    }
    const into = new Type(n);
    const room = new Uint8Array(5 + 9 * n);
    const ops = {
      encode: [({ values }) => arrays.encode(values), ({ list }) => encoder.encode(list)],
      decode: [({ bytes }) => arrays.decode(Type, bytes), ({ bytes }) => decoder.decode(bytes)],
      'encode-into': [
        ({ values }) => arrays.encodeInto(values, room, 0),
        ({ list }) => encoder.encodeSharedRef(list),
      ],
      'decode-into': [({ bytes }) => arrays.decodeInto(into, bytes, 0), ({ bytes }) => decoder.decode(bytes)],
    };
    for (const [op, [ours, theirs]] of Object.entries(ops)) {
      const times = compare(rotation, n, roundsOf(n), ours, theirs);
      report({ op, type, n, ...times });
      // So that a page and a test runner stay alive.
      await new Promise((resolve) => setTimeout(resolve));
    }
  }
}

/** Nanoseconds per element of both sides, medians of their rounds, and the ratio of these. */
function compare(rotation, n, rounds, ours, theirs) {
  let sink = 0;
  const sides = [ours, theirs].map((run) => {
    let next = 0;
    const round = (calls) => {
      const begin = performance.now();
      for (let call = 0; call < calls; call += 1) {
        const result = run(rotation[next++ % rotation.length]);
        sink += result.length ?? result.count ?? result;
      }
      return performance.now() - begin;
    };
    // The first calls let the compilers finish; then as many as a round has time for.
    let calls = 1;
    let took = round(Math.max(2, Math.ceil(ROUND / n)));
    while ((took = round(calls)) < ROUND_MS / 2 && calls < 1 << 20) calls *= 2;
    calls = Math.max(1, Math.round((calls * ROUND_MS) / took));
    return { round, calls, times: [] };
  });
  for (let at = 0; at < rounds; at += 1)
    for (const { round, calls, times } of sides) times.push((round(calls) * 1e6) / (calls * n));
  if (!(sink > 0)) throw new Error('nothing was done');
  const [ns, msgpack_ns] = sides.map(({ times }) => median(times));
  return { ns, msgpack_ns, vs_msgpack: msgpack_ns / ns };
}

/**
 * The statistics message of the console with `n` sessions: its columns as Float64Array, as the
 * console wants them. Per row of 15 columns.
 */
function statistics(arrays, msgpack, n, rounds) {
  const single = (_, row) => (row % 3 === 0 ? Number.NaN : Math.fround(row / 7));
  const columns = { loss_percent: single, rtt_ms: single, jitter_ms: single };
  for (const [name, bits] of Object.entries({
    worker: 2,
    serial: 18,
    stream: 6,
    role: 1,
    protocol: 3,
    connected_ms: 24,
    bits_per_second: 23,
    packets: 20,
    packets_per_second: 10,
    lost_packets: 5,
    queue_bytes: 12,
    queue_ms: 8,
    dropped_frames: 3,
  }))
    columns[name] = () => Math.floor(Math.random() * 2 ** bits);
  const map = Object.fromEntries(
    Object.entries(columns).map(([name, value]) => [name, Array.from({ length: n }, value)]),
  );
  const bytes = new msgpack.Encoder({ forceFloat32: true }).encode(map);
  const decoder = new msgpack.Decoder();
  const theirs = () => {
    const read = {};
    for (const [name, values] of Object.entries(decoder.decode(bytes))) {
      const column = new Float64Array(n);
      for (let row = 0; row < n; row += 1) column[row] = values[row];
      read[name] = column;
    }
    return read;
  };
  const text = new TextDecoder();
  const ours = () => {
    const read = {};
    let at = bytes[0] === 0xde ? 3 : 1;
    while (at < bytes.length) {
      const begin = at + 1;
      const end = begin + (bytes[at] & 0x1f);
      const name = text.decode(bytes.subarray(begin, end));
      const column = arrays.decodeAt(name in SINGLES ? Float32Array : Uint32Array, bytes, end);
      read[name] = new Float64Array(column.values);
      at = column.end;
    }
    return read;
  };
  const SINGLES = { loss_percent: 1, rtt_ms: 1, jitter_ms: 1 };
  const [a, b] = [ours(), theirs()];
  for (const name of Object.keys(map))
    if (a[name].some((value, row) => !Object.is(value, b[name][row]))) throw new Error(`${name} differs`);
  const rotation = [{}];
  const counted = (run) => () => ({ count: Object.keys(run()).length });
  return compare(rotation, n, rounds, counted(ours), counted(theirs));
}

function random(Type, n) {
  // No whole ones: @msgpack/msgpack writes those as integers.
  if (Type === Float32Array || Type === Float64Array)
    return Type.from({ length: n }, () => Math.random() * 0.998 + 0.001);
  const values = new Type(n);
  const words = new Uint32Array(values.buffer);
  for (let at = 0; at < words.length; at += 1) words[at] = Math.floor(Math.random() * 2 ** 32);
  return values;
}

function median(times) {
  const sorted = times.toSorted((a, b) => a - b);
  return sorted[sorted.length >> 1];
}
