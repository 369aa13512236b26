import type { AccessNodes } from '../../access/index.js';
import type { Dispute, HeightRecord } from '../heights/HeightRecord.js';
import type { HeightTable } from '../heights/HeightTable.js';
import type { BlockVerdict, Contradicted, StreamGiver } from '../ports.js';

/**
 * Heights at which a stream and the guarantees contradict each other. Either may be false, so at first nobody is
 * reported. Once all guaranteed collections were found and verified, the stream has lied, and its node or peer is
 * reported.
 *
 * All state is in the height records. Bound per height: the nodes and peers that offer a stream.
 */
export class Disputes {
  readonly #nodes: Pick<AccessNodes, 'report'>;
  readonly #heights: HeightTable;

  constructor(dependencies: { readonly nodes: Pick<AccessNodes, 'report'>; readonly heights: HeightTable }) {
    this.#nodes = dependencies.nodes;
    this.#heights = dependencies.heights;
  }

  /** Records that a stream does not match the guarantees of a height. */
  contradicted(height: number, by: StreamGiver, detail: string, what: Contradicted = 'guarantees'): void {
    const record = this.#heights.at(height);
    if (record !== undefined) disputeOf(record).accused.set(by.node.name, { ...by, detail, what });
  }

  /** Records the result of asking the nodes again for the block. */
  reviewed(height: number, verdict: BlockVerdict): void {
    const record = this.#heights.at(height);
    if (record !== undefined && verdict.kind !== 'gone') disputeOf(record).verdict = verdict;
  }

  /**
   * The height is complete, with the contradicted guarantees: reports the streams that contradicted them. A stream of
   * another block is reported only if the next block follows ours, which shows that the chain has ours.
   */
  completed({ block, dispute, height }: HeightRecord): void {
    if (dispute === undefined) return;
    const hasFollower = this.#heights.at(height + 1)?.block.parentId === block.id;
    for (const { node, method, detail, what } of dispute.accused.values())
      if (what === 'guarantees' || hasFollower) this.#nodes.report(node, 'lied', detail, method);
    clearAccusations(dispute);
  }

  /** The block or its guarantees were replaced: accusations about the former ones no longer count. */
  replaced({ block, dispute }: HeightRecord): void {
    if (dispute === undefined) return;
    clearAccusations(dispute);
    if (dispute.votes?.blockId !== block.id) dispute.votes = undefined;
  }

  /** The names of the nodes and peers whose stream does not match the guarantees of this height. */
  accusedAt(height: number): readonly string[] {
    return [...(this.#heights.at(height)?.dispute?.accused.keys() ?? [])];
  }

  /** What is in doubt about this height, in one sentence; `undefined` when nothing is. */
  reason(height: number): string | undefined {
    const dispute = this.#heights.at(height)?.dispute;
    if (dispute === undefined || (dispute.accused.size === 0 && dispute.verdict === undefined))
      return undefined;
    const accused = [...dispute.accused.keys()].join(', ');
    const parts = accused === '' ? [] : [`what ${accused} streams does not match the block's guarantees`];
    const { verdict } = dispute;
    if (verdict?.kind === 'alone')
      parts.push(
        `the guarantees come from ${verdict.giver}, and no other node could be asked whether they are right`,
      );
    if (verdict?.kind === 'upheld')
      parts.push(
        `the guarantees come from ${verdict.giver}, and ${verdict.confirmedBy} other nodes give the same`,
      );
    if (verdict?.kind === 'exchanged')
      parts.push(`the guarantees were exchanged for those that ${verdict.giver} gives`);
    return parts.join('; ');
  }
}

/** The dispute about a height; begins one if there is none. */
export function disputeOf(record: HeightRecord): Dispute {
  return (record.dispute ??= {
    accused: new Map(),
    verdict: undefined,
    reviews: 0,
    nextReviewAtMs: undefined,
    votes: undefined,
  });
}

function clearAccusations(dispute: Dispute): void {
  dispute.accused.clear();
  dispute.verdict = undefined;
}
