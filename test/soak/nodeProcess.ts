// A simulated access node in a process of its own, steered by its parent: `SoakNodes`.
import { startDevnet } from '../../src/devnet/index.js';
import type { DevnetOptions, FaultRule } from '../../src/devnet/index.js';

/** What the parent says. */
export type Order =
  | { readonly kind: 'faults'; readonly rules: readonly FaultRule[] }
  /** Finalizes so many blocks at once. */
  | { readonly kind: 'leap'; readonly heights: number };

/** What it hears: the address once, then the head now and then. */
export type Word =
  { readonly kind: 'listens'; readonly port: number } | { readonly kind: 'head'; readonly height: number };

const HEAD_EVERY_MS = 200;

const tell = (word: Word): void => void process.send?.(word);
const devnet = await startDevnet(JSON.parse(process.argv[2] ?? '{}') as DevnetOptions);
const { node } = devnet;
process.on('message', (order: Order) => {
  if (order.kind === 'faults') node.setFaults(order.rules);
  else node.head.advance(order.heights);
});
process.once('disconnect', () => process.exit(0));
setInterval(() => tell({ kind: 'head', height: node.head.finalized }), HEAD_EVERY_MS);
tell({ kind: 'listens', port: devnet.port });
await devnet.finished;
