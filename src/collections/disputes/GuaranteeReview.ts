import { setMaxListeners } from 'node:events';
import type { AccessNodes, Giver } from '../../access/index.js';
import type { FinalizedBlock } from '../../flow/index.js';
import { WorkSignal } from '../../jobqueue/index.js';
import type { Logger } from '../../observability/index.js';
import { childOf, wasAborted } from '../../runtime/index.js';
import { GuaranteeVotes } from '../heights/GuaranteeVotes.js';
import type { HeightRecord } from '../heights/HeightRecord.js';
import type { HeightTable } from '../heights/HeightTable.js';
import { OffChainBlockError } from '../heights/OffChainBlockError.js';
import type { BlockAnswer, BlockAsker, BlockReviewer, BlockVerdict } from '../ports.js';
import { disputeOf } from './Disputes.js';

/** How many other nodes it takes to refute a block whose giver does not answer. */
const WITNESSES_AGAINST = 2;
/** Blocks of a forger that are reviewed at the same time. */
const REVIEWS_AT_ONCE = 16;

export interface GuaranteeReviewDependencies {
  readonly nodes: Pick<AccessNodes, 'forHeight' | 'report'>;
  readonly heights: HeightTable;
  readonly asker: BlockAsker;
  readonly logger: Logger;
  readonly metrics: { readonly invalidBlocks: { inc(labels: Record<'reason', string>): void } };
  /** Replaces the current block; false when it is complete or gone. */
  replace(block: FinalizedBlock, giver: Giver): boolean;
  /** The current block turned out not to be on the chain: the line has to start over. */
  fail(error: OffChainBlockError): void;
}

/**
 * Decides between different guarantee lists for the same block. The block id does not bind the guarantees in the data
 * that nodes give us (the payload hash also needs seals, receipts and results). So a node may give a true block with
 * forged guarantees: it links, and never completes.
 *
 * The list with the most votes is tried first; lists with equal votes alternate. Nobody is reported for a vote. A list
 * is proven when all of its collections were found: once the watermark has passed the height, every node that gave
 * another list has lied.
 */
export class GuaranteeReview implements BlockReviewer {
  readonly #deps: GuaranteeReviewDependencies;
  /** Reviewed but not proven yet: heights of the window. */
  readonly #reviewed = new Set<HeightRecord>();
  /** Nodes that were caught forging guarantees, and whose other blocks are to be reviewed. */
  readonly #forgers = new Map<string, Giver>();
  readonly #forgerFound = new WorkSignal();

  constructor(dependencies: GuaranteeReviewDependencies) {
    this.#deps = dependencies;
  }

  /**
   * A node that forged one block may have forged others: all that it gave are reviewed, without waiting for a doubt
   * about each. Resolves when the signal aborts. No expected errors.
   */
  async run(parent: AbortSignal): Promise<void> {
    const child = childOf(parent);
    const { signal } = child;
    // The calls of all reviews listen to this signal: many listeners are not a leak.
    setMaxListeners(0, signal);
    try {
      for (;;) {
        await this.#forgerFound.wait(signal);
        const forgers = [...this.#forgers.values()];
        this.#forgers.clear();
        const heights = forgers.flatMap((forger) => this.#givenBy(forger));
        for (let at = 0; at < heights.length; at += REVIEWS_AT_ONCE) {
          const some = heights.slice(at, at + REVIEWS_AT_ONCE);
          await Promise.all(some.map((height) => this.review(height, signal)));
        }
      }
    } catch (error) {
      if (!wasAborted(error, signal)) throw error;
    } finally {
      child.abort();
    }
  }

  /** Asks every node that serves the height. Expected errors: the signal's abort reason. */
  async review(height: number, signal: AbortSignal): Promise<BlockVerdict> {
    const { asker, heights, logger } = this.#deps;
    const record = heights.at(height);
    const giver = record?.giver;
    if (record === undefined || giver === undefined) return { kind: 'gone', giver: '', confirmedBy: 0 };
    const held = record.block;
    const answers = await asker.ask(height, signal);
    if (heights.at(height) !== record || record.block !== held)
      return { kind: 'gone', giver: giver.name, confirmedBy: 0 };

    if (isRefuted(held, giver, answers)) {
      this.#deps.fail(new OffChainBlockError(answers[0].block, held.id));
      return { kind: 'gone', giver: giver.name, confirmedBy: 0 };
    }
    // Blocks with another id do not count here: the parent links decide between different blocks.
    const alike = answers
      .filter(({ block }) => block.id === held.id && block.parentId === held.parentId)
      .map(({ block, node, method }) => ({ block, giver: { name: node.name, method } }));
    const votes = (disputeOf(record).votes ??= new GuaranteeVotes(held));
    this.#reviewed.add(record);
    votes.note([{ block: held, giver }, ...alike]);
    const rival = votes.rival(alike, giver);
    if (rival !== undefined && this.#deps.replace(rival.block, rival.giver)) {
      votes.makeCurrent(rival.block);
      logger.warn({ height, node: rival.giver.name }, 'guarantees of a block were replaced');
      return { kind: 'exchanged', giver: rival.giver.name, confirmedBy: 0 };
    }
    const confirming = alike.filter(
      ({ block, giver: by }) => by.name !== giver.name && votes.isCurrent(block),
    );
    const kind = confirming.length > 0 ? 'upheld' : 'alone';
    return { kind, giver: giver.name, confirmedBy: confirming.length };
  }

  /** The guarantees of every block at or below the watermark are proven: reports the nodes that gave others. */
  settle(watermark: number): void {
    for (const record of this.#reviewed) {
      if (record.height > watermark) continue;
      this.#reviewed.delete(record);
      if (record.status !== 'durable') continue;
      for (const liar of record.dispute?.votes?.liars() ?? []) this.#report(liar, record.height);
    }
  }

  /** Heights whose blocks this node gave by this call, ascending. */
  #givenBy({ name, method }: Giver): number[] {
    return Array.from(this.#deps.heights.all())
      .filter(({ giver }) => giver?.name === name && giver.method === method)
      .map(({ height }) => height)
      .sort((a, b) => a - b);
  }

  #report(forger: Giver, height: number): void {
    const { asker, logger, metrics, nodes } = this.#deps;
    const { name, method } = forger;
    const node = nodes.forHeight(height).find((each) => each.name === name);
    metrics.invalidBlocks.inc({ reason: 'forged_guarantees' });
    logger.warn({ node: name, height, reason: 'forged_guarantees' }, 'a block was refused');
    if (node !== undefined) nodes.report(node, 'lied', `it forged the guarantees of block ${height}`, method);
    asker.distrust(forger);
    this.#forgers.set(name, forger);
    this.#forgerFound.notify();
  }
}

/**
 * True when all answers name one other block, and they include the giver's or are at least two. Parent links would reveal
 * this too, unless the whole window is full of such blocks: then nothing above it is read.
 */
function isRefuted(
  held: FinalizedBlock,
  giver: Giver,
  answers: Awaited<ReturnType<BlockAsker['ask']>>,
): answers is readonly [BlockAnswer, ...BlockAnswer[]] {
  const ids = new Set(answers.map(({ block }) => block.id));
  if (ids.size !== 1 || ids.has(held.id)) return false;
  return answers.length >= WITNESSES_AGAINST || answers.some(({ node }) => node.name === giver.name);
}
