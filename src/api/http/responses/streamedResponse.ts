import type { FastifyReply, FastifyRequest } from 'fastify';
import { ApiError } from '../../view/ApiError.js';
import type { StreamedBody, StreamingResponse } from '../types.js';

/**
 * Begins an endless response; HEAD gets only its headers. The connection serves nothing after it. Expected
 * errors: ApiError; as `StreamingResponse.stream`.
 */
export function beginStream(
  { contentType, preamble, stream }: StreamingResponse,
  request: FastifyRequest,
  reply: FastifyReply,
  explain: StreamedBody['explain'],
): void {
  const { raw } = reply;
  const headers = {
    'content-type': contentType,
    'cache-control': 'no-store',
    connection: 'close',
    // Asks proxies not to buffer the stream.
    'x-accel-buffering': 'no',
  };
  if (request.method === 'HEAD') {
    reply.hijack();
    raw.writeHead(200, headers).end();
    return;
  }
  // Node.js gives the connection only to the first of several responses.
  if (raw.socket === null) {
    const message = 'a stream cannot wait behind another request: open a connection for it';
    throw new ApiError(429, 'rate_limited', message);
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
  if (request.raw.socket.destroyed) {
    leave();
    return;
  }
  raw.once('close', leave);
  raw.writeHead(200, headers);
  raw.write(preamble);
}
