/**
 * Arrays of numbers between typed arrays and MessagePack, by a WebAssembly module with SIMD.
 *
 * The module has a workspace of fixed size and never allocates: arrays go through it in parts,
 * copied in and out here, so its memory is 320 KiB however long they are. Headers of arrays and
 * `bin` are read and written here. The module checks every number that it gets, so a mistake here
 * is a wrong answer at worst.
 */

/** What is wrong with bytes that should be an array of numbers. */
export class DecodeError extends Error {
  /**
   * @param {string} code
   * @param {string} message
   * @param {{ index?: number, marker?: number }} [details]
   */
  constructor(code, message, { index, marker } = {}) {
    super(message);
    this.name = 'DecodeError';
    this.code = code;
    this.index = index;
    this.marker = marker;
  }
}

// The types by their numbers in the module: `Kind` in src/workspace.rs.
const TYPES = [
  Int8Array,
  Int16Array,
  Int32Array,
  BigInt64Array,
  Uint8Array,
  Uint16Array,
  Uint32Array,
  BigUint64Array,
  Float32Array,
  Float64Array,
];
const BOOL = TYPES.length;
const KIND_OF_TYPE = new Map(TYPES.map((type, kind) => [type, kind]));
const KIND_OF_NAME = new Map(TYPES.map((type, kind) => [type.name, kind]));
KIND_OF_NAME.set('Uint8ClampedArray', KIND_OF_TYPE.get(Uint8Array));

// `Status` in src/workspace.rs.
const DONE = 0;
const WRONG_TYPE = 1;
const OUT_OF_RANGE = 2;

const COUNT_MAX = 0xffff_ffff;
/** Of an element, whatever its type: 8 bytes behind a marker. */
const LONGEST_FORM = 9;

// What every typed array answers, of whatever realm or subclass, and whatever has been put over it.
const typedArray = Object.getPrototypeOf(Uint8Array.prototype);
const getter = (name) => {
  const { get } = Object.getOwnPropertyDescriptor(typedArray, name);
  return (values) => Reflect.apply(get, values, []);
};
const nameOf = getter(Symbol.toStringTag);
const lengthOf = getter('length');

/** Encoder and decoder on one instance of the module; see `load`. */
export class MsgpackArrays {
  #exports;
  #report;
  /** The memory as bytes: it never grows, so that views of it stay valid. */
  #bytes;
  #inputs;
  #outputs;
  #outputAt;
  #inputSize;
  #outputSize;

  /** @param {WebAssembly.Instance} instance of the package's module */
  constructor(instance) {
    if (new Uint8Array(Uint16Array.of(1).buffer)[0] !== 1)
      throw new Error('msgpack-array does not work on big-endian machines');
    const exports = instance.exports;
    const { buffer } = exports.memory;
    this.#exports = exports;
    this.#report = new Uint32Array(buffer, exports.report(), 3);
    this.#bytes = new Uint8Array(buffer);
    this.#inputSize = exports.input_size();
    this.#outputSize = exports.output_size();
    this.#outputAt = exports.output();
    const views = (at, size) =>
      [...TYPES, Uint8Array].map((type) => new type(buffer, at, size / type.BYTES_PER_ELEMENT));
    this.#inputs = views(exports.input(), this.#inputSize);
    this.#outputs = views(this.#outputAt, this.#outputSize);
  }

  /** A typed array as a MessagePack array of its numbers, integers in their shortest form. */
  encode(values) {
    const kind = KIND_OF_NAME.get(nameOf(values));
    if (kind === undefined)
      throw new TypeError(
        'encode wants a typed array: Int8Array to BigUint64Array, Float32Array, Float64Array',
      );
    return this.#encode(kind, values);
  }

  /**
   * Writes a typed array to `bytes` at `offset`, and returns where it ends: into documents, and
   * without a new array, which often costs more than the encoding.
   */
  encodeInto(values, bytes, offset) {
    const kind = KIND_OF_NAME.get(nameOf(values));
    if (kind === undefined) throw new TypeError('encodeInto wants a typed array');
    const count = lengthOf(values);
    if (count > COUNT_MAX) throw new RangeError('a MessagePack array has at most 2^32 - 1 elements');
    checkedLength(bytes, offset);
    return this.#encodeParts(kind, values, count, bytes, offset);
  }

