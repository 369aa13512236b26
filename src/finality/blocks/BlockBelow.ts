import type { NodeTroubles, UpstreamError } from '../../access/index.js';
import type { Pause } from '../../runtime/index.js';
import { askForBlock } from '../forks/askForBlock.js';
import { BLOCK_CALL, type ChainDependencies } from '../ports.js';
import type { BlockHead } from '../../storage/index.js';

/** After this many rounds in which no node has the block, the range begins without it: the nodes' history may begin here. */
const ROUNDS_BEFORE_ABSENT = 3;
const ROUND_EVERY_MS = 1_000;

type Parts = Pick<ChainDependencies, 'nodes' | 'clock'> & {
  readonly height: number;
  /** The block above the range is indexed, and refutes a chain that is none of ours. */
  readonly isEndKnown: boolean;
  /** Why nodes do not answer. */
  readonly troubles: NodeTroubles;
  /** Between two rounds. */
  readonly pause: Pause;
};

/**
 * The block below a range, if the index does not have it: without it, nothing would show that the first block of the
 * range names a wrong parent. Asks the nodes until one gives it, or all say that they do not have it.
 */
export class BlockBelow {
  readonly #parts: Parts;
  readonly height: number;
  /** `undefined` during the search, and when no node has the block. */
  block: BlockHead | undefined;
  /** As many nodes gave another block as this one. */
  isDoubted = false;
  isSought = true;
  /** No node serves the range itself yet: they may have to complete their handshake. */
  isUnserved = false;
  /** Since when (monotonic milliseconds) as many nodes give one block there as another; `undefined` while they do not. */
  disputed: { readonly height: number; readonly sinceMs: number } | undefined;

  constructor(parts: Parts) {
    this.#parts = parts;
    this.height = parts.height;
  }

  /**
   * Resolves when the block is known, or known to be absent. Where nothing but the nodes says which chain the range is of, no
   * block is taken that as many contradict.
   * Expected errors: the signal's abort reason.
   */
  async find(signal: AbortSignal): Promise<void> {
    const { clock, height, isEndKnown, nodes, pause, troubles } = this.#parts;
    const onFailure = (error: UpstreamError): void => troubles.failed(error);
    for (let absences = 0; absences < ROUNDS_BEFORE_ABSENT;) {
      const { answers } = await askForBlock(nodes, height, signal, { onFailure });
      const most = mostGiven(answers.map(({ block }) => block));
      if (most !== undefined && (most.isMost || isEndKnown)) {
        this.block = most.block;
        this.isDoubted = !most.isMost;
        break;
      }
      this.disputed = most && (this.disputed ?? { height, sinceMs: clock.monotonic() });
      for (const { node } of answers)
        troubles.note(node.name, BLOCK_CALL, 'invalid', `gives another block ${height} than others`);
      const [node] = nodes.forHeight(height, BLOCK_CALL);
      this.isUnserved = nodes.forHeight(height + 1, BLOCK_CALL).length === 0;
      if (node !== undefined && troubles.all().length === 0)
        troubles.note(node.name, BLOCK_CALL, 'invalid', `gives no finalized block ${height}`);
      else if (!this.isUnserved && troubles.all().every(({ kind }) => kind === 'denied')) absences += 1;
      await pause.sleep(ROUND_EVERY_MS, signal);
    }
    this.isSought = this.isUnserved = false;
    this.disputed = undefined;
    troubles.clear();
  }
}

/** The block that most nodes give; in a tie, that of the best node. `isMost`: no other is given as often. */
function mostGiven<B extends BlockHead>(
  blocks: readonly B[],
): { readonly block: B; readonly isMost: boolean } | undefined {
  const votes = (block: B): number => blocks.filter(({ id }) => id === block.id).length;
  const most = Math.max(...blocks.map(votes));
  const [block, ...others] = blocks.filter((each) => votes(each) === most);
  return block && { block, isMost: others.every(({ id }) => id === block.id) };
}
