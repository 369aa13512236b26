import type { AccessNodes } from '../access/index.js';
import type { FinalizedBlock } from '../flow/index.js';
import { blockToJob } from '../jobqueue/index.js';
import type { BlockJob } from '../jobqueue/index.js';
import type { Logger } from '../observability/index.js';
import { BLOCK_CALL } from './blockSource.js';
import type { Answer, ForkInspector } from './ForkInspector.js';
import type { LinkedBlocks } from './LinkedBlocks.js';
import type { FinalityMetrics } from './ports.js';

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
  readonly said: Map<string, Set<string>>;
  /** How often each list was put in hand. */
  readonly tried: Map<string, number>;
}

export interface BlockReviewDependencies {
  readonly nodes: AccessNodes;
  readonly linked: LinkedBlocks;
  readonly inspector: ForkInspector;
  readonly logger: Logger;
  readonly metrics: Pick<FinalityMetrics, 'invalidBlocks'>;
  /** Puts the block in the place of the one that is worked on; false when that is complete, or not worked on. */
  readonly exchange: (job: BlockJob<FinalizedBlock>) => boolean;
}

/**
 * Decides between different lists of guarantees for one and the same block. A block's id does not bind its guarantees in
 * what nodes give us (the payload hash needs seals, receipts and results as well), so that a node may give a true block
 * with forged ones: it links, and never completes.
 *
 * The list that most nodes give is the one worked on; of lists with as many voices, each has its turn. Nobody is blamed for
 * his voice. What proves a list is that its collections were found, all of them: when the height is durable, whoever said
 * otherwise has lied.
 *
 * Bounds: heights of the window; nodes asked per height as in `ForkInspector`; `MAX_LISTS_PER_NODE`.
 */
export class BlockReview {
  readonly #deps: BlockReviewDependencies;
  readonly #records = new Map<number, Record>();

  constructor(_options: object, dependencies: BlockReviewDependencies) {
    this.#deps = dependencies;
  }

  /** Asks every node that serves the height. Expected errors: the signal's abort reason. */
  async review(height: number, signal: AbortSignal): Promise<BlockVerdict> {
    const { inspector, linked } = this.#deps;
    const held = linked.jobAt(height)?.block;
    const giver = linked.giverOf(height);
    if (held === undefined || giver === undefined) return { kind: 'gone', giver: '', confirmedBy: 0 };
    const { answers } = await inspector.ask(height, signal);
    if (linked.jobAt(height)?.block !== held) return { kind: 'gone', giver, confirmedBy: 0 };

    // Another id at this height is another matter: the parent links decide that.
    const alike = answers.filter(({ block }) => block.id === held.id && block.parentId === held.parentId);
    const record = this.#note(held, giver, alike);
    const rival = rivalOf(record, alike);
    if (rival !== undefined && this.#exchange(record, rival))
      return { kind: 'exchanged', giver: rival.node.name, confirmedBy: 0 };
    const confirming = alike.filter(
      ({ block, node }) => node.name !== giver && listOf(block) === record.list,
    );
    const kind = confirming.length > 0 ? 'upheld' : 'alone';
    return { kind, giver, confirmedBy: confirming.length };
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
        if ([...lists].some((other) => other !== list)) this.#blame(name, height);
    }
  }

  #note(held: FinalizedBlock, giver: string, answers: readonly Answer[]): Record {
    let record = this.#records.get(held.height);
    if (record === undefined) {
      record = { list: listOf(held), said: new Map(), tried: new Map([[listOf(held), 1]]) };
      this.#records.set(held.height, record);
    }
    const given = answers.map(({ block, node }) => [node.name, listOf(block)] as const);
    for (const [name, list] of [[giver, listOf(held)] as const, ...given]) {
      const lists = record.said.get(name) ?? new Set();
      if (lists.size < MAX_LISTS_PER_NODE) record.said.set(name, lists.add(list));
    }
    return record;
  }

  #exchange(record: Record, { block, node }: Answer): boolean {
    const { exchange, linked, logger } = this.#deps;
    if (!exchange(blockToJob(block))) return false;
    linked.exchange(block, node.name);
    record.list = listOf(block);
    record.tried.set(record.list, (record.tried.get(record.list) ?? 0) + 1);
    logger.warn({ height: block.height, node: node.name }, 'guarantees of a block were exchanged');
    return true;
  }

  #blame(name: string, height: number): void {
    const { logger, metrics, nodes } = this.#deps;
    const node = nodes.forHeight(height).find((each) => each.name === name);
    metrics.invalidBlocks.inc({ reason: 'forged_guarantees' });
    logger.warn({ node: name, height, reason: 'forged_guarantees' }, 'a block was refused');
    if (node !== undefined) {
      nodes.blame(node, 'lied', `it forged the guarantees of block ${height}`, BLOCK_CALL);
    }
  }
}

function listOf({ collectionIds }: FinalizedBlock): string {
  return collectionIds.join();
}

/** An answer with another list than the one in hand that has as many voices at least; of several, the least tried. */
function rivalOf(record: Record, answers: readonly Answer[]): Answer | undefined {
  const voices = new Map<string, Answer[]>();
  for (const answer of answers) {
    const list = listOf(answer.block);
    voices.set(list, [...(voices.get(list) ?? []), answer]);
  }
  const needed = Math.max(1, voices.get(record.list)?.length ?? 0);
  const rivals = [...voices].filter(([list, { length }]) => list !== record.list && length >= needed);
  const tried = (list: string): number => record.tried.get(list) ?? 0;
  rivals.sort(([a, { length: forA }], [b, { length: forB }]) => forB - forA || tried(a) - tried(b));
  return rivals[0]?.[1][0];
}
