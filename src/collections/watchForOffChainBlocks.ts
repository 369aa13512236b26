import type { AccessNode, BlockSource } from '../access/index.js';
import type { FinalizedBlock } from '../flow/index.js';
import { doublingMs, sleep, wasAborted, type Clock } from '../runtime/index.js';
import { OffChainBlockError } from './heights/OffChainBlockError.js';
import type { MissingCollectionQueue } from './heights/MissingCollectionQueue.js';

const LOOK_MS = 1_000;
/** Younger heights may just be early: collections arrive after their block, and execution data later still. */
const DOUBT_AFTER_MS = 5_000;
/** After this many "no such collection" (or "not yet") answers for one id, its block is in doubt. */
const NOT_FOUND_BEFORE_DOUBT = 3;
/** Pause before the nodes are asked again about a block. */
const AGAIN = { minMs: 2_000, maxMs: 30_000 };
/** How many other nodes it takes to refute a block whose source does not answer. */
const WITNESSES_AGAINST = 2;

interface BlockAnswer {
  readonly node: AccessNode;
  readonly block: FinalizedBlock;
}

/**
 * Asks the nodes again for the lowest block whose collections no node has. A liar can fill the whole window with blocks
 * that link and that no other node has: no block above that would contradict them is read, and none ever completes. Nor
 * does an unproven block with its right id but made-up guarantees. Resolves when the signal aborts. No expected errors.
 */
export async function watchForOffChainBlocks(
  {
    mcq,
    ask,
    clock,
    onOffChain,
  }: {
    readonly mcq: MissingCollectionQueue;
    /** Every node's block of a height. Expected errors: the signal's abort reason. */
    readonly ask: (height: number, signal: AbortSignal) => Promise<readonly BlockAnswer[]>;
    readonly clock: Clock;
    /** The block is not on the chain: the line has to start over. */
    readonly onOffChain: (error: OffChainBlockError) => void;
  },
  signal: AbortSignal,
): Promise<void> {
  let asked = { height: -1, times: 0, nextAtMs: 0 };
  try {
    for (;;) {
      await sleep(clock, LOOK_MS, signal);
      const lowest = mcq.lowest();
      const held = lowest === undefined ? undefined : mcq.get(lowest);
      if (held?.blockSource === undefined || clock.monotonic() - held.queuedAtMs < DOUBT_AFTER_MS) continue;
      const { block, blockSource, height } = held;
      const isKnown = asked.height === height;
      if (isKnown && clock.monotonic() < asked.nextAtMs) continue;
      const missing = mcq.missing(height);
      const isDenied = missing.some(({ notFound }) => notFound >= NOT_FOUND_BEFORE_DOUBT);
      // With `ediOnly` nothing is asked for.
      if (!isDenied && missing.some(({ isAskedFor }) => isAskedFor)) continue;
      const times = isKnown ? asked.times + 1 : 0;
      const answers = await ask(height, signal);
      asked = { height, times, nextAtMs: clock.monotonic() + doublingMs(AGAIN, times) };
      if (mcq.get(height) === held && held.block === block && isRefuted(block, blockSource, answers))
        onOffChain(new OffChainBlockError(height));
    }
  } catch (error) {
    if (!wasAborted(error, signal)) throw error;
  }
}

/**
 * True when all answers name one other block, and they include the source's or are at least two. For an unproven block,
 * other guarantees also make another block; a single proof of those is enough.
 */
function isRefuted(held: FinalizedBlock, blockSource: BlockSource, answers: readonly BlockAnswer[]): boolean {
  const nameOf = ({ id, collectionIds }: FinalizedBlock): string =>
    held.proof === undefined ? `${id} ${collectionIds.join()}` : id;
  const isAnother = ({ block }: BlockAnswer): boolean => nameOf(block) !== nameOf(held);
  // Only one block of an id can be proven.
  if (answers.some((each) => each.block.id === held.id && each.block.proof !== undefined && isAnother(each)))
    return true;
  const names = new Set(answers.map(({ block }) => nameOf(block)));
  if (names.size !== 1 || !answers.every(isAnother)) return false;
  return answers.length >= WITNESSES_AGAINST || answers.some(({ node }) => node.name === blockSource.name);
}
