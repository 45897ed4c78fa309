/** Types that a MessagePack array can become, each integer type from integers only. */
export type NumberArray =
  | Int8Array
  | Int16Array
  | Int32Array
  | BigInt64Array
  | Uint8Array
  | Uint16Array
  | Uint32Array
  | BigUint64Array
  | Float32Array
  | Float64Array;

/** The constructors of these types. */
export type NumberArrayType =
  | Int8ArrayConstructor
  | Int16ArrayConstructor
  | Int32ArrayConstructor
  | BigInt64ArrayConstructor
  | Uint8ArrayConstructor
  | Uint16ArrayConstructor
  | Uint32ArrayConstructor
  | BigUint64ArrayConstructor
  | Float32ArrayConstructor
  | Float64ArrayConstructor;

/** What a value of a constructor's type is. */
export type ArrayOf<T extends NumberArrayType> = InstanceType<T>;

/** Something that was read, and the offset of the first byte behind it. */
export interface Read<A> {
  values: A;
  end: number;
}

export type DecodeErrorCode =
  'truncated' | 'not-an-array' | 'not-bin' | 'wrong-type' | 'out-of-range' | 'trailing';

/** What is wrong with bytes that should be an array of numbers. */
export class DecodeError extends Error {
  readonly name: 'DecodeError';
  readonly code: DecodeErrorCode;
  /** Which element it is, with `wrong-type` and `out-of-range`. */
  readonly index: number | undefined;
  /** The byte that begins something else, with `wrong-type`, `not-an-array` and `not-bin`. */
  readonly marker: number | undefined;
}

/** Encoder and decoder on one instance of the module, whose memory is 320 KiB and never grows. */
export class MsgpackArrays {
  /** Of the package's module; `load` does this. */
  constructor(instance: WebAssembly.Instance);

  /**
   * A MessagePack array of the numbers, integers in their shortest form. Up to 2^32 - 1 of them.
   */
  encode(values: NumberArray | Uint8ClampedArray): Uint8Array<ArrayBuffer>;

  /**
   * Writes the same to `bytes` at `offset`, and returns where it ends. Fails with RangeError when
   * there is no room for all of it; some of `bytes` may have changed then.
   */
  encodeInto(values: NumberArray | Uint8ClampedArray, bytes: Uint8Array, offset: number): number;

  /** A MessagePack array of booleans; of bytes 0 is false, all others are true. */
  encodeBools(values: Uint8Array | readonly boolean[]): Uint8Array<ArrayBuffer>;

  /**
   * The array that `bytes` are as a whole. Every legal width of every value is read, if the type
   * holds the value exactly; fails with DecodeError.
   */
  decode<T extends NumberArrayType>(type: T, bytes: Uint8Array): ArrayOf<T>;

  /** The array that begins at `offset`, whatever is behind it; fails with DecodeError. */
  decodeAt<T extends NumberArrayType>(type: T, bytes: Uint8Array, offset: number): Read<ArrayOf<T>>;

  /**
   * Reads the array that begins at `offset` into the beginning of `values`, for callers who read
   * many: up to twice as fast as into a new array. Fails with DecodeError, and with RangeError when
   * there are more numbers than `values` has room for; some of `values` may have changed then.
   */
  decodeInto(values: NumberArray, bytes: Uint8Array, offset: number): { count: number; end: number };

  /** The array of booleans that `bytes` are as a whole, as 0 and 1; fails with DecodeError. */
  decodeBools(bytes: Uint8Array): Uint8Array<ArrayBuffer>;

  /** The array of booleans that begins at `offset`; fails with DecodeError. */
  decodeBoolsAt(bytes: Uint8Array, offset: number): Read<Uint8Array<ArrayBuffer>>;
}

/** Bytes as a MessagePack `bin`. */
export function encodeBin(values: Uint8Array | Int8Array | Uint8ClampedArray): Uint8Array<ArrayBuffer>;

/** A view of the bytes of the `bin` that `bytes` are as a whole; fails with DecodeError. */
export function decodeBin<T extends Uint8ArrayConstructor | Int8ArrayConstructor>(
  type: T,
  bytes: Uint8Array,
): InstanceType<T>;

/** A view of the bytes of the `bin` that begins at `offset`; fails with DecodeError. */
export function decodeBinAt<T extends Uint8ArrayConstructor | Int8ArrayConstructor>(
  type: T,
  bytes: Uint8Array,
  offset: number,
): Read<InstanceType<T>>;

/**
 * Loads the module. Without `source` it is the file beside the package's own; else its URL, its
 * bytes, a Response with them, or a WebAssembly.Module.
 */
export function load(
  source?: URL | string | BufferSource | Response | WebAssembly.Module,
): Promise<MsgpackArrays>;
