import { answerOf, UpstreamError } from '../../access/index.js';
import type { AccessNodes } from '../../access/index.js';
import type { FinalizedBlock } from '../../flow/index.js';
import type { Logger } from '../../observability/index.js';
import { abortReason, asError, sleep } from '../../runtime/index.js';
import type { Clock } from '../../runtime/index.js';
import { isCorruption, joined, without } from '../../storage/index.js';
import type { HeightRange, IndexStore, WriteRoom } from '../../storage/index.js';
import { BLOCK_CALL } from '../ports.js';

/** Blocks that are requested at once, and become durable together. */
const BATCH_HEIGHTS = 16;
/** The least pause between two batches. */
const PACE_MS = 20;
/** How often to look for unproven heights, and whether this process may prove them. */
const LOOK_EVERY_MS = 1_000;
/** Pause before nodes that failed are asked again. */
const AGAIN_MS = 15_000;
/** How long heights are left alone for which nodes failed while others were proven. */
const FAILED_ALONE_MS = 60_000;
/** How long heights that no node can prove are left alone. */
const LEFT_ALONE_MS = 600_000;
/** Ranges that are left alone at most; then all are tried again. */
const MAX_LEFT_ALONE = 256;
/** The most heights that are left alone because those just above cannot be proven. */
const MAX_SKIPPED_HEIGHTS = 1_000_000;

export interface ProofBackfillDependencies {
  readonly store: Pick<IndexStore, 'addProofs' | 'blockByHeight' | 'unproven'>;
  /** They are asked at the rank of history. */
  readonly nodes: AccessNodes;
  /** False while the newest blocks have priority, or another process proves. */
  readonly mayRun: () => boolean;
  /** The share of its speed that history may have, above 0 to 1. */
  readonly share: () => number;
  readonly room?: WriteRoom | undefined;
  /** More blocks are proven: what follows from them may be proven now, though the head stands still. */
  readonly onProven: () => void;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** `undefined`: the height is not stored any more. */
type Asked =
  | { readonly kind: 'proven'; readonly block: FinalizedBlock }
  /** `unprovable`: no node has what proves it. `refuted`: this height alone is not as the nodes say. */
  | { readonly kind: 'unprovable' | 'refuted' | 'failed'; readonly reason: string }
  | undefined;

/**
 * Proves what was stored without a proof, by an earlier version or with `proof.mode: off`: gets these blocks from the nodes
 * again, newest first, and adds the proofs. It keeps nothing but what is durable, so it may end at any time.
 */
export class ProofBackfill {
  readonly #deps: ProofBackfillDependencies;
  /** Heights that cannot be proven now, until when. */
  #leftAlone: HeightRange[] = [];
  #leftUntilMs = 0;
  /** Heights above were tried as they came. */
  #highest = -1;
  /** How many heights to leave alone where the next ones cannot be proven either. */
  #skipped = BATCH_HEIGHTS;
  #reason: string | undefined;
  #hasWarned = false;

  constructor(dependencies: ProofBackfillDependencies) {
    this.#deps = dependencies;
  }

  /** Why some blocks stay unproven; `undefined` while none does. */
  reason(): string | undefined {
    return this.#reason;
  }

  /**
   * Runs until the signal aborts. Expected errors: `StorageError` (`corrupt` where a proof contradicts what is stored under
   * the same id); the signal's abort reason.
   */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, room, share } = this.#deps;
    this.#tryAll();
    for (;;) {
      const range = this.#next();
      let pauseMs = LOOK_EVERY_MS;
      if (range !== undefined) {
        await room?.whenRoom(signal);
        pauseMs = (await this.#prove(range, signal)) ? PACE_MS / share() : AGAIN_MS;
      }
      await sleep(clock, pauseMs, signal);
    }
  }

