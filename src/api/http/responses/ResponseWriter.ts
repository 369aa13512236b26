import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Held, HeldBytes } from '../../limits/HeldBytes.js';
import { cacheControl, GZIP_SUFFIX, heldTag, privately } from './cacheHeaders.js';
import { Compressor } from './Compressor.js';
import { JSON_TYPE } from '../types.js';
import type { HttpResponse } from '../types.js';

/** Turns what a handler returns into bytes and headers: caching, JSON, compression. */
export class ResponseWriter {
  readonly #held: HeldBytes;
  readonly #compressor = new Compressor();

  constructor(dependencies: { readonly held: HeldBytes }) {
    this.#held = dependencies.held;
  }

  /**
   * The body, to be sent with the headers set on `reply`; `undefined` when the caller already has the response, and a 304 was
   * sent. `isPrivate`: callers had to say who they are. Expected errors: ApiError (busy) when too much is held for callers
   * already.
   */
  async write(
    response: HttpResponse,
    { headers, raw: { socket } }: FastifyRequest,
    reply: FastifyReply,
    { isPrivate }: { readonly isPrivate: boolean },
  ): Promise<string | Buffer | undefined> {
    const { validity, contentType, headers: more, status = 200 } = response;
    const control = cacheControl(validity);
    const vary = variedBy(more?.['vary'], reply.getHeader('vary'));
    const caching = {
      ...more,
      vary: variedBy(isPrivate ? 'accept-encoding, authorization' : 'accept-encoding', vary),
      'cache-control': isPrivate ? privately(control) : control,
    };
    const etag = validity && heldTag(headers['if-none-match'], validity.tag);
    if (etag !== undefined) {
      // Fastify would send a Content-Length of 0, which is not that of the response.
      reply.hijack();
      reply.raw.writeHead(304, { ...caching, etag }).end();
      return undefined;
    }
    const body = 'build' in response ? response.build() : response.body;
    const text = contentType === undefined ? JSON.stringify(body) : String(body);
    const held = this.#held.hold(text.length);
    if (held !== undefined) releaseWhenSent(held, socket, reply.raw);
    const compressed = await this.#compressor.compress(text, headers['accept-encoding']);
    reply.code(status).headers({ ...caching, 'content-type': contentType ?? JSON_TYPE });
    if (validity !== undefined) {
      reply.header('etag', `"${validity.tag}${compressed === undefined ? '' : GZIP_SUFFIX}"`);
    }
    if (compressed === undefined) return text;
    held?.resize(compressed.length);
    reply.header('content-encoding', 'gzip');
    return compressed;
  }
}

function releaseWhenSent({ release }: Held, socket: Socket, response: ServerResponse): void {
  // A response that waits behind another is not told when its connection closes.
  socket.once('close', release);
  response.once('finish', () => {
    socket.removeListener('close', release);
    release();
  });
  if (socket.destroyed) release();
}

/** A Vary header with one more name, after those that others have set. */
export function variedBy(name: string | undefined, others: number | string | readonly string[] | undefined) {
  return [others, name].flat().filter(Boolean).join(', ');
}
