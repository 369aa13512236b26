import { mutated, noise, oddText } from './mutation.js';
import type { Choices } from './target.js';

/** HTTP/2 as no client would write it: frames put together by hand, and then spoilt. */

const PREFACE = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 'latin1');

const Frame = {
  data: 0,
  headers: 1,
  priority: 2,
  reset: 3,
  settings: 4,
  ping: 6,
  goAway: 7,
  credit: 8,
  more: 9,
};
const END_STREAM = 0x1;
const END_HEADERS = 0x4;

function frame(
  type: number,
  flags: number,
  stream: number,
  payload: Uint8Array,
  length = payload.length,
): Buffer {
  const header = Buffer.alloc(9);
  header.writeUIntBE(length & 0xff_ffff, 0, 3);
  header[3] = type;
  header[4] = flags;
  header.writeUInt32BE(stream >>> 0, 5);
  return Buffer.concat([header, payload]);
}

/** Headers as literals that are not to be remembered, with plain names and values of less than 127 bytes. */
function headerBlock(headers: readonly (readonly [string, string])[]): Buffer {
  const text = (value: string): Buffer => {
    const bytes = Buffer.from(value, 'latin1').subarray(0, 126);
    return Buffer.concat([Buffer.of(bytes.length), bytes]);
  };
  return Buffer.concat(
    headers.map(([name, value]) => Buffer.concat([Buffer.of(0), text(name), text(value)])),
  );
}

/** A message with the five bytes that gRPC puts before it. */
export function framedMessage(message: Uint8Array, { compressed = 0, length = message.length } = {}): Buffer {
  const prefix = Buffer.alloc(5);
  prefix[0] = compressed;
  prefix.writeUInt32BE(length >>> 0, 1);
  return Buffer.concat([prefix, message]);
}

/** What the server gives back once it has read everything before it. */
export const LAST_WORD = Buffer.from('the end.', 'latin1');
export const LAST_PING = frame(Frame.ping, 0, 0, LAST_WORD);

/** Everything that one connection sends. `paths` and `messages`: what a call may be about. */
export function connectionBytes(
  choices: Choices,
  { messages, paths }: { readonly messages: readonly Uint8Array[]; readonly paths: readonly string[] },
): Buffer {
  if (choices.once(20)) return noise(choices, choices.below(400));
  const settings = choices.once(3) ? oddSettings(choices) : Buffer.alloc(0);
  const frames = [frame(Frame.settings, 0, 0, settings)];
  for (let left = choices.few(12); left > 0; left -= 1) {
    frames.push(choices.once(3) ? oddFrame(choices) : call(choices, choices.of(paths), choices.of(messages)));
  }
  const body = Buffer.concat(frames);
  const spoilt = choices.once(2) ? mutated(choices, body, body) : body;
  return choices.once(15) ? spoilt : Buffer.concat([PREFACE, spoilt]);
}

function call(choices: Choices, path: string, message: Uint8Array): Buffer {
  const stream = choices.once(6) ? choices.below(2 ** 31) : 1 + 2 * choices.below(8);
  const headers: [string, string][] = [
    [':method', choices.once(12) ? choices.of(['GET', 'PUT', '', 'CONNECT']) : 'POST'],
    [':scheme', 'http'],
    [':path', choices.once(12) ? oddText(choices) : path],
    [':authority', 'x'],
    ['content-type', choices.once(12) ? oddText(choices) : 'application/grpc'],
    ['te', 'trailers'],
  ];
  for (let left = choices.below(4); left > 0; left -= 1) headers.push(oddHeader(choices));
  if (choices.once(15)) headers.reverse();
  const block = headerBlock(headers);
  const data = framedMessage(choices.once(3) ? mutated(choices, message, message) : message);
  const cut = choices.once(10) ? choices.below(block.length) : block.length;
  const head = frame(Frame.headers, cut < block.length ? 0 : END_HEADERS, stream, block.subarray(0, cut));
  const rest =
    cut < block.length ? frame(Frame.more, END_HEADERS, stream, block.subarray(cut)) : Buffer.alloc(0);
  return Buffer.concat([head, rest, frame(Frame.data, choices.once(8) ? 0 : END_STREAM, stream, data)]);
}

export function oddHeader(choices: Choices): [string, string] {
  return choices.of<(from: Choices) => [string, string]>([
    (from) => ['grpc-timeout', from.of(['1n', '0S', '99999999H', '-1S', '1', 'S', '1e3m', '999999999999S'])],
    (from) => ['grpc-encoding', from.of(['gzip', 'deflate', 'identity', 'br', '', 'snappy'])],
    (from) => ['grpc-accept-encoding', from.of(['gzip', ',,', 'identity;q=0'])],
    (from) => [`x-${from.below(9)}-bin`, from.of(['AAAA', '====', '!', 'A'])],
    (from) => ['x-large', 'a'.repeat(from.of([10, 120]))],
    () => ['authorization', 'Bearer x'],
    () => ['content-length', '-1'],
    () => ['transfer-encoding', 'chunked'],
    () => ['connection', 'close'],
  ])(choices);
}

function oddFrame(choices: Choices): Buffer {
  const stream = choices.of([0, 0, 1, 3, 2, 0x7fff_ffff]);
  const payload = noise(choices, choices.of([0, 1, 4, 5, 6, 8, 8, 9, 64]));
  const any = (types: number): [number, number] => [choices.below(types), choices.below(256)];
  switch (choices.below(10)) {
    case 0:
      return frame(Frame.ping, choices.below(2), 0, noise(choices, 8));
    case 1:
      return frame(Frame.reset, 0, 1 + 2 * choices.below(8), Buffer.alloc(4, choices.below(3)));
    case 2:
      return frame(Frame.credit, 0, choices.of([0, 1, 3]), Buffer.alloc(4, choices.of([0, 0x7f])));
    case 3:
      return frame(Frame.settings, choices.below(2), 0, oddSettings(choices));
    case 4:
      return frame(Frame.goAway, 0, 0, noise(choices, 8));
    case 5:
      return frame(Frame.priority, 0, stream, noise(choices, 5));
    case 6:
      // Headers that never come to an end.
      return Buffer.concat([
        frame(Frame.headers, 0, 1 + 2 * choices.below(8), headerBlock([[':method', 'POST']])),
        ...Array.from({ length: choices.of([1, 20, 300]) }, () =>
          frame(Frame.more, 0, 1, headerBlock([['a', 'b']])),
        ),
      ]);
    case 7:
      // Many calls given up at once.
      return Buffer.concat(
        Array.from({ length: choices.of([5, 150]) }, (_, nth) =>
          frame(Frame.reset, 0, 101 + 2 * nth, Buffer.alloc(4, 8)),
        ),
      );
    case 8:
      return frame(...any(256), stream, payload, choices.of([payload.length, 0, 0xff_ffff]));
    default:
      return frame(...any(10), stream, payload);
  }
}

function oddSettings(choices: Choices): Buffer {
  return Buffer.concat(
    Array.from({ length: choices.below(5) }, () => {
      const entry = Buffer.alloc(6);
      entry.writeUInt16BE(choices.below(9), 0);
      entry.writeUInt32BE(choices.of([0, 1, 100, 16_384, 65_535, 0x7fff_ffff, 0xffff_ffff]), 2);
      return entry;
    }),
  );
}
