import type { Clock, Timer } from '../../runtime/index.js';
import { StreamFault } from './StreamFault.js';

interface Parts {
  /** How long due data may be missing. */
  readonly silenceMs: number;
  /** The same for the first message, if it is due when the stream is opened. */
  readonly openingSilenceMs: number;
  /** A stream that is at most this many heights behind is never too slow. */
  readonly paceSlackHeights: number;
  /** The state of a height that is due. */
  readonly due: 'sealed' | 'finalized';
  readonly clock: Clock;
  /** The next height that the stream must deliver, and the highest that is due; called at every check. */
  position(): { readonly next: number; readonly due: number | undefined };
  /** Also called at every check; may return a fault of its own. */
  look(): StreamFault | undefined;
  onFault(fault: StreamFault): void;
}

/** A stream that is further behind at the end of this time than at its start is too slow. */
const PACE_SPAN_MS = 30_000;
/** Checks per silence: a fault goes unnoticed for at most a quarter of the silence. */
const LOOKS_PER_SILENCE = 4;

/**
 * Watches whether a stream delivers what is due, not merely whether it is open. Heights up to the sealed or finalized head
 * are due. A quiet chain is not a fault, nor is a stream that we do not read. One timer; two comparisons per message. (A
 * stream slower than block production looks alive: subsquid/squid-sdk PR 549.)
 */
export class StreamMonitor {
  readonly #parts: Parts;
  #timer: Timer | undefined;
  #isPulling = false;
  #pullingSinceMs = 0;
  /** The message that was due when the stream was opened has not arrived. */
  #isOpening: boolean | undefined;
  #dueSinceMs: number | undefined;
  #span: { readonly atMs: number; readonly lag: number } | undefined;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /** Since when the next message has been overdue; `undefined` while it is not due. */
  get dueSinceMs(): number | undefined {
    return this.#isPulling && this.#isDue() ? this.#dueSinceMs : undefined;
  }

  /** Since when the next message has been awaited before it is due; `undefined` once it is due. */
  get earlySinceMs(): number | undefined {
    return this.#isPulling && !this.#isDue() ? this.#pullingSinceMs : undefined;
  }

  start(): void {
    const { silenceMs, openingSilenceMs } = this.#parts;
    const lookMs = Math.ceil(Math.min(silenceMs, openingSilenceMs) / LOOKS_PER_SILENCE);
    this.#timer = this.#parts.clock.setTimer(lookMs, () => {
      this.start();
      const fault = this.#silence() ?? this.#pace() ?? this.#parts.look();
      if (fault !== undefined) this.#parts.onFault(fault);
    });
  }

  stop(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
  }

  /** A read begins. True when the next height is due. */
  pulling(): boolean {
    this.#isPulling = true;
    this.#pullingSinceMs = this.#parts.clock.monotonic();
    this.#dueSinceMs = this.#isDue() ? this.#pullingSinceMs : undefined;
    this.#isOpening ??= this.#dueSinceMs !== undefined;
    return this.#dueSinceMs !== undefined;
  }

  pulled(): void {
    this.#isPulling = false;
    this.#isOpening = false;
    this.#dueSinceMs = undefined;
  }

  /** We did not read for a while: ground lost meanwhile is not the stream's fault. */
  paused(): void {
    this.#span = undefined;
  }

  #isDue(): boolean {
    const { next, due } = this.#parts.position();
    return due !== undefined && due >= next;
  }

  #silence(): StreamFault | undefined {
    if (!this.#isPulling || !this.#isDue()) {
      this.#dueSinceMs = undefined;
      return undefined;
    }
    const nowMs = this.#parts.clock.monotonic();
    this.#dueSinceMs ??= nowMs;
    const { due, silenceMs, openingSilenceMs } = this.#parts;
    if (nowMs - this.#dueSinceMs < (this.#isOpening === true ? openingSilenceMs : silenceMs))
      return undefined;
    if (this.#isOpening === true)
      return new StreamFault('absent', `nothing came, although the height is ${due}`);
    return new StreamFault('silent', `the stream stalled below the ${due} head`);
  }

  #pace(): StreamFault | undefined {
    const { next, due } = this.#parts.position();
    const lag = due === undefined ? 0 : due + 1 - next;
    if (!this.#isPulling || lag <= this.#parts.paceSlackHeights) {
      this.#span = undefined;
      return undefined;
    }
    const nowMs = this.#parts.clock.monotonic();
    this.#span ??= { atMs: nowMs, lag };
    if (nowMs - this.#span.atMs < PACE_SPAN_MS) return undefined;
    const lost = lag - this.#span.lag;
    this.#span = undefined;
    return lost > 0 ? new StreamFault('lagging', 'the stream is slower than the chain grows') : undefined;
  }
}