  /** A MessagePack array of booleans, of a Uint8Array (0 is false) or an array of booleans. */
  encodeBools(values) {
    const isBytes = nameOf(values) === 'Uint8Array';
    if (!isBytes && !Array.isArray(values))
      throw new TypeError('encodeBools wants a Uint8Array or an array of booleans');
    return this.#encode(BOOL, isBytes ? values : Uint8Array.from(values, (value) => (value ? 1 : 0)));
  }

  /** The array that `bytes` are as a whole, as a new typed array of the type `type`. */
  decode(type, bytes) {
    return whole(this.decodeAt(type, bytes, 0), bytes);
  }

  /** The array that begins at `offset`, and where it ends: `{ values, end }`. */
  decodeAt(type, bytes, offset) {
    const kind = KIND_OF_TYPE.get(type);
    if (kind === undefined)
      throw new TypeError(
        'decode wants the type of a typed array: Int8Array to BigUint64Array, Float64Array ...',
      );
    return this.#decode(kind, type, bytes, offset);
  }

  /**
   * Reads the array that begins at `offset` into the beginning of `values`, and returns how many
   * numbers it has and where it ends: `{ count, end }`. Without a new array this is up to twice as
   * fast.
   */
  decodeInto(values, bytes, offset) {
    const kind = KIND_OF_NAME.get(nameOf(values));
    if (kind === undefined) throw new TypeError('decodeInto wants a typed array');
    const length = checkedLength(bytes, offset);
    const { count, start } = arrayHeader(bytes, offset, length);
    if (count > length - start) throw truncated();
    if (count > lengthOf(values))
      throw new RangeError(`${count} elements do not go into ${lengthOf(values)}`);
    return { count, end: this.#decodeParts(kind, values, count, bytes, start) };
  }

  /** The array of booleans that `bytes` are as a whole, as 0 and 1. */
  decodeBools(bytes) {
    return whole(this.decodeBoolsAt(bytes, 0), bytes);
  }

  /** The array of booleans that begins at `offset`, and where it ends. */
  decodeBoolsAt(bytes, offset) {
    return this.#decode(BOOL, Uint8Array, bytes, offset);
  }

  #encode(kind, values) {
    const count = lengthOf(values);
    if (count > COUNT_MAX) throw new RangeError('a MessagePack array has at most 2^32 - 1 elements');
    const input = this.#inputs[kind];
    const bytes = this.#bytes;
    const at = this.#outputAt;
    const header = headerLength(count);
    if (count <= input.length) {
      input.set(values);
      const written = this.#encodePart(kind, count);
      writeHeader(bytes, at - header, count);
      return bytes.slice(at - header, at + written);
    }
    const longest = longestForm(kind);
    const out = new Uint8Array(header + count * longest);
    const length = this.#encodeParts(kind, values, count, out, 0);
    // What was never written to takes no memory yet on most systems, but a quarter of it could.
    return length < out.length * 0.75 ? out.slice(0, length) : out.subarray(0, length);
  }

  /** Writes header and elements to `out` at `offset`, and returns where they end. */
  #encodeParts(kind, values, count, out, offset) {
    const input = this.#inputs[kind];
    const at = this.#outputAt;
    const room = lengthOf(out);
    if (headerLength(count) > room - offset) throw noRoom();
    let end = offset + writeHeader(out, offset, count);
    for (let done = 0; done < count; done += input.length) {
      const part = count <= input.length ? values : values.subarray(done, done + input.length);
      input.set(part);
      const written = this.#encodePart(kind, lengthOf(part));
      if (written > room - end) throw noRoom();
      out.set(this.#bytes.subarray(at, at + written), end);
      end += written;
    }
    return end;
  }

  #encodePart(kind, count) {
    if (this.#exports.encode(kind, count) !== DONE) throw new Error('the module and its wrapper do not fit');
    return this.#report[1];
  }

