// Columns of many rows in PostgreSQL's binary form of an array, so that one prepared statement (`unnest`) writes all rows
// of a batch. Measured against COPY: equal for large batches, faster for small ones (docs/postgresql.md).

const HEADER_BYTES = 20;
const LENGTH_BYTES = 4;
/** Length of a null. */
const NULL = -1;

/** Object ids of the element types: the same in every PostgreSQL. */
const BYTEA = 17;
const INT8 = 20;
const INT4 = 23;
const TEXT = 25;
const TIMESTAMPTZ = 1184;

function header(elementType: number, length: number, bytes: number, hasNulls = false): Buffer {
  const array = Buffer.allocUnsafe(HEADER_BYTES + bytes);
  array.writeInt32BE(1, 0);
  array.writeInt32BE(hasNulls ? 1 : 0, 4);
  array.writeInt32BE(elementType, 8);
  array.writeInt32BE(length, 12);
  array.writeInt32BE(1, 16);
  return array;
}

/** An empty array has no dimension. */
function empty(elementType: number): Buffer {
  const array = Buffer.alloc(12);
  array.writeInt32BE(elementType, 8);
  return array;
}

export function int4Array(values: readonly number[]): Buffer {
  if (values.length === 0) return empty(INT4);
  const array = header(INT4, values.length, values.length * (LENGTH_BYTES + 4));
  let at = HEADER_BYTES;
  for (const value of values) {
    array.writeInt32BE(4, at);
    at = array.writeInt32BE(value, at + LENGTH_BYTES);
  }
  return array;
}

export function int8Array(values: readonly number[]): Buffer {
  return wideArray(INT8, values.map(BigInt));
}

/** Microseconds since 2000; `undefined`: not known. */
export function timestampArray(values: readonly (bigint | undefined)[]): Buffer {
  return wideArray(TIMESTAMPTZ, values);
}

function wideArray(elementType: number, values: readonly (bigint | undefined)[]): Buffer {
  if (values.length === 0) return empty(elementType);
  const hasNulls = values.includes(undefined);
  const array = header(elementType, values.length, values.length * (LENGTH_BYTES + 8), hasNulls);
  let at = HEADER_BYTES;
  for (const value of values) {
    if (value === undefined) {
      at = array.writeInt32BE(NULL, at);
      continue;
    }
    array.writeInt32BE(8, at);
    at = array.writeBigInt64BE(value, at + LENGTH_BYTES);
  }
  return array.subarray(0, at);
}

export function byteaArray(values: readonly Uint8Array[]): Buffer {
  return bytesArray(BYTEA, values);
}

export function textArray(values: readonly string[]): Buffer {
  return bytesArray(
    TEXT,
    values.map((value) => Buffer.from(value)),
  );
}

function bytesArray(elementType: number, values: readonly Uint8Array[]): Buffer {
  if (values.length === 0) return empty(elementType);
  let bytes = 0;
  for (const value of values) bytes += LENGTH_BYTES + value.length;
  const array = header(elementType, values.length, bytes);
  let at = HEADER_BYTES;
  for (const value of values) {
    at = array.writeInt32BE(value.length, at);
    array.set(value, at);
    at += value.length;
  }
  return array;
}
