import type { FastifyReply, FastifyRequest } from 'fastify';
import { ApiError } from '../view/ApiError.js';
import type { StreamingAnswer } from './types.js';

/**
 * Begins an answer that has no end of its own; HEAD gets its headers alone. The connection carries nothing behind it. Expected
 * errors: ApiError; as `StreamingAnswer.stream`.
 */
export function beginStream(
  { contentType, preamble, stream }: StreamingAnswer,
  request: FastifyRequest,
  reply: FastifyReply,
  explain: (reason: unknown) => unknown,
): void {
  const { raw } = reply;
  const { socket } = request.raw;
  const headers = {
    'content-type': contentType,
    'cache-control': 'no-store',
    connection: 'close',
    // Proxies that gather answers before they pass them on leave this one alone.
    'x-accel-buffering': 'no',
  };
  if (request.method === 'HEAD') {
    reply.hijack();
    raw.writeHead(200, headers).end();
    return;
  }
  // Node.js gives the connection to the first of several requests only.
  if (raw.socket === null) {
    throw new ApiError(
      429,
      'rate_limited',
      'a stream cannot wait behind another request: open a connection for it',
    );
  }
  const leave = stream({
    write: (text, onTaken) => {
      raw.write(text, (error) => {
        if (error === null || error === undefined) onTaken();
      });
    },
    end: () => raw.end(),
    cut: () => raw.destroy(),
    explain,
  });
  reply.hijack();
  if (socket.destroyed) {
    leave();
    return;
  }
  raw.once('close', leave);
  raw.writeHead(200, headers);
  raw.write(preamble);
}
