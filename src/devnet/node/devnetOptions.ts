import { OperatorError } from '../../runtime/index.js';
import type { ChainOptions } from '../chain/ChainGenerator.js';
import type { FaultRule } from '../faults/faultRules.js';

/** How the node behaves, all defaults resolved; see `DevnetOptions`. */
export interface NodeOptions {
  readonly nodeRootHeight: number;
  readonly startHead: number;
  readonly endSealedHeight: number;
  readonly blockIntervalMs: number;
  readonly sealedLag: number;
  readonly executionDataLag: number;
  readonly collectionLagMs: number;
  readonly collectionLagSpreadMs: number;
  readonly ratePerSecond: number;
  readonly maxStreams: number;
  readonly sendTimeoutMs: number;
  readonly executionData: boolean;
  readonly executionDataSubscriptions: 'all' | 'deprecated';
  readonly executionDataAtRoot: boolean;
  readonly streams: boolean;
  readonly fullCollections: boolean;
  readonly indexedBlocks: boolean;
  readonly nodeVersionInfo: boolean;
  readonly faults: readonly FaultRule[];
}

/** Options of a simulated access node, all optional. */
export interface DevnetOptions extends ChainOptions {
  /** Address to listen on. Default `127.0.0.1`. */
  readonly host?: string;
  /** Port to listen on. Default 0: any free one. */
  readonly port?: number;
  /** Seed of the previous spork, whose last block is our root's parent, unless `rootParentId` is given. */
  readonly previousSeed?: number;
  /** The lowest height of this node; above the spork's root for a node that joined late. Default: `rootHeight`. */
  readonly nodeRootHeight?: number;
  /** Finalized head at the start. History costs no memory. Default: `rootHeight` + 1000. */
  readonly startHead?: number;
  /** With `endHeight`: the last sealed height; the next spork discarded the blocks above it. */
  readonly endSealedHeight?: number;
  /** Milliseconds between blocks; 0 = as fast as they are read. Default 800. */
  readonly blockIntervalMs?: number;
  /** Start with a paused head; `resume()` starts it. Default false. */
  readonly paused?: boolean;
  /** Blocks that the sealed head lags behind the finalized one. Default 4. */
  readonly sealedLag?: number;
  /** Blocks that execution data lags behind the sealed head; negative = ahead. Default 0. */
  readonly executionDataLag?: number;
  /** A block's collections are available this long after finalization ("please retry"). Default 0. */
  readonly collectionLagMs?: number;
  /** Mean of each collection's extra time, exponentially distributed. Default 0. */
  readonly collectionLagSpreadMs?: number;
  /** Unary calls per second and method, for all callers together. Default 0: no limit. */
  readonly ratePerSecond?: number;
  /** Maximum open streams of both services. Default 1000. */
  readonly maxStreams?: number;
  /** A stream ends when its reader takes nothing for this long. Default 30,000. */
  readonly sendTimeoutMs?: number;
  /** Serve the execution-data service. Default true. */
  readonly executionData?: boolean;
  /** `deprecated`: only `SubscribeExecutionData`, as nodes before 2024. Default `all`. */
  readonly executionDataSubscriptions?: 'all' | 'deprecated';
  /**
   * Streams from the root include the root block, which has no chunks; false: they begin one above, as on some nodes.
   * Default true.
   */
  readonly executionDataAtRoot?: boolean;
  /** Serve the subscriptions of the access service. Default true. */
  readonly streams?: boolean;
  /** Serve `GetFullCollectionByID`. Default true. */
  readonly fullCollections?: boolean;
  /** Play an indexer as well: serve `SubscribeIndexedBlocks`, with one block in each message. Default false. */
  readonly indexedBlocks?: boolean;
  /** Serve `GetNodeVersionInfo`. Default true. */
  readonly nodeVersionInfo?: boolean;
  /** Scripted faults; see `parseFaults`. Default: none. */
  readonly faults?: readonly FaultRule[];
  /** Memory for generated blocks. Default 64 MiB. */
  readonly cacheBytes?: number;
}

const DEFAULT_HISTORY_HEIGHTS = 1000;
/** Hashed all at once, before the head can be told: minutes, in which no signal ends it. */
const MAX_HASHED_HEIGHTS = 1_000_000;

/**
 * Fills in defaults and checks that the heights are consistent. Expected errors: `OperatorError('configuration')`.
 */
export function resolveNodeOptions(options: DevnetOptions): NodeOptions {
  const rootHeight = options.rootHeight ?? 0;
  const endHeight = options.endHeight ?? Number.MAX_SAFE_INTEGER;
  const nodeRootHeight = options.nodeRootHeight ?? rootHeight;
  const resolved: NodeOptions = {
    nodeRootHeight,
    startHead: options.startHead ?? Math.min(endHeight, rootHeight + DEFAULT_HISTORY_HEIGHTS),
    endSealedHeight: options.endSealedHeight ?? endHeight,
    blockIntervalMs: options.blockIntervalMs ?? 800,
    sealedLag: options.sealedLag ?? 4,
    executionDataLag: options.executionDataLag ?? 0,
    collectionLagMs: options.collectionLagMs ?? 0,
    collectionLagSpreadMs: options.collectionLagSpreadMs ?? 0,
    ratePerSecond: options.ratePerSecond ?? 0,
    maxStreams: options.maxStreams ?? 1000,
    sendTimeoutMs: options.sendTimeoutMs ?? 30_000,
    executionData: options.executionData ?? true,
    executionDataSubscriptions: options.executionDataSubscriptions ?? 'all',
    executionDataAtRoot: options.executionDataAtRoot ?? true,
    streams: options.streams ?? true,
    fullCollections: options.fullCollections ?? true,
    indexedBlocks: options.indexedBlocks ?? false,
    nodeVersionInfo: options.nodeVersionInfo ?? true,
    faults: options.faults ?? [],
  };
  const ordered: readonly (readonly [string, number])[] = [
    ['0', 0],
    ['the root height', rootHeight],
    ["the node's root height", nodeRootHeight],
    ['the head at the start', resolved.startHead],
    ['the end height', endHeight],
  ];
  for (const [place, [name, height]] of ordered.entries()) {
    const below = ordered[place - 1];
    if (!Number.isSafeInteger(height) || (below !== undefined && height < below[1])) {
      throw new OperatorError(
        'configuration',
        `The devnet's heights do not fit together: ${name} (${height}) must be a whole number, not below ${below?.[0] ?? '0'} (${below?.[1] ?? 0}).`,
      );
    }
  }
  const hashed = resolved.startHead - (options.previousSeed === undefined ? rootHeight : 0);
  if (options.hashedIds === true && hashed > MAX_HASHED_HEIGHTS)
    throw new OperatorError(
      'configuration',
      `The devnet would have to hash ${hashed} blocks, and takes at most ${MAX_HASHED_HEIGHTS}. Add --no-hashed-ids, or give less history.`,
    );
  if (resolved.endSealedHeight > endHeight || resolved.endSealedHeight < rootHeight) {
    throw new OperatorError(
      'configuration',
      `The devnet's heights do not fit together: the last sealed height (${resolved.endSealedHeight}) must be between the root height (${rootHeight}) and the end height (${endHeight}).`,
    );
  }
  return resolved;
}