  #decode(kind, type, bytes, offset) {
    const length = checkedLength(bytes, offset);
    const { count, start } = arrayHeader(bytes, offset, length);
    // Each element takes a byte at least, so nothing is allocated for what is only announced.
    if (count > length - start) throw truncated();
    const output = this.#outputs[kind];
    const input = this.#inputs[BOOL];
    // What is behind the longest forms of all elements is none of them.
    const most = Math.min(length, start + count * LONGEST_FORM);
    if (most - start <= this.#inputSize && count <= output.length) {
      // A view costs as much as a kilobyte that is copied.
      const isWhole = most === length && length <= this.#inputSize && start <= 1024;
      const part = isWhole ? bytes : bytes.subarray(start, most);
      input.set(part);
      const elements = this.#decodePart(kind, isWhole ? start : 0, lengthOf(part), count, 0);
      if (elements < count) throw truncated();
      return { values: output.slice(0, count), end: start + this.#report[1] };
    }
    const values = new type(count);
    return { values, end: this.#decodeParts(kind, values, count, bytes, start) };
  }

  /**
   * Decodes `count` elements from `start` on to the beginning of `values`, and returns where they
   * end.
   */
  #decodeParts(kind, values, count, bytes, start) {
    const input = this.#inputs[BOOL];
    const output = this.#outputs[kind];
    let done = 0;
    let end = start;
    while (done < count) {
      const part = bytes.subarray(end, end + this.#inputSize);
      const partLength = lengthOf(part);
      input.set(part);
      // Short forms become more than fits into the output at once.
      let from = 0;
      while (done < count && from < partLength) {
        const elements = this.#decodePart(kind, from, partLength, count - done, done);
        if (elements === 0) break;
        values.set(output.subarray(0, elements), done);
        done += elements;
        from += this.#report[1];
      }
      if (from === 0) throw truncated();
      end += from;
    }
    return end;
  }

  /** Decodes bytes `from` to `to` of the input, at most `wanted` elements, and returns how many. */
  #decodePart(kind, from, to, wanted, before) {
    const status = this.#exports.decode(kind, from, to, wanted);
    const report = this.#report;
    if (status === DONE) return report[0];
    const index = before + report[0];
    if (status === WRONG_TYPE) {
      const marker = report[2];
      throw new DecodeError(
        'wrong-type',
        `element ${index}: byte ${hex(marker)} begins a value of another type`,
        {
          index,
          marker,
        },
      );
    }
    if (status === OUT_OF_RANGE)
      throw new DecodeError(
        'out-of-range',
        `element ${index}: the wanted type cannot hold the value exactly`,
        {
          index,
        },
      );
    throw new Error('the module and its wrapper do not fit');
  }
}

/**
 * A Uint8Array or Int8Array as a MessagePack `bin`, which is its bytes behind a header. Needs no
 * module.
 */
export function encodeBin(values) {
  const name = nameOf(values);
  if (name !== 'Uint8Array' && name !== 'Int8Array' && name !== 'Uint8ClampedArray')
    throw new TypeError('encodeBin wants a Uint8Array or Int8Array');
  const count = lengthOf(values);
  if (count > COUNT_MAX) throw new RangeError('a MessagePack bin has at most 2^32 - 1 bytes');
  const size = count <= 0xff ? 1 : count <= 0xffff ? 2 : 4;
  const out = new Uint8Array(1 + size + count);
  out[0] = size === 1 ? 0xc4 : size === 2 ? 0xc5 : 0xc6;
  writeUnsigned(out, 1, size, count);
  out.set(values, 1 + size);
  return out;
}

/**
 * The bytes of the `bin` that `bytes` are as a whole: a view of them, no copy. A `bin` does not say
 * whether its bytes have signs: `type` is Uint8Array or Int8Array.
 */
export function decodeBin(type, bytes) {
  return whole(decodeBinAt(type, bytes, 0), bytes);
}

/** The bytes of the `bin` that begins at `offset`, as a view, and where it ends. */
export function decodeBinAt(type, bytes, offset) {
  if (type !== Uint8Array && type !== Int8Array)
    throw new TypeError('decodeBin wants Uint8Array or Int8Array');
  const length = checkedLength(bytes, offset);
  if (offset >= length) throw truncated();
  const marker = bytes[offset];
  const size = marker === 0xc4 ? 1 : marker === 0xc5 ? 2 : marker === 0xc6 ? 4 : 0;
  if (size === 0) throw new DecodeError('not-bin', `byte ${hex(marker)} does not begin a bin`, { marker });
  const start = offset + 1 + size;
  if (start > length) throw truncated();
  const count = readUnsigned(bytes, offset + 1, size);
  if (count > length - start) throw truncated();
  return { values: new type(bytes.buffer, bytes.byteOffset + start, count), end: start + count };
}

