import { OperatorError } from '../../runtime/index.js';
import { ChainGenerator } from '../chain/ChainGenerator.js';
import type { DevnetOptions } from './devnetOptions.js';

/** Several consecutive sporks of one network. */
export interface SporksDescription {
  /** Seed of the first spork; each next one adds 1. Default 1. */
  readonly seed?: number;
  /** Root height of the first spork. Default 0. */
  readonly rootHeight?: number;
  /**
   * Where each spork but the last ends: the last height the next one builds on, and how many finalized blocks
   * above it were discarded (default 0). The next root is one above `lastHeight`.
   */
  readonly ends: readonly { readonly lastHeight: number; readonly discarded?: number }[];
  /** Options shared by all nodes: chain id, profile, faults and so on. */
  readonly common?: Omit<
    DevnetOptions,
    'seed' | 'rootHeight' | 'rootParentId' | 'endHeight' | 'endSealedHeight'
  >;
}

/**
 * The options of one devnet per spork: heights continue, each root's parent is the last block of the spork before,
 * spork ids differ, and the heads of all sporks but the last are fixed.
 *
 * Expected errors: `OperatorError('configuration')` for ends that do not ascend.
 */
export function consecutiveSporks(description: SporksDescription): DevnetOptions[] {
  const { seed = 1, ends, common = {} } = description;
  const sporks: DevnetOptions[] = [];
  let next: Pick<DevnetOptions, 'rootHeight' | 'rootParentId'> = { rootHeight: description.rootHeight ?? 0 };
  for (const [index, { lastHeight, discarded = 0 }] of ends.entries()) {
    if (lastHeight < (next.rootHeight ?? 0)) {
      throw new OperatorError(
        'configuration',
        `Spork ${index + 1} ends at height ${lastHeight}, below its root height ${next.rootHeight ?? 0}: heights must ascend.`,
      );
    }
    const endHeight = lastHeight + discarded;
    const spork: DevnetOptions = {
      ...common,
      ...next,
      seed: seed + index,
      endHeight,
      endSealedHeight: lastHeight,
      startHead: endHeight,
    };
    sporks.push(spork);
    next = { rootHeight: lastHeight + 1, rootParentId: new ChainGenerator(spork).blockId(lastHeight) };
  }
  sporks.push({ ...common, ...next, seed: seed + ends.length });
  return sporks;
}
