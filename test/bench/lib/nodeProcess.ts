// The process behind a simulated node: makes the history that is wanted, then prints its address and serves until it is killed.
import { startDevnet } from '../../../src/devnet/index.js';
import type { NodeEvent, NodeTask } from './node.js';
import { ownTask } from './processes.js';
import { nowMs } from './statistics.js';

const CACHE_BYTES = 4 * 1024 ** 3;

const { isWatched = false, madeTo, options } = ownTask() as NodeTask;
const devnet = await startDevnet({ cacheBytes: CACHE_BYTES, ...options });
const { chain, head, requests } = devnet.node;
for (let height = 0; height <= madeTo; height += 1) chain.executionData(height);
process.on('message', () => {
  head.pause();
  head.set(options.startHead ?? 0);
  head.resume();
});
process.once('disconnect', () => process.exit(0));
if (isWatched) watch();
process.stdout.write(`${devnet.address}\n`);

/** Tells the parent when each height was finalized, and when the last of its collections was handed to gRPC. */
function watch(): void {
  /** Of the heights near the head: what they consist of, found by any of their ids. */
  const heights = new Map<string, number>();
  let known = head.finalized;
  const tell = (kind: NodeEvent['kind'], height: number): void =>
    void process.send?.({ kind, height, atMs: nowMs() } satisfies NodeEvent);
  head.onChange(() => {
    while (known < head.finalized) {
      known += 1;
      for (const { id } of devnet.chain.block(known).collections) heights.set(id, known);
      tell('finalized', known);
    }
  });
  const begin = requests.begin.bind(requests);
  requests.begin = (method, subject) => {
    const done = begin(method, subject);
    const height = method === 'GetFullCollectionByID' ? heights.get(subject.id ?? '') : undefined;
    return () => {
      done();
      if (height !== undefined) tell('sent', height);
    };
  };
  const sent = requests.sent.bind(requests);
  requests.sent = (height) => {
    sent(height);
    // A stream of sealed blocks comes past each height once more, later.
    if (height > head.sealed) tell('sent', height);
  };
}
