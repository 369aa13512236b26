import { oddKinds } from '../../src/devnet/index.js';
import type { DevnetHandle } from '../../src/devnet/index.js';
import { atEnd } from './cleanup.js';
import { GrpcProbe } from './grpcProbe.js';
import { scratchDirectory } from './program.js';
import { devnetForTest, startArguments, startDaemon } from './runningDaemon.js';
import type { RunningDaemon } from './runningDaemon.js';

const ROOT = 100;
const HEAD = 127;
const SEALED = 117;
/** Once in how many blocks each odd thing comes. */
const ODD_EVERY = 14;

export interface OddChain {
  readonly node: DevnetHandle;
  /** Asks the node. */
  readonly client: GrpcProbe;
  readonly daemon: RunningDaemon;
  /** All of the chain, ascending: the first is the root, the last the finalized head. */
  readonly heights: readonly number[];
  readonly sealed: number;
}

/** A still chain in which every odd thing comes, and a daemon that has indexed all of it and knows what is sealed. */
export async function indexedOddChain(): Promise<OddChain> {
  const node = await devnetForTest({
    ...{ seed: 3, rootHeight: ROOT },
    profile: {
      ...{ base: 'mixed', bigCollectionBytes: 100_000 },
      odd: Object.fromEntries(oddKinds.map((kind) => [kind, ODD_EVERY])),
    },
    ...{ startHead: HEAD, sealedLag: HEAD - SEALED, paused: true },
  });
  const heights = Array.from({ length: HEAD - ROOT + 1 }, (_, index) => ROOT + index);
  const seen = new Set(heights.flatMap((height) => node.chain.block(height).odd));
  if (seen.size < oddKinds.length)
    throw new Error(`of the odd things this chain has only ${[...seen].join()}`);
  const client = new GrpcProbe(node.address);
  atEnd(() => client.close());
  const daemon = await startDaemon(startArguments(node, scratchDirectory(), '--start-height', 'root'));
  await daemon.reaches(HEAD);
  await daemon.statusUntil(({ sealed }) => sealed === SEALED);
  return { node, client, daemon, heights, sealed: SEALED };
}
