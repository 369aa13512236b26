import { every, type Clock, type Timer } from '../../runtime/index.js';
import { withoutIds, type Logger } from '../logs/Logger.js';
import { readinessCodes } from './readiness.js';
import type { Finding, Readiness, ReadinessCode, ReadinessReason } from './readiness.js';

/** How often readiness is checked without a query, and so how precisely changes are timed. */
const TURN_MS = 1000;
/** A check this late means that the process stood still, and that what it waited for may have arrived meanwhile. */
const STOOD_STILL_MS = 5_000;
/** The shortest time before a code that persists is logged again, for another cause. */
const ANOTHER_CAUSE_EVERY_MS = 60_000;
/** The parts of a message that change while its cause stays the same: numbers and units, how often, since when. */
const AMOUNTS = /\((once, |\d+ times )?since [^)]*\)|\d[\w.:]*( \d[\w.:]*)*/g;

const STOOD_STILL =
  'check whether it was suspended (SIGSTOP, a paused machine) or starved of CPU or memory; it continues by itself';

/**
 * Tracks how long each reason for not being ready has lasted, and logs when it arises and clears. From `start()` on it checks
 * once a second, and logs a standstill of the process, so that its delays are not blamed on anything else.
 */
export function monitorHealth(dependencies: {
  readonly clock: Clock;
  /**
   * Why the daemon is not ready now; at most one finding per code. Must not wait, or use store or network. Receives the time
   * since the last standstill in milliseconds; infinite if there was none.
   */
  readonly findings: (sinceStandstillMs: number) => readonly Finding[];
  readonly logger?: Logger;
}) {
  const { clock, findings, logger } = dependencies;
  /** When each current reason arose and was last logged, in monotonic milliseconds, and the cause that was logged. */
  const since = new Map<ReadinessCode, { sinceMs: number; loggedAtMs: number; cause: string }>();
  let lastFound: readonly Finding[] = [];
  /** When the last periodic check ran; `undefined` while there are none. */
  let turnedAtMs: number | undefined;
  /** When the last standstill ended. */
  let awakeSinceMs = -Infinity;
  let timer: Timer | undefined;

  const turn = (): void => {
    readiness();
    turnedAtMs = clock.monotonic();
  };

  const start = (): void => {
    turn();
    timer ??= every(clock, TURN_MS, turn);
  };

  const close = (): void => {
    timer?.cancel();
    timer = undefined;
    turnedAtMs = undefined;
  };

  const readiness = (): Readiness => {
    const nowMs = clock.monotonic();
    noteStandstill(nowMs);
    // For one interval after a standstill, the earlier findings are kept.
    if (nowMs >= awakeSinceMs + TURN_MS) lastFound = findings(nowMs - awakeSinceMs);
    noteChanges(lastFound, nowMs);
    const reasons = lastFound.map((finding): ReadinessReason => {
      const { sinceMs = nowMs } = since.get(finding.code) ?? {};
      return { ...finding, sinceSeconds: wholeSeconds(nowMs - sinceMs) };
    });
    return { ready: reasons.length === 0, reasons };
  };

  /** Called on every query, because a caller may come before the late periodic check. */
  const noteStandstill = (nowMs: number): void => {
    const lateMs = nowMs - (turnedAtMs ?? nowMs) - TURN_MS;
    if (lateMs < STOOD_STILL_MS) return;
    logger?.warn({ seconds: wholeSeconds(lateMs), advice: STOOD_STILL }, 'the process stood still');
    turnedAtMs = awakeSinceMs = nowMs;
  };

  const noteChanges = (found: readonly Finding[], nowMs: number): void => {
    const wasReady = since.size === 0;
    for (const [code, { sinceMs }] of since) {
      if (found.some((finding) => finding.code === code)) continue;
      since.delete(code);
      logger?.info({ code, afterSeconds: wholeSeconds(nowMs - sinceMs) }, 'readiness reason cleared');
    }
    if (found.length === 0 && !wasReady) logger?.info({}, 'ready');
    for (const { code, message, height } of found) {
      const detail = withoutIds(message);
      const cause = detail.replace(AMOUNTS, '');
      const before = since.get(code);
      const { sinceMs = nowMs, loggedAtMs = -Infinity } = before ?? {};
      if (before?.cause === cause || nowMs - loggedAtMs < ANOTHER_CAUSE_EVERY_MS) continue;
      since.set(code, { sinceMs, loggedAtMs: nowMs, cause });
      const level = readinessCodes[code].severity === 'ordinary' ? 'info' : 'warn';
      logger?.[level]({ code, detail, height }, before ? 'not ready, for another cause' : 'not ready');
    }
  };

  return { start, close, readiness };
}

export function wholeSeconds(milliseconds: number): number {
  return Math.floor(milliseconds / 1000);
}