const moduleUrl = new URL('./msgpack-array.wasm', import.meta.url);

/**
 * Loads the module and returns an encoder and decoder. Without `source` the file beside this one is
 * loaded; else `source` is a URL of it, its bytes, a Response with them or a WebAssembly.Module.
 */
export async function load(source = moduleUrl) {
  const module =
    source instanceof WebAssembly.Module ? source : await WebAssembly.compile(await bytesOf(source));
  return new MsgpackArrays(await WebAssembly.instantiate(module, {}));
}

async function bytesOf(source) {
  if (source instanceof ArrayBuffer || ArrayBuffer.isView(source)) return source;
  if (typeof Response !== 'undefined' && source instanceof Response) return bodyOf(source);
  const url = new URL(source, import.meta.url);
  if (url.protocol !== 'file:') return bodyOf(await fetch(url));
  // Node's fetch reads no files. A name in a variable is left alone by bundlers for browsers.
  const files = 'node:fs/promises';
  const { readFile } = await import(/* @vite-ignore */ files);
  return readFile(url);
}

async function bodyOf(response) {
  if (!response.ok) throw new Error(`${response.url} cannot be loaded: status ${response.status}`);
  return response.arrayBuffer();
}

function whole({ values, end }, bytes) {
  const length = lengthOf(bytes);
  if (end !== length) throw new DecodeError('trailing', `${length - end} bytes behind the array`);
  return values;
}

/** The length of `bytes`, which have to be a Uint8Array with `offset` in it. */
function checkedLength(bytes, offset) {
  if (nameOf(bytes) !== 'Uint8Array') throw new TypeError('the bytes have to be a Uint8Array');
  const length = lengthOf(bytes);
  if (!Number.isInteger(offset) || offset < 0 || offset > length)
    throw new RangeError(`offset ${String(offset)} is not in the bytes`);
  return length;
}

/** How many elements the array at `offset` announces, and where the first one is. */
function arrayHeader(bytes, offset, length) {
  if (offset >= length) throw truncated();
  const marker = bytes[offset];
  if (marker >= 0x90 && marker <= 0x9f) return { count: marker & 0xf, start: offset + 1 };
  const size = marker === 0xdc ? 2 : marker === 0xdd ? 4 : 0;
  if (size === 0)
    throw new DecodeError('not-an-array', `byte ${hex(marker)} does not begin an array`, { marker });
  if (offset + 1 + size > length) throw truncated();
  return { count: readUnsigned(bytes, offset + 1, size), start: offset + 1 + size };
}

function headerLength(count) {
  return count <= 15 ? 1 : count <= 0xffff ? 3 : 5;
}

/** Writes the header of an array of `count` elements at `at`, and returns its length. */
function writeHeader(out, at, count) {
  const length = headerLength(count);
  out[at] = length === 1 ? 0x90 | count : length === 3 ? 0xdc : 0xdd;
  writeUnsigned(out, at + 1, length - 1, count);
  return length;
}

/** The longest form of an element. */
function longestForm(kind) {
  return kind === BOOL ? 1 : 1 + TYPES[kind].BYTES_PER_ELEMENT;
}

function writeUnsigned(out, at, size, value) {
  for (let byte = 0; byte < size; byte += 1) out[at + byte] = value >>> (8 * (size - 1 - byte));
}

function readUnsigned(bytes, at, size) {
  let value = 0;
  for (let byte = 0; byte < size; byte += 1) value = value * 0x100 + bytes[at + byte];
  return value;
}

function truncated() {
  return new DecodeError('truncated', 'the bytes end before the array does');
}

function noRoom() {
  return new RangeError('there is no room for all elements');
}

function hex(byte) {
  return `0x${byte.toString(16).padStart(2, '0')}`;
}
