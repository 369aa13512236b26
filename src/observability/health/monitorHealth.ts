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
export function monitorHealth(dependencies: {
  readonly clock: Clock;
  /**
   * Why the daemon is not ready now; at most one finding per code. Must not wait, or use store or network. Is given the time since
   * the last standstill in milliseconds, infinite where there was none.
   */
  readonly findings: (sinceStandstillMs: number) => readonly Finding[];
  readonly logger?: Logger;
}) {
  const { clock, findings, logger } = dependencies;
  /** When each current reason arose, in monotonic milliseconds. */
  const since = new Map<ReadinessCode, number>();
  let lastFound: readonly Finding[] = [];
  /** When the last periodic check ran; `undefined` while there are none. */
  let turnedAtMs: number | undefined;
  /** When the last standstill ended. */
  let awakeSinceMs = -Infinity;
  let timer: Timer | undefined;

  const start = (): void => {
    if (timer !== undefined) return;
    const turn = (): void => {
      readiness();
      turnedAtMs = clock.monotonic();
    };
    turn();
    timer = every(clock, TURN_MS, turn);
  };

  const close = (): void => {
    timer?.cancel();
    timer = undefined;
    turnedAtMs = undefined;
  };

  const readiness = (): Readiness => {
    const nowMs = clock.monotonic();
    noteStandstill(nowMs);
    // After a standstill, the earlier findings are kept for a turn.
    if (nowMs >= awakeSinceMs + TURN_MS) lastFound = findings(nowMs - awakeSinceMs);
    const found = lastFound;
    noteChanges(found, nowMs);
    const reasons = found.map(({ code, message, height }): ReadinessReason => {
      const sinceSeconds = wholeSeconds(nowMs - (since.get(code) ?? nowMs));
      return { code, message, ...(height === undefined ? {} : { height }), sinceSeconds };
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
    const current = new Set(found.map(({ code }) => code));
    for (const [code, sinceMs] of since) {
      if (current.has(code)) continue;
      since.delete(code);
      logger?.info({ code, afterSeconds: wholeSeconds(nowMs - sinceMs) }, 'readiness reason cleared');
    }
    if (found.length === 0 && !wasReady) logger?.info({}, 'ready');
    for (const { code, message, height } of found) {
      if (since.has(code)) continue;
      since.set(code, nowMs);
      const fields = { code, detail: withoutIds(message), height };
      if (readinessCodes[code].severity === 'ordinary') logger?.info(fields, 'not ready');
      else logger?.warn(fields, 'not ready');
    }
  };

  return { start, close, readiness };
}

function wholeSeconds(milliseconds: number): number {
  return Math.floor(milliseconds / 1000);
}
