import type { AccessMethod, AccessNodes } from '../../access/index.js';
import type { FinalizedBlock } from '../../flow/index.js';
import { blockToJob } from '../../jobqueue/index.js';
import type { BlockJob } from '../../jobqueue/index.js';
import type { Logger } from '../../observability/index.js';
import type { Answer, BlockPoll } from './BlockPoll.js';
import type { Giver, LinkedBlocks } from './LinkedBlocks.js';
import type { FinalityMetrics } from '../ports.js';

/** Different lists that one node may be remembered with, per height; one that gives more is a liar by any of them. */
const MAX_LISTS_PER_NODE = 4;

/** What came of asking the nodes again for a block whose guarantees are in doubt. */
export interface BlockVerdict {
  /**
   * `exchanged`: other guarantees took the place of those held. `upheld`: other nodes say the same. `alone`: nobody but the
   * node that gave them could be asked. `gone`: the block is no longer in hand.
   */
  readonly kind: 'exchanged' | 'upheld' | 'alone' | 'gone';
  /** The node that gave the guarantees that are in hand now. */
  readonly giver: string;
  /** Other nodes that say the same as the giver. */
  readonly confirmedBy: number;
}

/** What the nodes said of one height that was in doubt. */
interface Record {
  /** The guarantees in hand. */
  list: string;
  /** By node: each list that it gave, with the call that it answered by it. */
  readonly said: Map<string, Map<string, AccessMethod>>;
  /** A block with each list, and who gave it last. */
  readonly blocks: Map<string, { readonly block: FinalizedBlock; readonly giver: Giver }>;
  /** How often each list was put in hand. */
  readonly tried: Map<string, number>;
}

export interface GuaranteeReviewDependencies {
  readonly nodes: AccessNodes;
  readonly linked: LinkedBlocks;
  readonly poll: BlockPoll;
  readonly logger: Logger;
  readonly metrics: Pick<FinalityMetrics, 'invalidBlocks'>;
  /** Puts the block in the place of the one that is worked on; false when that is complete, or not worked on. */
  readonly exchange: (job: BlockJob<FinalizedBlock>) => boolean;
  /** It is proven that the node forged guarantees by this call. */
  readonly onForger: (giver: Giver) => void;
}

/**
 * Decides between different lists of guarantees for one and the same block. A block's id does not bind its guarantees in
 * what nodes give us (the payload hash needs seals, receipts and results as well), so that a node may give a true block
 * with forged ones: it links, and never completes.
 *
 * The list that most nodes give is the one worked on; of lists with as many votes, each has its turn. Nobody is reported for
 * his vote. What proves a list is that its collections were found, all of them: when the height is durable, whoever said
 * otherwise has lied.
 *
 * Bounds: heights of the window; nodes asked per height as in `BlockPoll`; `MAX_LISTS_PER_NODE`.
 */
export class GuaranteeReview {
  readonly #deps: GuaranteeReviewDependencies;
  readonly #records = new Map<number, Record>();

  constructor(dependencies: GuaranteeReviewDependencies) {
    this.#deps = dependencies;
  }

