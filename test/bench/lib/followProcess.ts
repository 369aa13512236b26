// The process behind `startFollowers`: does as little as it can with what it hears, so that the daemon is measured.
import { credentials, makeGenericClientConstructor } from '@grpc/grpc-js';
import { get } from 'node:http';
import { WireWriter } from '../../../src/flow/index.js';
import { ownTask } from './processes.js';
import type { Arrival, FollowTask } from './readers.js';
import { nowMs } from './statistics.js';

const METHOD = '/flow_collection_indexer.v1.IndexAPI/SubscribeIndexedHeights';
const VARINT_BITS = 7;
const VARINT_MORE = 1 << VARINT_BITS;

const task = ownTask() as FollowTask;
const arrivals: Arrival[] = [];
let reading = task.followers;

function heard(height: number): void {
  arrivals.push([height, nowMs()]);
  if (height !== task.toHeight) return;
  reading -= 1;
  if (reading === 0) process.send?.(arrivals);
}

function followEvents(): Promise<void> {
  return new Promise((resolve, reject) => {
    get(
      { port: task.httpPort, host: '127.0.0.1', path: `/events?from=${task.fromHeight}`, agent: false },
      (response) => {
        resolve();
        let rest = '';
        response.setEncoding('utf8').on('data', (text: string) => {
          const events = (rest + text).split('\n\n');
          rest = events.pop() ?? '';
          for (const event of events) {
            const height = /^id: (\d+)/m.exec(event)?.[1];
            if (height !== undefined) heard(Number(height));
          }
        });
      },
    ).on('error', reject);
  });
}

function followStream(): Promise<void> {
  const Client = makeGenericClientConstructor({}, 'flow_collection_indexer.v1.IndexAPI');
  const client = new Client(`127.0.0.1:${task.grpcPort}`, credentials.createInsecure(), {
    'grpc.use_local_subchannel_pool': 1,
  });
  const stream = client.makeServerStreamRequest(
    METHOD,
    (height: number) => new WireWriter().number(1, height).finish(),
    (message: Buffer) => message,
    task.fromHeight,
  );
  stream.on('data', (message: Buffer) => heard(heightOf(message)));
  return new Promise((resolve, reject) => {
    stream.once('data', () => resolve());
    stream.on('error', reject);
  });
}

/** The first field of the first field: one byte of tag, a length, one byte of tag, the height. */
function heightOf(message: Buffer): number {
  const [, afterLength] = varint(message, 1);
  const [height] = varint(message, afterLength + 1);
  return height;
}

function varint(bytes: Buffer, from: number): readonly [value: number, end: number] {
  let value = 0;
  for (let at = from, scale = 1; ; at += 1, scale *= VARINT_MORE) {
    const byte = bytes[at] ?? 0;
    value += (byte % VARINT_MORE) * scale;
    if (byte < VARINT_MORE) return [value, at + 1];
  }
}

process.once('disconnect', () => process.exit(0));
await Promise.all(
  Array.from({ length: task.followers }, (_, index) => (index % 2 === 0 ? followEvents() : followStream())),
);
process.send?.('connected');
