import type { AccessNodes, NodeTroubles } from '../../access/index.js';
import type { Logger } from '../../observability/index.js';
import type { Answer } from './BlockPoll.js';

/** Why a block is refused; also the label of `invalid_blocks_total`. */
export type RefusalReason = 'orphaned' | 'wrong_height' | 'parent_mismatch' | 'not_vouched';

/**
 * Handles refused blocks: each counts against its node, is named as the cause of the delay, and is logged once until a
 * block is accepted. Bounded by the nodes that are asked for one height.
 */
export class Refusals {
  readonly #nodes: AccessNodes;
  readonly #troubles: NodeTroubles;
  readonly #logger: Logger;
  readonly #logged = new Set<string>();

  constructor(dependencies: {
    readonly nodes: AccessNodes;
    readonly troubles: NodeTroubles;
    readonly logger: Logger;
  }) {
    this.#nodes = dependencies.nodes;
    this.#troubles = dependencies.troubles;
    this.#logger = dependencies.logger;
  }

  /** `awaited`: the height that was requested. */
  refuse(answer: Answer, reason: RefusalReason, awaited: number): void {
    const { node, method, block } = answer;
    this.name(answer, reason, awaited);
    this.#nodes.report(
      node,
      'lied',
      `block ${block.id} at height ${block.height} refused: ${reason}`,
      method,
    );
    // Not the block's own height: a liar could name a new one each time.
    const key = `${node.name} ${awaited} ${reason}`;
    const fields = { node: node.name, height: block.height, reason };
    if (this.#logged.has(key)) this.#logger.debug(fields, 'a block was refused');
    else this.#logger.warn(fields, 'a block was refused');
    this.#logged.add(key);
  }

  /** Names the cause of the delay without reporting a node: our own blocks may be wrong. */
  name({ node, method, block }: Answer, reason: RefusalReason, awaited: number): void {
    this.#troubles.note(node.name, method, 'invalid', saidOf(block.height, reason, awaited));
  }

  accepted(): void {
    if (this.#logged.size > 0) this.#logged.clear();
  }
}

function saidOf(height: number, reason: RefusalReason, awaited: number): string {
  switch (reason) {
    case 'orphaned':
      return `sent block ${height} off the finalized chain`;
    case 'wrong_height':
      return `sent a block of height ${height} for height ${awaited}`;
    case 'parent_mismatch':
      return `sent block ${height}, which does not follow block ${height - 1}`;
    case 'not_vouched':
      return `sent another block ${height} than the spork table confirms`;
  }
}
