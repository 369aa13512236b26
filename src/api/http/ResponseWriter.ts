import type { FastifyReply, FastifyRequest } from 'fastify';
import { Compressor } from './Compressor.js';
import type { ResponseBuffer } from './ResponseBuffer.js';
import type { HttpAnswer } from './types.js';
import { cacheControl, GZIP_SUFFIX, heldTag } from './cacheHeaders.js';

export const JSON_TYPE = 'application/json; charset=UTF-8';

/** Turns what a handler answers into what is sent: how long it holds true, as JSON, compressed where that is wanted. */
export class ResponseWriter {
  readonly #held: ResponseBuffer;
  readonly #compressor = new Compressor();

  constructor(dependencies: { readonly held: ResponseBuffer }) {
    this.#held = dependencies.held;
  }

  /**
   * The body, to be sent with the headers that are set on `reply`; `undefined` when the caller holds the answer already, and
   * has been told so. Expected errors: ApiError (503) when too much is held for callers already.
   */
  async write(
    answer: HttpAnswer,
    request: FastifyRequest,
    reply: FastifyReply,
  ): Promise<string | Buffer | undefined> {
    const { validity } = answer;
    const { headers } = request;
    const vary = variedBy('accept-encoding', reply.getHeader('vary'));
    const kept = { vary, 'cache-control': cacheControl(validity) };
    reply.headers(kept);
    if (validity !== undefined) {
      const tag = heldTag(headers['if-none-match'], validity.tag);
      if (tag !== undefined) {
        // Whoever sends no body through Fastify sends a Content-Length of 0, which is not that of the answer.
        reply.hijack();
        reply.raw.writeHead(304, { ...kept, etag: tag }).end();
        return undefined;
      }
    }
    const body = 'build' in answer ? answer.build() : answer.body;
    const text = answer.contentType === undefined ? JSON.stringify(body) : String(body);
    const heldBytes = this.#held.hold(text.length, request.raw.socket, reply.raw);
    const compressed = await this.#compressor.compress(text, headers['accept-encoding']);
    reply.code(answer.status ?? 200).header('content-type', answer.contentType ?? JSON_TYPE);
    if (compressed !== undefined) {
      heldBytes.become(compressed.length);
      reply.header('content-encoding', 'gzip');
    }
    if (validity !== undefined) {
      reply.header('etag', `"${validity.tag}${compressed === undefined ? '' : GZIP_SUFFIX}"`);
    }
    return compressed ?? text;
  }
}

/** A Vary header with one more name, behind what others found to vary by. */
export function variedBy(name: string | undefined, others: number | string | readonly string[] | undefined) {
  return [others, name].flat().filter(Boolean).join(', ');
}
