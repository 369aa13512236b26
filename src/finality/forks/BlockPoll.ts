import { answerOf, UpstreamError } from '../../access/index.js';
import type { AccessMethod, AccessNode, AccessNodes } from '../../access/index.js';
import type { FinalizedBlock, Identifier } from '../../flow/index.js';
import { BLOCK_CALL } from '../ports.js';

/** Deadline of one call: the verdict of a round, or even of two rounds, must come within ten seconds. */
const ASK_TIMEOUT_MS = 3_000;

/** Most nodes asked for one height. */
const MAX_NODES_ASKED = 8;

/** Most heights checked to find the last stored block that the nodes still confirm. */
const MAX_CONFIRMATIONS = 48;

export interface Answer {
  readonly node: AccessNode;
  /** The call that returned the block. */
  readonly method: AccessMethod;
  readonly block: FinalizedBlock;
}

/** Reads the id of a stored block; `undefined` when the store has none at this height. */
export type StoredBlockReader = (
  height: number,
) => { readonly id: Identifier } | undefined | Promise<{ readonly id: Identifier } | undefined>;

/** Asks the nodes for their blocks of a height, one unary call each, when blocks contradict each other. */
export class BlockPoll {
  readonly #nodes: AccessNodes;
  readonly #storedBlock: StoredBlockReader | undefined;
  readonly #onFailure: ((error: UpstreamError) => void) | undefined;

  constructor(dependencies: {
    readonly nodes: AccessNodes;
    readonly storedBlock?: StoredBlockReader | undefined;
    /** A node did not answer a question that went to every node. */
    readonly onFailure?: (error: UpstreamError) => void;
  }) {
    this.#nodes = dependencies.nodes;
    this.#storedBlock = dependencies.storedBlock;
    this.#onFailure = dependencies.onFailure;
  }

  /** Every node's finalized block of this height, best node first. `complete`: all of them answered. */
  async ask(
    height: number,
    signal: AbortSignal,
    known: readonly Answer[] = [],
  ): Promise<{ readonly answers: readonly Answer[]; readonly complete: boolean }> {
    const asked = this.#nodes.forHeight(height, BLOCK_CALL).slice(0, MAX_NODES_ASKED);
    const answers = await Promise.all(
      asked.map((node) => {
        const before = known.find((answer) => answer.node.name === node.name);
        return before === undefined
          ? this.#askNode(node, height, signal, this.#onFailure)
          : Promise.resolve(before);
      }),
    );
    const given = answers.filter((answer) => answer !== undefined);
    return { answers: given, complete: given.length === asked.length };
  }

  /**
   * The block on which the nodes agree below `upper`, which are answers for one height. A node counts only if its two
   * answers fit together: one whose upper block is not a child of its lower block contradicts itself. A node that does not
   * serve the upper height (its spork ends here) counts when any answer there is a child of its block. Resolves with
   * `undefined` when no node counts, or when they do not all name the same block.
   */
  async agreedParent(upper: readonly Answer[], signal: AbortSignal): Promise<FinalizedBlock | undefined> {
    const height = upper[0]?.block.height;
    if (height === undefined) return undefined;
    const { answers } = await this.ask(height - 1, signal);
    const serving = new Set(this.#nodes.forHeight(height).map(({ name }) => name));
    const consistent = answers.filter(({ node, block }) =>
      upper.some(
        (above) =>
          above.block.parentId === block.id && (above.node.name === node.name || !serving.has(node.name)),
      ),
    );
    const first = consistent[0]?.block;
    return consistent.every(({ block }) => block.id === first?.id) ? first : undefined;
  }

  /**
   * The highest stored height, below `watermark` and not below `lowest`, whose block the nodes still have; `undefined`
   * when it cannot be found within the bound. A spork discards the topmost blocks, so the search doubles its steps
   * downward, then halves the last one. Heights that nobody serves any more (those of the spork before the nodes' own)
   * only move the search upwards: their last block is confirmed as the parent of the first one that is served.
   */
  async highestConfirmed(
    watermark: number,
    lowest: number,
    signal: AbortSignal,
  ): Promise<number | undefined> {
    const mute = new Set<string>();
    let refused = watermark;
    let below: number | undefined;
    let confirmed: number | undefined;
    for (let step = 1, asked = 0; asked < MAX_CONFIRMATIONS; asked += 1) {
      const height =
        below === undefined ? Math.max(lowest, watermark - step) : Math.floor((below + refused) / 2);
      if (height >= refused || height === below) return confirmed;
      const verdict = await this.#confirms(height, signal, mute);
      if (verdict === false) {
        refused = height;
        step *= 2;
      } else {
        below = height;
        if (verdict === true) confirmed = height;
      }
    }
    return confirmed;
  }

  /** `undefined` when the height is not stored, or no node has it or the one above it. */
  async #confirms(height: number, signal: AbortSignal, mute: Set<string>): Promise<boolean | undefined> {
    const stored = await this.#storedBlock?.(height);
    if (stored === undefined) return undefined;
    const own = await this.#anyBlock(height, signal, mute);
    if (own !== undefined) return own.id === stored.id;
    const child = await this.#anyBlock(height + 1, signal, mute);
    return child === undefined ? undefined : child.parentId === stored.id;
  }

  /** The block of the best node that has one. `mute`: nodes that did not answer in time, and are not asked again. */
  async #anyBlock(
    height: number,
    signal: AbortSignal,
    mute: Set<string>,
  ): Promise<FinalizedBlock | undefined> {
    for (const node of this.#nodes.forHeight(height, BLOCK_CALL).slice(0, MAX_NODES_ASKED)) {
      if (mute.has(node.name)) continue;
      const answer = await this.#askNode(node, height, signal, ({ kind }) => {
        if (kind === 'deadline') mute.add(node.name);
      });
      if (answer !== undefined) return answer.block;
    }
    return undefined;
  }

  async #askNode(
    node: AccessNode,
    height: number,
    signal: AbortSignal,
    onFailure?: (error: UpstreamError) => void,
  ): Promise<Answer | undefined> {
    const options = { signal, timeoutMs: ASK_TIMEOUT_MS };
    const answer = await answerOf(this.#nodes, node, node.getBlockByHeight(height, options));
    if (answer instanceof UpstreamError) {
      onFailure?.(answer);
      return undefined;
    }
    const { block, status } = answer;
    return status === 'unknown' || block.height !== height ? undefined : { node, method: BLOCK_CALL, block };
  }
}
