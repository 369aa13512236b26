// The process behind `startTipNode`: a chain that grows by the clock, and tells its parent when each height was finalized
// and when the last of its collections was handed to gRPC, in milliseconds of the clock that all processes share.
import { startDevnet } from '../../../src/devnet/index.js';
import type { TipEvent, TipNodeOptions } from './tipNode.js';

const CACHE_BYTES = 2 * 1024 ** 3;

const { isHistoryMade = false, ...options } = JSON.parse(process.argv[2] ?? '{}') as TipNodeOptions;
const cache = isHistoryMade ? { cacheBytes: CACHE_BYTES } : {};
const devnet = await startDevnet({ ...cache, ...options, paused: true });
const { node, chain } = devnet;
if (isHistoryMade) {
  for (let height = 0; height <= node.head.finalized; height += 1) node.chain.executionData(height);
}
/** Of the heights near the head: what they consist of, found by any of their ids. */
const heights = new Map<string, number>();
let known = node.head.finalized;

const now = (): number => Number(process.hrtime.bigint()) / 1e6;
const tell = (event: TipEvent): void => void process.send?.(event);

node.head.onChange(() => {
  while (known < node.head.finalized) {
    known += 1;
    for (const { id } of chain.block(known).collections) heights.set(id, known);
    tell({ kind: 'finalized', height: known, atMs: now() });
  }
});

const { requests } = node;
const begin = requests.begin.bind(requests);
requests.begin = (method, subject) => {
  const done = begin(method, subject);
  const height = method === 'GetFullCollectionByID' ? heights.get(subject.id ?? '') : undefined;
  return () => {
    done();
    if (height !== undefined) tell({ kind: 'sent', height, atMs: now() });
  };
};
const sent = requests.sent.bind(requests);
requests.sent = (height) => {
  sent(height);
  // A stream of sealed blocks comes past each height once more, later.
  if (height > node.head.sealed) tell({ kind: 'sent', height, atMs: now() });
};

process.on('message', (message) => {
  if (message === 'resume') node.head.resume();
});
process.once('disconnect', () => process.exit(0));
process.stdout.write(`${devnet.address}\n`);
