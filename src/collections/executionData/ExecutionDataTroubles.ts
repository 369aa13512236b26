import { NodeTroubles, SILENT_AFTER_MS } from '../../access/index.js';
import type { AccessMethod, AccessNode, NodeTrouble } from '../../access/index.js';
import type { Clock } from '../../runtime/index.js';
import type { StreamEnd } from './StreamFault.js';

/** How long the lowest height that a node named is believed: it may be given more history. */
const PRUNED_MS = 600_000;
/** A sealed head that has not moved for this long is reported. */
const SEALING_STILL_MS = 10_000;

/** A node that has no execution data, or none that low. */
interface Lack {
  readonly sinceMs: number;
  readonly untilMs: number;
  /** The node's execution data begins here. */
  readonly below: number;
  readonly said: string;
  /** Attempts without success. */
  readonly count: number;
}

/** What the stream waits for, as a snapshot. */
export interface StreamPosition {
  readonly next: number;
  readonly node: string | undefined;
  readonly method: AccessMethod;
  readonly sealed: number | undefined;
  /** Since when the next height has been sealed, requested, and missing. */
  readonly dueSinceMs: number | undefined;
  /** Since when it waits for the next height to be sealed. */
  readonly unsealedSinceMs: number | undefined;
}

/**
 * Why the next height's execution data is missing: which nodes do not have or offer it, and what the others answered.
 * Bounded by the number of nodes.
 */
export class ExecutionDataTroubles {
  readonly #clock: Clock;
  readonly #failures: NodeTroubles;
  readonly #lacks = new Map<string, Lack>();
  #height: number | undefined;
  #sentence: string | undefined;

  constructor(dependencies: { readonly clock: Clock }) {
    this.#clock = dependencies.clock;
    this.#failures = new NodeTroubles(dependencies);
  }

  /** Until when this node is not asked for a height; -Infinity when it may be asked. */
  lacksUntilMs(node: AccessNode, height: number): number {
    const lack = this.#lacks.get(node.name);
    return lack === undefined || height >= lack.below ? -Infinity : lack.untilMs;
  }

  /** The node does not offer execution data, for the reason given; it is asked again after `forMs`. */
  offersNone(node: AccessNode, words: string, forMs: number): void {
    this.#lack(node, Infinity, `${node.name} does not offer execution data: ${words}`, forMs);
  }

  /** A stream ended at this height. */
  ended(node: AccessNode, method: AccessMethod, height: number, end: StreamEnd): void {
    if (height !== this.#height) this.#failures.clear();
    this.#height = height;
    this.#sentence = sentenceOf(node, height, end);
    if (end.prunedBelow !== undefined && end.prunedBelow > height) {
      const said = `${node.name} has no execution data below ${end.prunedBelow}`;
      this.#lack(node, end.prunedBelow, said, PRUNED_MS);
      return;
    }
    if (end.kind !== undefined) this.#failures.note(node.name, method, end.kind, end.said);
  }

  noNode(): void {
    this.#sentence ??= 'no access node serves the next height';
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
      const said = `${method} at ${node}: nothing yet for height ${next}, which is sealed`;
      troubles.push({ node, method, kind: 'unreachable', said, count: 0, sinceMs: dueSinceMs });
    }
    return troubles;
  }

  /** In one sentence; `undefined` while all is well. */
  sentence({ next, sealed, unsealedSinceMs }: StreamPosition): string | undefined {
    const lacks = [...this.#lacks].filter(([, { below }]) => next < below && below < Infinity);
    if (lacks.length > 0) return lacks.map(([, { said }]) => said).join(', ');
    if (this.#sentence !== undefined) return this.#sentence;
    const nowMs = this.#clock.monotonic();
    if (unsealedSinceMs === undefined || nowMs - unsealedSinceMs < SEALING_STILL_MS) return undefined;
    const stands =
      sealed === undefined ? 'no node reports the sealed head' : `the sealed head stands at ${sealed}`;
    const seconds = Math.floor((nowMs - unsealedSinceMs) / 1_000);
    return `waiting for height ${next} to be sealed for ${seconds} s: ${stands}`;
  }

  #lack(node: AccessNode, below: number, said: string, forMs: number): void {
    const nowMs = this.#clock.monotonic();
    const { sinceMs, count } = this.#lacks.get(node.name) ?? { sinceMs: nowMs, count: 0 };
    this.#lacks.set(node.name, { below, said, sinceMs, count: count + 1, untilMs: nowMs + forMs });
  }
}

function sentenceOf({ name }: AccessNode, height: number, { reason, said }: StreamEnd): string {
  switch (reason) {
    case 'rate_limited':
      return `${name} refuses the execution-data stream: ${said}`;
    case 'absent':
      return `${name} gives no execution data for height ${height}, which is sealed: it may have pruned it`;
    case 'not_found':
    case 'not_yet':
    case 'below_root':
      return `${name} does not have the execution data of height ${height}: ${said}`;
    case 'invalid':
    case 'malformed':
      return `${name} gives corrupt execution data for height ${height}: ${said}`;
    default:
      return `the execution-data stream was interrupted at height ${height}: ${said}`;
  }
}
