import type { FastifyReply, FastifyRequest } from 'fastify';
import { sleep } from '../runtime/index.js';
import type { Clock } from '../runtime/index.js';
import { Compressor } from './Compressor.js';
import type { HeldAnswers } from './HeldAnswers.js';
import type { HttpAnswer } from './http.js';
import { jsonInTurns } from './jsonInTurns.js';
import { cacheControl, GZIP_SUFFIX, heldTag } from './validity.js';

export const JSON_TYPE = 'application/json; charset=UTF-8';

/** Turns what a handler answers into what is sent: how long it holds true, as JSON, compressed where that is wanted. */
export class AnswerWriter {
  readonly #held: HeldAnswers;
  readonly #clock: Clock;
  readonly #compressor = new Compressor();

  constructor(dependencies: { readonly held: HeldAnswers; readonly clock: Clock }) {
    this.#held = dependencies.held;
    this.#clock = dependencies.clock;
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
    const kept = { vary: 'accept-encoding', 'cache-control': cacheControl(validity) };
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
    const text =
      answer.contentType === undefined ? await jsonInTurns(body, () => sleep(this.#clock, 0)) : String(body);
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
