import { every } from '../../runtime/index.js';
import type { Clock, Timer } from '../../runtime/index.js';
import { withoutIds } from '../logs/Logger.js';
import type { Logger } from '../logs/Logger.js';
import { readinessCodes } from './readiness.js';
import type { Finding, Readiness, ReadinessCode, ReadinessReason } from './readiness.js';

/** How often readiness is checked when nobody asks, and so how precisely changes are timed. */
const TURN_MS = 1000;
/** If a check is this late, the process stood still, and what it was waiting for may have arrived in the meantime. */
const STOOD_STILL_MS = 5_000;

const STOOD_STILL =
  'check whether it was suspended (SIGSTOP, a paused machine) or starved of CPU or memory; it continues by itself';

/**
 * Tracks how long each reason for not being ready has lasted, and logs when it comes and goes. From `start()` on it
 * checks once a second, and logs a standstill of the process: delays that it causes are blamed on nothing else.
 */
export class HealthMonitor {
  readonly #clock: Clock;
  readonly #find: () => readonly Finding[];
  readonly #logger: Logger | undefined;
  /** When each current reason arose, in monotonic milliseconds. */
  readonly #since = new Map<ReadinessCode, number>();
  #found: readonly Finding[] = [];
  /** When the last periodic check ran; `undefined` while there are none. */
  #turnedAtMs: number | undefined;
  /** After a standstill, the earlier findings are kept until then. */
  #keepFindingsUntilMs = 0;
  #timer: Timer | undefined;

  constructor(dependencies: {
    readonly clock: Clock;
    /** Why the daemon is not ready now; at most one finding per code. Must not wait, or use store or network. */
    readonly findings: () => readonly Finding[];
    readonly logger?: Logger;
  }) {
    this.#clock = dependencies.clock;
    this.#find = dependencies.findings;
    this.#logger = dependencies.logger;
  }

  /** Starts the periodic checks. */
  start(): void {
    if (this.#timer !== undefined) return;
    const turn = (): void => {
      this.readiness();
      this.#turnedAtMs = this.#clock.monotonic();
    };
    turn();
    this.#timer = every(this.#clock, TURN_MS, turn);
  }

  close(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    this.#turnedAtMs = undefined;
  }

  /** The current state. */
  readiness(): Readiness {
    const nowMs = this.#clock.monotonic();
    this.#noteStandstill(nowMs);
    if (nowMs >= this.#keepFindingsUntilMs) this.#found = this.#find();
    const found = this.#found;
    this.#noteChanges(found, nowMs);
    const reasons = found.map(({ code, message, height }): ReadinessReason => {
      const sinceSeconds = wholeSeconds(nowMs - (this.#since.get(code) ?? nowMs));
      return { code, message, ...(height === undefined ? {} : { height }), sinceSeconds };
    });
    return { ready: reasons.length === 0, reasons };
  }

  /** Called on every query, because a caller may come before the late periodic check. */
  #noteStandstill(nowMs: number): void {
    const lateMs = nowMs - (this.#turnedAtMs ?? nowMs) - TURN_MS;
    if (lateMs < STOOD_STILL_MS) return;
    this.#logger?.warn({ seconds: wholeSeconds(lateMs), advice: STOOD_STILL }, 'the process stood still');
    this.#turnedAtMs = nowMs;
    this.#keepFindingsUntilMs = nowMs + TURN_MS;
  }

  #noteChanges(found: readonly Finding[], nowMs: number): void {
    const wasReady = this.#since.size === 0;
    const current = new Set(found.map(({ code }) => code));
    for (const [code, sinceMs] of this.#since) {
      if (current.has(code)) continue;
      this.#since.delete(code);
      this.#logger?.info({ code, afterSeconds: wholeSeconds(nowMs - sinceMs) }, 'readiness reason cleared');
    }
    if (found.length === 0 && !wasReady) this.#logger?.info({}, 'ready');
    for (const { code, message, height } of found) {
      if (this.#since.has(code)) continue;
      this.#since.set(code, nowMs);
      const fields = { code, detail: withoutIds(message), height };
      if (readinessCodes[code].severity === 'ordinary') this.#logger?.info(fields, 'not ready');
      else this.#logger?.warn(fields, 'not ready');
    }
  }
}

function wholeSeconds(milliseconds: number): number {
  return Math.floor(milliseconds / 1000);
}
