import { hash } from 'node:crypto';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { HoldBytes } from '../limits/heldBytes.js';
import { ApiError } from '../view/ApiError.js';
import { JSON_TYPE, type HttpResponse, type StreamingResponse } from './types.js';

const gzipped = promisify(gzip);

/** Smaller responses are sent uncompressed. */
const COMPRESSED_FROM_BYTES = 16 * 1024;
/** Concurrent compressions. They run in the threads that also read the store. */
const MAX_COMPRESSING = 1;
/** The cheapest. */
const LEVEL = 1;
const CHUNK_BYTES = 64 * 1024;

/** The tag of a response: 132 bits of the hash of its text. */
const TAG_CHARACTERS = 22;
/** Ends the tag of a compressed response: a strong tag belongs to one sequence of bytes. */
const GZIP_SUFFIX = '-gzip';
/** The longest that a cache may keep anything. */
const FOREVER_SECONDS = 31_536_000;

/** The Cache-Control header for each value of `kept`. */
const CONTROLS = {
  forever: `public, max-age=${FOREVER_SECONDS}, immutable`,
  revalidated: 'no-cache',
} as const;

/**
 * Turns what a handler returns into bytes and headers: caching, JSON, compression. The result gives the body, to be sent with the
 * headers set on `reply`; `undefined` when the caller already has the response, and a 304 was sent. `isPrivate`: callers had to
 * authenticate. Expected errors: ApiError (busy) when too much is held for callers already.
 */
export function responseWriter(hold: HoldBytes) {
  let compressing = 0;
  /** `undefined` when the text should be sent uncompressed, as all are while another one is being compressed. */
  const compress = async (text: string, acceptEncoding: string | undefined): Promise<Buffer | undefined> => {
    if (text.length < COMPRESSED_FROM_BYTES || !acceptsGzip(acceptEncoding)) return undefined;
    if (compressing >= MAX_COMPRESSING) return undefined;
    compressing += 1;
    try {
      return await gzipped(text, { level: LEVEL, chunkSize: CHUNK_BYTES });
    } finally {
      compressing -= 1;
    }
  };
  return async (
    response: HttpResponse,
    { headers, method, raw: { socket } }: FastifyRequest,
    reply: FastifyReply,
    isPrivate: boolean,
  ): Promise<string | Buffer | undefined> => {
    const { body, kept, contentType, headers: more, status = 200 } = response;
    const control = kept === undefined ? 'no-store' : CONTROLS[kept];
    if (more !== undefined) reply.headers(more);
    reply.headers({
      vary: variedBy(
        isPrivate ? 'accept-encoding, authorization' : 'accept-encoding',
        reply.getHeader('vary'),
      ),
      'cache-control': isPrivate ? privately(control) : control,
      'accept-ranges': 'bytes',
    });
    const text = contentType === undefined ? JSON.stringify(body) : String(body);
    const tag = kept && hash('sha256', text, 'base64url').slice(0, TAG_CHARACTERS);
    const etag = tag && heldTag(headers['if-none-match'], tag);
    if (etag !== undefined) {
      reply.code(304).header('etag', etag).send();
      return undefined;
    }
    // If these are not the bytes that the caller knows, it wants all of them.
    const isSame = (headers['if-range'] ?? `"${tag}"`) === `"${tag}"`;
    const part =
      method === 'GET' && status === 200 && isSame ? partOf(text, headers.range, reply) : undefined;
    let release = hold(text.length);
    const compressed = part === undefined ? await compress(text, headers['accept-encoding']) : undefined;
    if (compressed !== undefined) {
      release?.();
      release = hold(compressed.length);
    }
    if (release !== undefined) reply.raw.once('close', release);
    if (socket.destroyed) release?.();
    reply.code(part === undefined ? status : 206).header('content-type', contentType ?? JSON_TYPE);
    if (tag !== undefined) reply.header('etag', `"${tag}${compressed === undefined ? '' : GZIP_SUFFIX}"`);
    if (compressed === undefined) return part ?? text;
    reply.header('content-encoding', 'gzip');
    return compressed;
  };
}