  #tryAll(): void {
    const { clock, store } = this.#deps;
    this.#leftAlone = [];
    this.#leftUntilMs = clock.monotonic() + LEFT_ALONE_MS;
    this.#skipped = BATCH_HEIGHTS;
    this.#highest = store.unproven?.().at(-1)?.to ?? -1;
  }

  /** The highest heights to prove. */
  #next(): HeightRange | undefined {
    const { clock, mayRun, store } = this.#deps;
    const unproven = store.unproven?.() ?? [];
    if (unproven.length === 0) this.#reason = undefined;
    if (unproven.length === 0 || !mayRun()) return undefined;
    if (clock.monotonic() >= this.#leftUntilMs || this.#leftAlone.length > MAX_LEFT_ALONE) this.#tryAll();
    const newer = { from: this.#highest + 1, to: Number.MAX_SAFE_INTEGER };
    const highest = without(unproven, joined([...this.#leftAlone, newer])).at(-1);
    return highest && { from: Math.max(highest.from, highest.to - BATCH_HEIGHTS + 1), to: highest.to };
  }

  /** False: nodes failed, and may do better later. */
  async #prove({ from, to }: HeightRange, signal: AbortSignal): Promise<boolean> {
    const heights = Array.from({ length: to - from + 1 }, (_, index) => to - index);
    const asked = await Promise.allSettled(heights.map((height) => this.#ask(height, signal)));
    // Not before all have ended: the store may close next.
    const answers = asked.map((each) => {
      if (each.status === 'rejected') throw asError(each.reason);
      return each.value;
    });
    const proven = answers.flatMap((answer) => (answer?.kind === 'proven' ? [answer.block] : []));
    if (proven.length > 0) {
      await this.#deps.store.addProofs?.(proven);
      this.#deps.onProven();
    }
    const kinds = new Set(answers.map((answer) => answer?.kind));
    const left: HeightRange[] = [];
    for (const [index, answer] of answers.entries()) {
      if (answer === undefined || answer.kind === 'proven') continue;
      this.#tell(answer.reason);
      left.push({ from: to - index, to: to - index });
    }
    if (kinds.size === 1 && kinds.has('failed')) return false;
    if (kinds.size === 1 && kinds.has('unprovable')) {
      left.push({ from: Math.max(0, to - this.#skipped + 1), to });
      this.#skipped = Math.min(2 * this.#skipped, MAX_SKIPPED_HEIGHTS);
    }
    if (kinds.has('failed'))
      this.#leftUntilMs = Math.min(this.#leftUntilMs, this.#deps.clock.monotonic() + FAILED_ALONE_MS);
    this.#leftAlone = joined([...this.#leftAlone, ...left]);
    return true;
  }

  async #ask(height: number, signal: AbortSignal): Promise<Asked> {
    const { nodes, store } = this.#deps;
    let stored: FinalizedBlock | undefined;
    try {
      stored = (await store.blockByHeight(height))?.block;
    } catch (error) {
      if (!isCorruption(error)) throw error;
      return { kind: 'refuted', reason: error.message };
    }
    if (stored === undefined) return undefined;
    if (stored.proof !== undefined) return { kind: 'proven', block: stored };
    let worst: Asked;
    for (const node of nodes.forHeight(height, BLOCK_CALL)) {
      const answer = await answerOf(nodes, node, node.getBlockByHeight(height, { signal }));
      if (signal.aborted) throw abortReason(signal);
      let said: Exclude<Asked, undefined>;
      if (answer instanceof UpstreamError)
        said = { kind: answer.kind === 'unproven' ? 'unprovable' : 'failed', reason: answer.message };
      else {
        const { block } = answer;
        nodes.succeeded(node, BLOCK_CALL);
        if (block.id !== stored.id)
          said = {
            kind: 'refuted',
            reason: `${node.name} gives block ${height} the id ${block.id}, but ${stored.id} is stored: the node or the store is of another chain`,
          };
        else if (block.proof !== undefined) return { kind: 'proven', block };
        else said = { kind: 'unprovable', reason: `block ${height} cannot be proven by what the nodes send` };
      }
      // A node that failed may prove it later; one of another chain is named.
      if (worst?.kind !== 'refuted' && (worst === undefined || said.kind !== 'unprovable')) worst = said;
    }
    return worst ?? { kind: 'failed', reason: `no access node is known to serve block ${height}` };
  }

  #tell(reason: string): void {
    this.#reason = `some stored blocks are not proven: ${reason}`;
    if (!this.#hasWarned) this.#deps.logger.warn({ reason }, 'some stored blocks cannot be proven');
    this.#hasWarned = true;
  }
}
