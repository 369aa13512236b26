import { Client, credentials } from '@grpc/grpc-js';
import { loadProtocol } from '../../src/devnet/index.js';
import { atEnd } from './cleanup.js';
import { asItIs, RawNode } from './rawNode.js';
import type { RawHandler } from './rawNode.js';

/** Gives what an indexer answers, as `change` makes it, but for calls that it does not know. */
export async function relayedPeer(
  source: string,
  change: (method: string, answer: Buffer) => Buffer,
  unknown: readonly string[] = [],
): Promise<RawNode> {
  const client = new Client(source, credentials.createInsecure());
  const handlers: Record<string, RawHandler> = {};
  for (const definition of Object.values(loadProtocol())) {
    if ('format' in definition) continue;
    for (const [method, { path }] of Object.entries(definition)) {
      if (unknown.includes(method)) continue;
      handlers[path] = (call, request) => {
        const changed = (answer: Buffer) => change(method, answer);
        const relayed = client.makeServerStreamRequest(path, asItIs, changed, request);
        relayed.on('data', (answer: Buffer) => call.write(answer));
        relayed.on('error', (error) => call.emit('error', error));
        relayed.on('end', () => call.end());
        call.on('cancelled', () => relayed.cancel());
      };
    }
  }
  const node = await RawNode.start(handlers);
  atEnd(() => client.close());
  return node;
}
