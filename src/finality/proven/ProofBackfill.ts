import { answerOf, UpstreamError, type AccessNodes } from '../../access/index.js';
import { isSameBlock, type FinalizedBlock } from '../../flow/index.js';
import type { Logger } from '../../observability/index.js';
import { abortReason, asError, sleep, type Clock } from '../../runtime/index.js';
import { unlessDamaged, type FoundDamage, type HeightRange } from '../../storage/index.js';
import type { IndexStore, WriteRoom } from '../../storage/index.js';
import { BLOCK_CALL } from '../ports.js';

/** Blocks that are requested at once, and become durable together. */
const BATCH_HEIGHTS = 16;
/** The least pause between two batches. */
const PACE_MS = 20;
/** How often to look for unproven heights, and whether this process may prove them. */
const LOOK_EVERY_MS = 1_000;
/** Pause before nodes that failed are asked again. */
const AGAIN_MS = 15_000;
/** How long to skip heights for which nodes failed while other heights were proven. */
const SKIPPED_AFTER_FAILURE_MS = 60_000;
/** How long to skip heights that no node can prove. */
const SKIPPED_FOR_MS = 600_000;
const UNTRIED = 'at the head of the chain, nodes are asked for missing proofs every 10 minutes';
/** The most heights that are skipped because those just above cannot be proven. */
const MAX_SKIPPED_HEIGHTS = 1_000_000;

interface Dependencies {
  readonly store: Pick<IndexStore, 'addProofs' | 'blockByHeight' | 'unproven'>;
  /** They are asked at the rank of history. */
  readonly nodes: AccessNodes;
  /** False while the newest blocks have priority, or another process proves. */
  readonly mayRun: () => boolean;
  /** The share of its speed that history may have, above 0 to 1. */
  readonly share: () => number;
  readonly room?: WriteRoom | undefined;
  /** More blocks are proven: their consequences may be provable now, even if the head stands still. */
  readonly onProven: () => void;
  /** A stored block has other guarantees, or another parent, than its proof: it has to be fetched again. */
  readonly onDamage: (damage: FoundDamage) => void;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** `undefined`: the height is no longer stored, or is damaged, which the read reports. */
type Asked =
  | { readonly kind: 'proven'; readonly block: FinalizedBlock }
  /** `unprovable`: no node has its proof. `refuted`: at this height alone, nodes and store disagree. */
  | { readonly kind: 'unprovable' | 'refuted' | 'failed'; readonly reason: string }
  | undefined;

/**
 * Proves what was stored without a proof, by an earlier version or with `proof.mode: off`: fetches these blocks from the
 * nodes again, newest first, and adds the proofs. All its state is durable, so it may end at any time.
 */
export class ProofBackfill {
  readonly #deps: Dependencies;
  /** All heights from here on were tried: in this pass, or when they were indexed. */
  #triedFrom = 0;
  /** When a new pass begins, at the top. */
  #againAtMs = 0;
  /** How many heights to skip where the next ones cannot be proven either. */
  #skipped = BATCH_HEIGHTS;
  #reason: string | undefined;
  /** The same, without failures that end once nodes answer again. */
  #lasting: string | undefined;
  #hasWarned = false;

  constructor(dependencies: Dependencies) {
    this.#deps = dependencies;
  }

  /** Why some blocks stay unproven; `undefined` while none does. */
  reason(): string | undefined {
    return this.#deps.store.unproven().length === 0 ? undefined : (this.#reason ?? UNTRIED);
  }

  /**
   * Runs until the signal aborts. Expected errors: `StorageError`; the signal's abort reason.
   */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, room, share } = this.#deps;
    this.#beginPass();
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

  #beginPass(): void {
    const { clock, store } = this.#deps;
    this.#triedFrom = (store.unproven().at(-1)?.to ?? -1) + 1;
    this.#againAtMs = clock.monotonic() + SKIPPED_FOR_MS;
    this.#skipped = BATCH_HEIGHTS;
    this.#lasting = undefined;
  }

  /** The highest heights to prove. */
  #next(): HeightRange | undefined {
    const { clock, mayRun, store } = this.#deps;
    const unproven = store.unproven();
    if (unproven.length === 0) this.#reason = this.#lasting = undefined;
    if (unproven.length === 0 || !mayRun()) return undefined;
    if (clock.monotonic() >= this.#againAtMs) this.#beginPass();
    const highest = unproven.findLast(({ from }) => from < this.#triedFrom);
    if (highest === undefined) return undefined;
    const to = Math.min(highest.to, this.#triedFrom - 1);
    return { from: Math.max(highest.from, to - BATCH_HEIGHTS + 1), to };
  }

  /** False: the nodes failed, and may succeed later. */
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
      await this.#deps.store.addProofs(proven);
      this.#deps.onProven();
    }
    const kinds = new Set(answers.map((answer) => answer?.kind));
    this.#reason = this.#lasting;
    for (const { reason } of answers.filter((each) => each !== undefined && each.kind !== 'proven')) {
      this.#reason = `some stored blocks are not proven: ${reason}`;
      if (!this.#hasWarned) this.#deps.logger.warn({ reason }, 'some stored blocks cannot be proven');
      this.#hasWarned = true;
    }
    if (kinds.size === 1 && kinds.has('failed')) return false;
    this.#lasting = this.#reason;
    this.#triedFrom = from;
    if (kinds.size === 1 && kinds.has('unprovable')) {
      this.#triedFrom = Math.min(from, to - this.#skipped + 1);
      this.#skipped = Math.min(2 * this.#skipped, MAX_SKIPPED_HEIGHTS);
    }
    if (kinds.has('failed'))
      this.#againAtMs = Math.min(this.#againAtMs, this.#deps.clock.monotonic() + SKIPPED_AFTER_FAILURE_MS);
    return true;
  }

  async #ask(height: number, signal: AbortSignal): Promise<Asked> {
    const { nodes, store } = this.#deps;
    const stored = (await unlessDamaged(() => store.blockByHeight(height)))?.block;
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
        else if (block.proof !== undefined) {
          if (isSameBlock(block, stored) && block.parentId === stored.parentId)
            return { kind: 'proven', block };
          const what = `block ${height}: its id proves another parent or other guarantees than are stored`;
          this.#deps.onDamage({ height, what });
          said = { kind: 'refuted', reason: `${what}; it is fetched again` };
        } else
          said = { kind: 'unprovable', reason: `block ${height} cannot be proven by what the nodes send` };
      }
      // A node that failed may prove it later; one of another chain is named.
      if (worst?.kind !== 'refuted' && (worst === undefined || said.kind !== 'unprovable')) worst = said;
    }
    return worst ?? { kind: 'failed', reason: `no access node is known to serve block ${height}` };
  }
}
