import type { NodeTrouble } from '../../access/index.js';
import type { Finding } from '../../observability/index.js';
import type { Clock } from '../../runtime/index.js';
import { codeOf, describeTroubles, timeOf } from './describeTroubles.js';
import type { Symptoms } from './symptoms.js';

/** A head that no node has reported for this long is unconfirmed: the lag is unknown. */
const HEAD_UNCONFIRMED_AFTER_MS = 8_000;
/** While starting, a known cause of the wait gets its own code after this time. */
const START_TAKES_MS = 5_000;
/** A chain whose head rose this recently continues, whatever lagging nodes report. */
const HEAD_RISES_WITHIN_MS = 5_000;
/** Once the head is known, a start continues sooner than this without the answers of some nodes. */
const START_HELD_UP_AFTER_MS = 8_500;

/** Findings about nodes that do not answer, or answer for another chain. */
export class UpstreamFindings {
  readonly #clock: Clock;
  readonly #symptoms: Symptoms;
  readonly #startedAtMs: number;
  /** Since when the nodes' head is far below what is indexed. */
  #headBehindSinceMs: number | undefined;

  constructor(dependencies: { readonly clock: Clock; readonly symptoms: Symptoms }) {
    this.#clock = dependencies.clock;
    this.#symptoms = dependencies.symptoms;
    this.#startedAtMs = this.#clock.monotonic();
  }

  /** False while no node confirms the head: then the lag of the index is unknown. */
  isHeadConfirmed(): boolean {
    return (this.#symptoms.headAnswerAgeMs() ?? Infinity) < HEAD_UNCONFIRMED_AFTER_MS;
  }

  find(): (Finding | undefined)[] {
    return [this.#starting(), this.#upstream(), this.#startHeldUp(), this.#chain()];
  }

  #starting(): Finding | undefined {
    const isStarting = this.#symptoms.phase() === 'starting';
    if (!isStarting && this.#symptoms.headHeight() !== undefined) return undefined;
    const what = isStarting
      ? 'the daemon is starting'
      : `no ${this.#symptoms.source()} has reported its finalized head yet`;
    const words = describeTroubles(this.#upstreamTroubles(), this.#clock);
    return { code: 'starting', message: words === '' ? what : `${what}: ${words}` };
  }

  /** The head is not reported, or no longer. */
  #upstream(): Finding | undefined {
    const silentMs = this.#symptoms.headAnswerAgeMs();
    const waitedMs = silentMs ?? this.#clock.monotonic() - this.#startedAtMs;
    const isReplaced = this.#symptoms.chainReplaced() !== undefined;
    // Nodes of another chain are not asked for their head: what they said of it before is old.
    const troubles = isReplaced ? this.#symptoms.identityTroubles() : this.#upstreamTroubles();
    const limitMs =
      silentMs === undefined && troubles.length > 0 ? START_TAKES_MS : HEAD_UNCONFIRMED_AFTER_MS;
    if (waitedMs < limitMs) return undefined;
    const code = codeOf(troubles);
    if (isReplaced && code === 'upstream_unreachable') return undefined;
    const words = describeTroubles(troubles, this.#clock);
    const source = this.#symptoms.source();
    const what = `no ${source} has reported its head for ${Math.floor(waitedMs / 1000)} s${words === '' ? '' : `: ${words}`}`;
    const key = source === 'peer' ? 'peers' : 'accessNodes';
    const advice = `; check that ${key} names ${source}s that run and can be reached from here`;
    return { code, message: code === 'upstream_unreachable' ? what + advice : what };
  }

  /** The head is known, but the start still waits for the nodes to say where their chain begins. */
  #startHeldUp(): Finding | undefined {
    const isStarting = this.#symptoms.phase() === 'starting';
    if (!isStarting || this.#clock.monotonic() - this.#startedAtMs < START_HELD_UP_AFTER_MS) return undefined;
    const troubles = this.#symptoms.identityTroubles();
    if (troubles.length === 0) return undefined;
    return {
      code: codeOf(troubles),
      message: `the start waits for the nodes to identify themselves: ${describeTroubles(troubles, this.#clock)}`,
    };
  }

  #upstreamTroubles(): readonly NodeTrouble[] {
    const identity = this.#symptoms.identityTroubles();
    const named = new Set(identity.map(({ node }) => node));
    return [...identity, ...this.#symptoms.headTroubles().filter(({ node }) => !named.has(node))];
  }

  #chain(): Finding | undefined {
    const replaced = this.#symptoms.chainReplaced();
    if (replaced !== undefined) {
      const silent = this.#symptoms.identityTroubles().filter(({ kind }) => kind === 'unreachable');
      const words = silent.length === 0 ? '' : ` (not heard: ${describeTroubles(silent, this.#clock)})`;
      return { code: 'chain_replaced', message: replaced.message + words };
    }
    const behind = this.#symptoms.headBehind();
    const rises = (this.#symptoms.headAgeMs() ?? Infinity) < HEAD_RISES_WITHIN_MS;
    // No node has reported a head since it rose: what is known is old.
    const isOld = (this.#symptoms.headAnswerAgeMs() ?? Infinity) >= HEAD_RISES_WITHIN_MS;
    if (behind === undefined || rises || isOld) {
      this.#headBehindSinceMs = undefined;
      return undefined;
    }
    const { head, watermark } = behind;
    this.#headBehindSinceMs ??= this.#clock.monotonic();
    return {
      code: 'head_behind',
      height: head,
      message: `the nodes' head, ${head}, is ${watermark - head} heights below what is indexed, ${watermark}, since ${timeOf(this.#headBehindSinceMs, this.#clock)}: they are being restored, or lag far behind`,
    };
  }
}