/**
 * The bytes that `Range` asks for; sets `Content-Range`. `undefined`: all, as for several ranges, in other units, or from a byte
 * to one before it. Expected errors: ApiError (416, there are none).
 */
function partOf(text: string, range: string | undefined, reply: FastifyReply): Buffer | undefined {
  const [, first = '', last = ''] = /^bytes=(\d*)-(\d*)$/i.exec(range ?? '') ?? [];
  if (first + last === '' || (last !== '' && Number(last) < Number(first))) return undefined;
  const all = Buffer.from(text);
  const from = first === '' ? Math.max(0, all.length - Number(last)) : Number(first);
  const to = first === '' || last === '' ? all.length : Number(last) + 1;
  const part = all.subarray(from, to);
  const sent = part.length === 0 ? '*' : `${from}-${from + part.length - 1}`;
  reply.header('content-range', `bytes ${sent}/${all.length}`);
  if (part.length === 0) throw new ApiError(416, 'invalid_argument', `the response has ${all.length} bytes`);
  return part;
}

/** True when the caller names gzip, or `*`, with a weight above 0. */
function acceptsGzip(acceptEncoding = ''): boolean {
  const weights = new Map<string, number>();
  for (const item of acceptEncoding.split(',')) {
    const [coding = '', ...parameters] = item.split(';').map((part) => part.trim().toLowerCase());
    const weight = parameters.find((parameter) => parameter.startsWith('q='));
    weights.set(coding, weight === undefined ? 1 : Number(weight.slice('q='.length)));
  }
  return (weights.get('gzip') ?? weights.get('*') ?? 0) > 0;
}

/**
 * The tag in `If-None-Match`, quoted, if it is this response's, compressed or not; `undefined` when the caller does not
 * have the response. `*` matches any.
 */
function heldTag(ifNoneMatch: string | undefined, tag: string): string | undefined {
  const own = [`"${tag}"`, `"${tag}${GZIP_SUFFIX}"`];
  const given = (ifNoneMatch ?? '').split(',').map((item) => item.trim().replace(/^W\//, ''));
  const named = given.find((item) => item === '*' || own.includes(item));
  return named === '*' ? own[0] : named;
}

/** A Vary header with one more name, after those that others have set. */
export function variedBy(name: string | undefined, others: number | string | readonly string[] | undefined) {
  return [others, name].flat().filter(Boolean).join(', ');
}

/** The same Cache-Control for a restricted response: only its caller may keep it. */
export function privately(control: string): string {
  const directives = control.split(',').map((directive) => directive.trim());
  const kept = directives.filter((one) => !/^(?:|public|private\b.*|s-maxage\b.*)$/i.test(one));
  return kept.includes('no-store') ? 'no-store' : ['private', ...kept].join(', ');
}

/**
 * Begins an endless response; HEAD gets only its headers. The connection serves nothing after it. Expected
 * errors: ApiError; as `StreamingResponse.stream`.
 */
export function beginStream(
  { contentType, preamble, stream }: StreamingResponse,
  request: FastifyRequest,
  reply: FastifyReply,
  explain: (reason: unknown) => ApiError,
): void {
  const { raw } = reply;
  const headers = {
    'content-type': contentType,
    'cache-control': 'no-store',
    connection: 'close',
    // Asks proxies not to buffer the stream.
    'x-accel-buffering': 'no',
  };
  // A refusal ends the connection as well: it counts as one that lasts.
  reply.headers(headers);
  if (request.method === 'HEAD') {
    reply.send();
    return;
  }
  // Node.js gives the connection only to the first of several responses.
  if (raw.socket === null) {
    const message = 'a stream cannot wait behind another request: open a connection for it';
    throw new ApiError(429, 'rate_limited', message);
  }
  const leave = stream(raw, explain);
  reply.hijack();
  // A caller that half-closes cannot be distinguished from one that has left.
  const { socket } = request.raw;
  if (socket.readableEnded) socket.destroy();
  socket.once('end', () => socket.destroy());
  if (socket.destroyed) {
    leave();
    return;
  }
  raw.once('close', leave);
  raw.writeHead(200, headers);
  raw.write(preamble);
}
