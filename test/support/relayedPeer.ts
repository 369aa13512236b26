import { Client, credentials } from '@grpc/grpc-js';
import { loadProtocol } from '../../src/devnet/index.js';
import { atEnd } from './cleanup.js';
import { asItIs, RawNode, type RawHandler } from './rawNode.js';

/** Every call, as the node behind answers it until the end of the test; `change`: of what it answers. */
export function relayedFrom(
  source: string,
  change: (method: string, answer: Buffer) => Buffer = (_, answer) => answer,
): Record<string, RawHandler> {
  const client = new Client(source, credentials.createInsecure());
  atEnd(() => client.close());
  const handlers: Record<string, RawHandler> = {};
  for (const definition of Object.values(loadProtocol())) {
    if ('format' in definition) continue;
    for (const [method, { path }] of Object.entries(definition)) {
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
  return handlers;
}

/** Gives what an indexer answers, as `change` makes it, but for a call that it does not know. */
export function relayedPeer(
  source: string,
  change?: (method: string, answer: Buffer) => Buffer,
  unknown?: string,
): Promise<RawNode> {
  const known = Object.entries(relayedFrom(source, change)).filter(([path]) => !path.endsWith(`/${unknown}`));
  return RawNode.start(Object.fromEntries(known));
}
