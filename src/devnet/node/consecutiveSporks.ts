import { OperatorError } from '../../runtime/index.js';
import { ChainGenerator } from '../chain/ChainGenerator.js';
import type { DevnetOptions } from './devnetOptions.js';

/** Several sporks of one network, one after the other. */
export interface SporksDescription {
  /** Seed of the first spork; each further one takes the next number. Default 1. */
  readonly seed?: number;
  /** Root height of the first spork. Default 0. */
  readonly rootHeight?: number;
  /**
   * Where each spork but the last ends: the last height that the next one builds on, and how many blocks above it were
   * finalized and then discarded (default 0). The next root stands one above `lastHeight`.
   */
  readonly ends: readonly { readonly lastHeight: number; readonly discarded?: number }[];
  /** What all nodes have in common: chain id, profile, faults and the rest. */
  readonly common?: Omit<
    DevnetOptions,
    'seed' | 'rootHeight' | 'rootParentId' | 'endHeight' | 'endSealedHeight'
  >;
}

/**
 * Options of one devnet for each of several consecutive sporks of one network: heights go on, the root's parent is the
 * last block of the spork before it, spork ids differ, and all sporks but the last stand still at their end.
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