  /** Asks every node that serves the height. Expected errors: the signal's abort reason. */
  async review(height: number, signal: AbortSignal): Promise<BlockVerdict> {
    const { linked, poll } = this.#deps;
    const held = linked.jobAt(height)?.block;
    const giver = linked.giverOf(height);
    if (held === undefined || giver === undefined) return { kind: 'gone', giver: '', confirmedBy: 0 };
    const { answers } = await poll.ask(height, signal);
    if (linked.jobAt(height)?.block !== held) return { kind: 'gone', giver: giver.name, confirmedBy: 0 };

    // Another id at this height is another matter: the parent links decide that.
    const alike = answers.filter(({ block }) => block.id === held.id && block.parentId === held.parentId);
    const record = this.#note(held, giver, alike);
    const rival = rivalOf(record, alike, giver);
    if (rival !== undefined && this.#exchange(record, rival.block, rival.giver))
      return { kind: 'exchanged', giver: rival.giver.name, confirmedBy: 0 };
    const confirming = alike.filter(
      ({ block, node }) => node.name !== giver.name && listOf(block) === record.list,
    );
    const kind = confirming.length > 0 ? 'upheld' : 'alone';
    return { kind, giver: giver.name, confirmedBy: confirming.length };
  }

  /** The block of this height was read anew: what was said of the former one is void. */
  forget(height: number): void {
    this.#records.delete(height);
  }

  /** Every height up to the watermark is durable: its guarantees are proven, and so are the lies about them. */
  settle(watermark: number): void {
    for (const [height, { list, said }] of this.#records) {
      if (height > watermark) continue;
      this.#records.delete(height);
      // A list of nothing is complete at once, and proves nothing.
      if (list === '') continue;
      for (const [name, lists] of said)
        for (const [other, method] of lists)
          if (other !== list) {
            this.#report({ name, method }, height);
            break;
          }
    }
  }

  #note(held: FinalizedBlock, giver: Giver, answers: readonly Answer[]): Record {
    let record = this.#records.get(held.height);
    if (record === undefined) {
      const list = listOf(held);
      record = { list, said: new Map(), blocks: new Map(), tried: new Map([[list, 1]]) };
      this.#records.set(held.height, record);
    }
    const given = answers.map(({ block, node, method }) => ({ block, giver: { name: node.name, method } }));
    for (const { block, giver: by } of [{ block: held, giver }, ...given]) {
      const lists = record.said.get(by.name) ?? new Map<string, AccessMethod>();
      const list = listOf(block);
      if (lists.size >= MAX_LISTS_PER_NODE || lists.has(list)) continue;
      record.said.set(by.name, lists.set(list, by.method));
      if (!record.blocks.has(list)) record.blocks.set(list, { block, giver: by });
    }
    return record;
  }

  #exchange(record: Record, block: FinalizedBlock, giver: Giver): boolean {
    const { exchange, linked, logger } = this.#deps;
    if (!exchange(blockToJob(block))) return false;
    linked.exchange(block, giver);
    record.list = listOf(block);
    record.tried.set(record.list, (record.tried.get(record.list) ?? 0) + 1);
    logger.warn({ height: block.height, node: giver.name }, 'guarantees of a block were exchanged');
    return true;
  }

  #report(forger: Giver, height: number): void {
    const { logger, metrics, nodes, onForger } = this.#deps;
    const { name, method } = forger;
    const node = nodes.forHeight(height).find((each) => each.name === name);
    metrics.invalidBlocks.inc({ reason: 'forged_guarantees' });
    logger.warn({ node: name, height, reason: 'forged_guarantees' }, 'a block was refused');
    if (node !== undefined) nodes.report(node, 'lied', `it forged the guarantees of block ${height}`, method);
    onForger(forger);
  }
}

function listOf({ collectionIds }: FinalizedBlock): string {
  return collectionIds.join();
}

/**
 * Another list than the one in hand that has as many votes at least; of several, the least tried. A node has one vote for each
 * list that it gives now: whoever gave the block in hand, by stream perhaps, stands by that too.
 */
function rivalOf(
  record: Record,
  answers: readonly Answer[],
  giver: Giver,
): { readonly block: FinalizedBlock; readonly giver: Giver } | undefined {
  const votes = new Map<string, Set<string>>([[record.list, new Set([giver.name])]]);
  // A single node that has given several lists, by stream and by call, has each of them tried.
  for (const list of record.said.get(giver.name)?.keys() ?? []) votes.set(list, new Set([giver.name]));
  for (const { block, node } of answers) {
    const list = listOf(block);
    votes.set(list, (votes.get(list) ?? new Set()).add(node.name));
  }
  const needed = votes.get(record.list)?.size ?? 1;
  const rivals = [...votes].filter(([list, { size }]) => list !== record.list && size >= needed);
  const tried = (list: string): number => record.tried.get(list) ?? 0;
  rivals.sort(([a, { size: forA }], [b, { size: forB }]) => forB - forA || tried(a) - tried(b));
  const [best] = rivals;
  return best === undefined ? undefined : record.blocks.get(best[0]);
}
