import { NodeTroubles, SILENT_AFTER_MS } from '../../access/index.js';
import type { AccessMethod, AccessNode, NodeTrouble } from '../../access/index.js';
import type { Clock } from '../../runtime/index.js';
import type { BodyStream, StreamWords } from './BodyStream.js';
import type { StreamEnd } from './StreamFault.js';

/** How long to believe the lowest height that a node named: its operator may add history. */
const PRUNED_MS = 600_000;
/** A head that has not moved for this long is reported as the cause. */
const HEAD_STILL_MS = 10_000;

/** A node that does not offer the stream, or not for heights that low. */
interface Lack {
  readonly sinceMs: number;
  readonly untilMs: number;
  /** The lowest height that the node has. */
  readonly below: number;
  readonly said: string;
  /** Attempts without success. */
  readonly count: number;
}

/** A snapshot of what the stream waits for. */
export interface StreamPosition {
  readonly next: number;
  readonly node: string | undefined;
  readonly method: AccessMethod;
  /** The highest height that is due. */
  readonly due: number | undefined;
  /** Since when the next height has been due, requested, and missing. */
  readonly dueSinceMs: number | undefined;
  /** Since when the stream has waited for the next height to be due. */
  readonly earlySinceMs: number | undefined;
}

/**
 * Why the next height is missing in a stream: which nodes do not have or offer it, and what the others answered.
 * Bounded by the number of nodes.
 */
export class ExecutionDataTroubles {
  readonly #words: StreamWords;
  readonly #clock: Clock;
  readonly #failures: NodeTroubles;
  readonly #lacks = new Map<string, Lack>();
  #height: number | undefined;
  #sentence: string | undefined;

  constructor({ words }: Pick<BodyStream, 'words'>, dependencies: { readonly clock: Clock }) {
    this.#words = words;
    this.#clock = dependencies.clock;
    this.#failures = new NodeTroubles(dependencies);
  }

  /** Until when this node is not asked for a height; -Infinity when it may be asked. */
  lacksUntilMs(node: AccessNode, height: number): number {
    const lack = this.#lacks.get(node.name);
    return lack === undefined || height >= lack.below ? -Infinity : lack.untilMs;
  }

  /** The node does not offer the stream, for the reason given; it is asked again after `forMs`. */
  offersNone(node: AccessNode, words: string, forMs: number): void {
    this.#sentence = undefined;
    this.#lack(node, Infinity, `${node.name} does not offer ${this.#words.data}: ${words}`, forMs);
  }

  /** A stream ended at this height. */
  ended(node: AccessNode, method: AccessMethod, height: number, end: StreamEnd): void {
    if (height !== this.#height) this.#failures.clear();
    this.#height = height;
    this.#sentence = sentenceOf(this.#words, node, height, end);
    if (end.prunedBelow !== undefined && end.prunedBelow > height) {
      const said = `${node.name} has no ${this.#words.data} below ${end.prunedBelow}`;
      this.#lack(node, end.prunedBelow, said, PRUNED_MS);
      return;
    }
    if (end.kind !== undefined) this.#failures.note(node.name, method, end.kind, end.said);
  }

  noNode(why: string | undefined): void {
    if (why !== undefined) this.#sentence = `no ${this.#words.source} can be asked: ${why}`;
    this.#sentence ??= `no ${this.#words.source} serves the next height`;
  }

  /** A message arrived. */
  came(node: AccessNode): void {
    this.#failures.clear();
    this.#lacks.delete(node.name);
    this.#sentence = undefined;
  }

  all(position: StreamPosition): readonly NodeTrouble[] {
    const { next, node, method, dueSinceMs } = position;
    const nowMs = this.#clock.monotonic();
    const troubles: NodeTrouble[] = [...this.#lacks].flatMap(([name, { below, said, count, sinceMs }]) =>
      next >= below ? [] : { node: name, method, kind: 'refused' as const, said, count, sinceMs },
    );
    if (this.#height === next) troubles.push(...this.#failures.all());
    const isSilent = dueSinceMs !== undefined && nowMs - dueSinceMs >= SILENT_AFTER_MS;
    if (isSilent && node !== undefined && !troubles.some((trouble) => trouble.node === node)) {
      const said = `${method} at ${node}: nothing yet for height ${next}, which is ${this.#words.due}`;
      troubles.push({ node, method, kind: 'unreachable', said, count: 0, sinceMs: dueSinceMs });
    }
    return troubles;
  }

  /** The trouble in one sentence; `undefined` while all is well. */
  sentence({ next, due, earlySinceMs }: StreamPosition): string | undefined {
    const lacks = [...this.#lacks].filter(([, { below }]) => next < below && below < Infinity);
    if (lacks.length > 0) return lacks.map(([, { said }]) => said).join(', ');
    if (this.#sentence !== undefined) return this.#sentence;
    const nowMs = this.#clock.monotonic();
    if (earlySinceMs === undefined || nowMs - earlySinceMs < HEAD_STILL_MS) return undefined;
    const head = `the ${this.#words.due} head`;
    const current = due === undefined ? `no node reports ${head}` : `${head} is at ${due}`;
    const seconds = Math.floor((nowMs - earlySinceMs) / 1_000);
    return `waiting for height ${next} to be ${this.#words.due} for ${seconds} s: ${current}`;
  }

  #lack(node: AccessNode, below: number, said: string, forMs: number): void {
    const nowMs = this.#clock.monotonic();
    const { sinceMs, count } = this.#lacks.get(node.name) ?? { sinceMs: nowMs, count: 0 };
    this.#lacks.set(node.name, { below, said, sinceMs, count: count + 1, untilMs: nowMs + forMs });
  }
}

function sentenceOf(
  { data, due, missing, stream }: StreamWords,
  { name }: AccessNode,
  height: number,
  { reason, said }: StreamEnd,
): string {
  switch (reason) {
    case 'rate_limited':
    case 'unauthenticated':
      return `${name} refuses the ${stream}: ${said}`;
    case 'absent':
      return `${name} gives no ${data} for height ${height}, which is ${due}: ${missing}`;
    case 'not_found':
    case 'not_yet':
    case 'below_root':
      return `${name} does not have the ${data} of height ${height}: ${said}`;
    case 'invalid':
    case 'malformed':
      return `${name} gives corrupt ${data} for height ${height}: ${said}`;
    default:
      return `the ${stream} was interrupted at height ${height}: ${said}`;
  }
}
