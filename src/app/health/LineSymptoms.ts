import type { ChainTrouble } from '../../finality/index.js';
import { formatDuration } from '../../observability/index.js';
import type { DaemonState } from './DaemonState.js';
import { describeTroubles } from './causes/describeTroubles.js';
import type { Symptoms } from './causes/Symptoms.js';
import type { HeldUp } from './causes/heldUp.js';
import { lineHeldUp } from './causes/lineHeldUp.js';
import { finalBlock } from '../threads/readableIndex.js';

/** Ids named at most in one message: a block may lack a thousand. */
const UNRESOLVABLE_IDS_NAMED = 3;

/** Reads the symptoms from the parts. */
export class LineSymptoms {
  readonly #state: DaemonState;

  constructor(dependencies: { readonly state: DaemonState }) {
    this.#state = dependencies.state;
  }

  all(): Symptoms {
    const { descriptors, diskWatch, leaderWatch, listener, network, readers, store } = this.#state.parts;
    return {
      phase: () => this.#state.phase,
      firstHeight: () => store.meta()?.firstHeight,
      latestIndexedHeight: () => this.#state.latestIndexedHeight(),
      headHeight: () => listener.finalizedHeight(),
      target: () => this.#state.target(),
      sealedHeight: () => listener.sealedHeight(),
      headAnswerAgeMs: () => listener.lastAnswerAgeMs(),
      headAgeMs: () => listener.lastAdvanceAgeMs(),
      sealedAgeMs: () => listener.sealedAdvanceAgeMs(),
      giver: () => network.heights.giver,
      identityTroubles: () => network.identityTroubles(),
      headTroubles: () => listener.headTroubles(),
      chainReplaced: () => network.chain.chainReplaced(),
      headBehind: () => network.chain.headBelow(),
      parentMismatch: () => this.#chainTrouble(this.#state.line?.blocks.parentMismatch()),
      missingSporkEnd: () => this.#chainTrouble(this.#state.line?.blocks.missingSporkEnd()),
      undecidedSpork: () => this.#undecidedSpork(),
      unresolvable: () => this.#unresolvable(),
      heldUp: () => this.#heldUp(),
      commitStartedAtMs: () => this.#state.line?.indexer.commitStartedAtMs(),
      database: () => store.trouble && { trouble: this.#databaseTrouble() },
      provenOnly: () => this.#provenOnly(),
      proofFailed: () => this.#proofFailed(),
      leaderLost: () => leaderWatch.lost(),
      readerDown: () => readers?.down(),
      disk: () => diskWatch.disk(),
      paused: () => diskWatch.pause(),
      outOfDescriptors: () => descriptors.trouble(),
    };
  }

  #provenOnly(): ReturnType<Symptoms['provenOnly']> {
    const { config, parts } = this.#state;
    if (config.proof.finality === 'reported') return undefined;
    const reason =
      parts.prover === undefined
        ? 'the process that follows the chain proves it, and has proven nothing more'
        : parts.prover.status().reason;
    return { to: finalBlock(parts)?.height ?? -1, reason };
  }

  #proofFailed(): ReturnType<Symptoms['proofFailed']> {
    const failed = this.#state.parts.prover?.status().failed;
    if (failed === undefined) return undefined;
    const { height, reason, rewindTo } = failed;
    const message = `the certificate in block ${height} is invalid: ${reason}; the chain is proven up to ${rewindTo}: rewind to that height, and name nodes that follow the chain`;
    return { height, message };
  }

  /** What a database does not do, of those that hold the index and the work. */
  #databaseTrouble(): string | undefined {
    const { queue, replica, store } = this.#state.parts;
    return store.trouble?.() ?? queue?.trouble() ?? replica?.trouble?.();
  }

  /** What does not fit, which nodes sent it, and how to fix it. */
  #chainTrouble(
    trouble: ChainTrouble | undefined,
  ): { readonly height: number; readonly message: string } | undefined {
    if (trouble === undefined) return undefined;
    const { height, what, mend } = trouble;
    const words = describeTroubles(
      this.#state.line?.blocks.heldUpBy()?.troubles ?? [],
      this.#state.parts.clock,
    );
    return { height, message: words === '' ? `${what}: ${mend}` : `${what}: ${words}; ${mend}` };
  }

  /** A reported spork that is not confirmed, and that the next block waits for. */
  #undecidedSpork(): { readonly height: number; readonly message: string } | undefined {
    const block = this.#state.line?.blocks.heldUpBy();
    const spork =
      block?.isUnserved === true
        ? this.#state.parts.network.heights.undecidedSporkAt(block.height)
        : undefined;
    if (block === undefined || spork === undefined) return undefined;
    const { awaited, rootHeight, tellers } = spork;
    const reporters = tellers.join(', ');
    return {
      height: block.height,
      message:
        `a spork at height ${rootHeight} is reported by ${reporters} but is not in config/sporks.json, and it is not known yet whether ` +
        `the chain continues there without one (asked: ${awaited.join(', ')}). If there is such a spork, confirm it with ` +
        `--access-spork-root ${rootHeight}; if not, leave out --access-node ${reporters}`,
    };
  }

  /** What the lowest missing height waits for; `undefined` when there is none. */
  #heldUp(): HeldUp | undefined {
    const height = this.#state.latestIndexedHeight() + 1;
    if (this.#state.line === undefined || height > (this.#state.target() ?? -1)) return undefined;
    const trouble = this.#state.parts.store.trouble?.();
    // Without the database nothing continues, whatever else is wrong.
    if (trouble !== undefined) return { height, message: trouble, code: 'database_unreachable' };
    return this.#heldUpAt(height);
  }

  /** What a height that is not durable waits for. */
  #heldUpAt(height: number): HeldUp | undefined {
    const { config, line, parts } = this.#state;
    return line === undefined ? undefined : lineHeldUp(height, line, { ediOnly: config.ediOnly, ...parts });
  }

  #unresolvable(): { readonly height: number; readonly message: string } | undefined {
    const found =
      this.#state.line?.explainer.unresolvable(this.#state.config.requester.unresolvableAfterMs) ?? [];
    const [lowest] = found;
    if (lowest === undefined) return undefined;
    const named = lowest.ids.slice(0, UNRESOLVABLE_IDS_NAMED).join(', ');
    const unnamed = lowest.ids.length - UNRESOLVABLE_IDS_NAMED;
    const ids = unnamed > 0 ? `${named} and ${unnamed} more` : named;
    const others = found.length > 1 ? `; ${found.length - 1} more heights as well` : '';
    const { height, ageMs } = lowest;
    const why = this.#heldUpAt(height)?.message ?? '';
    const message = `height ${height} has lacked collection ${ids} for ${formatDuration(ageMs / 1000)} (${why})${others}`;
    return { height, message };
  }
}
