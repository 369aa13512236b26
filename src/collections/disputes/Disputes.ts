import type { AccessNode, AccessNodes } from '../../access/index.js';
import type { BlockVerdict } from '../ports.js';

/** A height whose block is in doubt. */
interface Dispute {
  /** Nodes whose execution data does not match the guarantees, and how; by name. */
  readonly accused: Map<string, { readonly node: AccessNode; readonly detail: string }>;
  verdict: BlockVerdict | undefined;
}

/**
 * Heights at which execution data and guarantees do not match. Either of them may be the lie, so that nobody is reported at
 * first: neither is it the node that gave the execution data. Once all collections of the guarantees were found and
 * verified, it was.
 *
 * Bounds: incomplete heights, that is the window; per height, the nodes that offer execution data.
 */
export class Disputes {
  readonly #nodes: Pick<AccessNodes, 'report'>;
  readonly #byHeight = new Map<number, Dispute>();

  constructor(_options: object, dependencies: { readonly nodes: Pick<AccessNodes, 'report'> }) {
    this.#nodes = dependencies.nodes;
  }

  /** The height lacks collections, and this node's execution data does not match its guarantees. */
  contradicted(height: number, node: AccessNode, detail: string): void {
    this.#at(height).accused.set(node.name, { node, detail });
  }

  /** The nodes were asked again for the block. */
  reviewed(height: number, verdict: BlockVerdict): void {
    if (verdict.kind !== 'gone') this.#at(height).verdict = verdict;
  }

  /** The height is complete, with the guarantees that were contradicted. */
  completed(height: number): void {
    const dispute = this.#byHeight.get(height);
    if (dispute === undefined) return;
    this.#byHeight.delete(height);
    for (const { node, detail } of dispute.accused.values())
      this.#nodes.report(node, 'lied', detail, 'SubscribeExecutionDataFromStartBlockHeight');
  }

  /** Other guarantees are worked on now: what was said against the former ones is void. */
  replaced(height: number): void {
    this.#byHeight.delete(height);
  }

  /** Nodes whose execution data does not match the guarantees of this height. */
  accusedAt(height: number): readonly string[] {
    return [...(this.#byHeight.get(height)?.accused.keys() ?? [])];
  }

  /** What is in doubt about this height, in one sentence; `undefined` when nothing is. */
  reason(height: number): string | undefined {
    const dispute = this.#byHeight.get(height);
    if (dispute === undefined) return undefined;
    const accused = [...dispute.accused.keys()].join(', ');
    const parts =
      accused === '' ? [] : [`the execution data of ${accused} does not match the block's guarantees`];
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

  #at(height: number): Dispute {
    let dispute = this.#byHeight.get(height);
    if (dispute === undefined) {
      dispute = { accused: new Map(), verdict: undefined };
      this.#byHeight.set(height, dispute);
    }
    return dispute;
  }
}
