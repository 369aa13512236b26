import { setTimeout as sleep } from 'node:timers/promises';
import { ChainGenerator, collectionLagMs, type DevnetOptions } from '../../../src/devnet/index.js';
import { startDaemon } from './daemon.js';
import { HttpConnection } from './HttpConnection.js';
import { startTipNode } from './node.js';
import { freshDirectory } from './processes.js';
import { nowMs } from './statistics.js';

/** A node that has a block's collections some time after the block, as it was measured on a network: p50 105 ms, p90 242 ms. */
const FRESH = { collectionLagMs: 46, collectionLagSpreadMs: 85, blockIntervalMs: 500 };

const POLL_MS = 1;
const SEALED_LAG = 8;
const REQUESTED = 'collections_requested_total';

export interface FreshOptions {
  readonly profile: NonNullable<DevnetOptions['profile']>;
  /** What its blocks hash to, and who signs them. Default: ids are made up. */
  readonly chain?: Pick<DevnetOptions, 'seed' | 'hashedIds' | 'certificatesEvery'>;
  readonly history: number;
  readonly warmUpHeights: number;
  readonly heights: number;
  readonly flags?: readonly string[];
}

/** By single calls alone. `lateMs`, per height: from the node's having the last of its collections to the first 200 for it. */
export async function followFresh(options: FreshOptions) {
  const { profile, history, warmUpHeights, heights } = options;
  const made = { ...options.chain, profile };
  const node = await startTipNode({ ...FRESH, ...made, startHead: history, sealedLag: SEALED_LAG });
  const dataDir = freshDirectory();
  const daemon = await startDaemon({
    ...{ node: node.address, mode: 'requester-only', dataDir, flags: options.flags ?? [] },
  });
  await daemon.reaches(history);
  const connection = await HttpConnection.open(daemon.apiPort);
  const chain = new ChainGenerator(made);
  node.pace();
  const lateMs: number[] = [];
  const first = history + warmUpHeights + 1;
  let requested = 0;
  let collections = 0;
  let hasAllAtMs = 0;
  let mainThreadMs = 0;
  for (let height = history + 1; height < first + heights; height += 1) {
    if (height === first) {
      requested = (await daemon.metrics()).sum(REQUESTED);
      mainThreadMs = daemon.mainThreadMs();
    }
    const own = chain.block(height).collections;
    const finalizedMs = await node.finalized(height);
    const lagMs = Math.max(0, ...own.map(({ id }) => collectionLagMs(FRESH, id)));
    // A height waits for the one below it.
    hasAllAtMs = Math.max(hasAllAtMs, finalizedMs + lagMs);
    const [any] = own;
    if (any === undefined) continue;
    while ((await connection.get(`/v1/collections/${any.id}`)) !== 200) await sleep(POLL_MS);
    if (height < first) continue;
    lateMs.push(nowMs() - hasAllAtMs);
    collections += own.length;
  }
  const mainThreadMsPerHeight = (daemon.mainThreadMs() - mainThreadMs) / heights;
  requested = (await daemon.metrics()).sum(REQUESTED) - requested;
  connection.close();
  await daemon.ends('SIGTERM');
  node.close();
  return { lateMs, callsPerCollection: requested / collections, mainThreadMsPerHeight };
}
