import type { Choices } from './target.js';

export const list = (text: string): string[] => text.split(' ');

const ODD_BYTES = [0x00, 0x01, 0x7f, 0x80, 0xff, 0x0a, 0x0d, 0x20, 0x22, 0x25, 0x2f, 0x0b, 0x0c, 0x3a];
const ODD_RUNS = [
  // Varints: the longest, one longer still, 2^31, 2^32, 2^53, 2^64 - 1, and zero written in two bytes.
  ...list('ffffffffffffffffff01 ffffffffffffffffffff01 8080808008 8080808010 8080808080808010'),
  ...list('ffffffffffffffffff7f 8000'),
  // The beginnings and ends of groups, field 0, and the wire types that mean nothing.
  ...list('0b 0c 00 06 07'),
].map((hex) => Buffer.from(hex, 'hex'));

const MAX_BYTES = 64 * 1024;

/** Changes a few bytes of a message, or many: flips, cuts, repeats, splices with another, odd values. */
export function mutated(choices: Choices, message: Uint8Array, other: Uint8Array): Buffer {
  let bytes: Buffer = Buffer.from(message);
  for (let left = choices.few(12); left > 0; left -= 1) bytes = changed(choices, bytes, other);
  return bytes.length > MAX_BYTES ? bytes.subarray(0, MAX_BYTES) : bytes;
}

function changed(choices: Choices, bytes: Buffer, other: Uint8Array): Buffer {
  const at = choices.below(bytes.length + 1);
  const to = Math.min(bytes.length, at + choices.below(choices.once(8) ? bytes.length + 1 : 8));
  const [head, middle, tail] = [bytes.subarray(0, at), bytes.subarray(at, to), bytes.subarray(to)];
  const from = choices.below(other.length + 1);
  return choices.of<() => Buffer>([
    () => withByte(bytes, at, (byte) => byte ^ (1 << choices.below(8))),
    () => withByte(bytes, at, () => choices.below(256)),
    () => withByte(bytes, at, () => choices.of(ODD_BYTES)),
    () => Buffer.concat([head, tail]),
    () => head,
    () => Buffer.concat([head, middle, middle, tail]),
    () => Buffer.concat([head, choices.of(ODD_RUNS), choices.once(2) ? tail : bytes.subarray(at)]),
    () => Buffer.concat([head, other.subarray(from, from + choices.below(64)), tail]),
    () => Buffer.concat([head, noise(choices, choices.below(16)), tail]),
  ])();
}

function withByte(bytes: Buffer, at: number, change: (byte: number) => number): Buffer {
  const byte = bytes[at];
  if (byte !== undefined) bytes[at] = change(byte);
  return bytes;
}

export function noise(choices: Choices, length: number): Buffer {
  return Buffer.from(Array.from({ length }, () => choices.below(256)));
}

const ODD_TEXTS = [
  ...['', ' ', '\u0000', '\n', '\r\n\r\n', '\u001b[2J', '\u202e', '\ud800', '😀', 'é', '٣', '1 GiB'],
  ...list(`" ' \\ % %00 %zz ../../../../etc/passwd [{()}] * ,,, -- - =`),
  ...list('__proto__ constructor toString hasOwnProperty null true false NaN Infinity'),
  ...list('-0 1e999 0x10 007 -1 1.5 9007199254740991 9007199254740992 18446744073709551616 128MiB'),
  ...['9'.repeat(32), 'a'.repeat(300), 'a'.repeat(70_000)],
  ...list('grpc://user:sesame@node:9000 grpc://[::1]:9000 grpc://[:::9000 node:99999'),
];

/** A short word that nobody expects, or one that looks right. */
export function oddText(choices: Choices): string {
  const often = () => choices.of(ODD_TEXTS);
  return choices.of([
    () => String(choices.below(5_000)),
    () => noise(choices, choices.below(12)).toString('latin1'),
    () => noise(choices, choices.below(12)).toString('utf8'),
    ...[often, often, often],
  ])();
}

export function misspelt(choices: Choices, text: string): string {
  let result = text;
  for (let left = choices.few(3); left > 0; left -= 1) {
    const at = choices.below(result.length + 1);
    const [head, tail] = [result.slice(0, at), result.slice(at)];
    const [first, rest] = [tail.slice(0, 1), tail.slice(1)];
    const odd = choices.of(['-', '_', '.', 'x', 'E', ' ', '=', ':', '\u0000', 'ß']);
    result = head + choices.of([rest, first + tail, odd + tail, first.toUpperCase() + rest]);
  }
  return result;
}

const ODD_VALUES: readonly unknown[] = [
  ...[null, true, 0, -1, 1.5, 2 ** 53, 1e300, '', '0', [], {}, [[]], 'ab'.repeat(32), 'latency', '*'],
];

/** A document in which a few values have changed, or, now and then, its text. `undefined`: it is no JSON any more. */
export function changedJson(choices: Choices, text: string, other: string): { value: unknown } | undefined {
  if (choices.once(20)) {
    try {
      return { value: JSON.parse(mutated(choices, Buffer.from(text), Buffer.from(other)).toString()) };
    } catch (error) {
      if (error instanceof SyntaxError) return undefined;
      throw error;
    }
  }
  const root: Record<string, unknown> = { value: JSON.parse(text) };
  for (let left = choices.few(4); left > 0; left -= 1) changeSomewhere(choices, root);
  // As it comes out of JSON: without holes in lists.
  return JSON.parse(JSON.stringify(root)) as { readonly value: unknown };
}

function changeSomewhere(choices: Choices, root: Record<string, unknown>): void {
  let parent: Record<string, unknown> = root;
  for (;;) {
    const keys = Object.keys(parent);
    if (keys.length === 0) return;
    const key = choices.of(keys);
    const value = parent[key];
    if (typeof value === 'object' && value !== null && !choices.once(12)) {
      parent = value as Record<string, unknown>;
      continue;
    }
    const what = choices.below(6);
    if (what === 0) Reflect.deleteProperty(parent, key);
    else if (what === 1) parent[choices.of(keys)] = structuredClone(value);
    else if (what === 2)
      put(parent, choices.once(3) ? oddText(choices) : misspelt(choices, key), structuredClone(value));
    else parent[key] = changedValue(choices, value);
    return;
  }
}

/** As a file would have it: `__proto__` is a key like any other. */
export function put(object: object, name: string, content: unknown): void {
  const how = { enumerable: true, configurable: true, writable: true };
  // The length of a list is none of its keys.
  if (!(Array.isArray(object) && name === 'length'))
    Object.defineProperty(object, name, { value: content, ...how });
}

function changedValue(choices: Choices, value: unknown): unknown {
  switch (choices.below(4)) {
    case 0:
      return structuredClone(choices.of(ODD_VALUES));
    case 1:
      return choices.once(2) ? oddText(choices) : noise(choices, choices.below(40)).toString('hex');
    default:
      if (typeof value === 'number') return value + choices.of([-1, 1, 256, 0.5]);
      if (typeof value === 'boolean') return !value;
      if (Array.isArray(value))
        return choices.once(2) ? value.toReversed() : [...(value as unknown[]), ...(value as unknown[])];
      return typeof value === 'string'
        ? mutated(choices, Buffer.from(value), Buffer.from(value)).toString('latin1')
        : [value];
  }
}
