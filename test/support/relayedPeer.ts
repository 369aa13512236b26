import * as grpc from '@grpc/grpc-js';
import { loadProtocol } from '../../src/devnet/index.js';
import { AccessServer } from './accessServer.js';
import type { StreamHandler, UnaryHandler } from './accessServer.js';
import { atEnd } from './cleanup.js';

/** Gives what an indexer answers, as `change` makes it, but for calls that it does not know. */
export async function relayedPeer(
  source: string,
  change: (method: string, answer: Buffer) => Buffer,
  unknown: readonly string[] = [],
): Promise<AccessServer> {
  const client = new grpc.Client(source, grpc.credentials.createInsecure());
  const unary: Record<string, UnaryHandler> = {};
  const streams: Record<string, StreamHandler> = {};
  for (const definition of Object.values(loadProtocol())) {
    if ('format' in definition) continue;
    for (const [method, { path, requestSerialize }] of Object.entries(definition)) {
      if (unknown.includes(method)) continue;
      const changed = (answer: Buffer) => change(method, answer);
      unary[method] = (request) =>
        new Promise((resolve, reject) =>
          client.makeUnaryRequest(path, requestSerialize, changed, request, (error, answer) =>
            answer === undefined ? reject(error ?? new Error('no answer')) : resolve(answer),
          ),
        );
      streams[method] = (request, call) => {
        const stream = client.makeServerStreamRequest(path, requestSerialize, changed, request);
        stream.on('data', (answer: Buffer) => call.write(answer));
        stream.on('error', (error) => call.emit('error', error));
        stream.on('end', () => call.end());
        call.on('cancelled', () => stream.cancel());
      };
    }
  }
  const server = await new AccessServer({ unary, streams }).start();
  atEnd(() => {
    server.stop();
    client.close();
  });
  return server;
}
