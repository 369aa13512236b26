import { monitorEventLoopDelay } from 'node:perf_hooks';
import type { ReadinessCode } from '../../src/observability/index.js';
import type { Cell } from './cells.js';
import { CellRun, isFromTheStart, pause } from './CellRun.js';
import type { Look } from './CellRun.js';
import { OF_THE_CHAIN, ORDINARY, WORDS } from './expectations.js';

/** The promises, in milliseconds. */
const PROGRESS_WITHIN_MS = 15_000;
const CAUSE_WITHIN_MS = 10_000;
/** A look takes its time, and others have theirs. */
const SLACK_MS = 1_000;
/** How long what was found must last. */
const LASTS_MS = 3_000;
/** A height now and then is neither progress nor standing still. */
const UNDECIDED_MS = 30_000;
/** Its servers close before the daemon has ended. */
const ENDS_WITHIN_MS = 9_000;
/** The reason may have arisen so long after what it tells of. */
const REASON_LATER_MS = 4_000;
/** More warnings than that about one fault are noise. */
const WARNINGS_MAX = 12;

export const failureKinds = [
  /** Nothing goes on, and nothing is said. */
  'silence',
  /** Something honest was left, and nothing went on. */
  'stuck',
  /** A cause was told that is none. */
  'wrong cause',
  /** The right cause, but not where, or not as completely, as it must be told. */
  'told in part',
  /** The fault is over, and nothing goes on. */
  'no recovery',
  /** All goes on, and the cause is still told. */
  'cause stays',
  /** The daemon ended. */
  'ended',
  /** The cell could not be played. */
  'broken',
] as const;
export type FailureKind = (typeof failureKinds)[number];

export interface Failure {
  readonly kind: FailureKind;
  readonly detail: string;
}

/** Where the cause was told, and with what. */
export interface Telling {
  readonly code: string;
  readonly message: string;
  /** Since nothing went on. */
  readonly afterMs: number;
  readonly node: boolean;
  readonly words: boolean;
  readonly count: boolean;
  readonly since: boolean;
  readonly status: boolean;
  readonly explain: boolean;
  /** Warnings that name the node. */
  readonly warnings: number;
}

export interface CellResult {
  readonly cell: string;
  readonly kind: string;
  readonly outcome: 'progress' | 'cause' | 'exit' | 'neither';
  readonly failures: readonly Failure[];
  /** To the progress, or the cause. */
  readonly afterMs?: number;
  readonly recoveredAfterMs?: number;
  readonly telling?: Telling;
  /** What `/readyz` said when the cell failed. */
  readonly readyz?: readonly string[];
  /** The machine gave this process no time for so long: what the cell shows is not the daemon's doing. */
  readonly heldUpMs: number;
  readonly seconds: number;
}

const HELD_UP_MS = 750;
/** How often a cell is played until its process was not kept waiting. */
export const PLAYED_MAX = 4;

/** True for a failure of a cell whose process the machine kept waiting: it is played again. */
export function isDisturbed({ failures, heldUpMs }: CellResult): boolean {
  return failures.length > 0 && heldUpMs >= HELD_UP_MS;
}

/** What is found out about a cell while it is played. */
interface Notes {
  outcome: CellResult['outcome'];
  readonly failures: Failure[];
  afterMs?: number;
  recoveredAfterMs?: number;
  telling?: Telling;
  lastLook?: Look;
}

/**
 * Plays one cell from the healthy daemon to the end of the fault. `patience`: how many times the promised time is allowed,
 * where others share the machine. Never rejects.
 */
export async function play(cell: Cell, { patience = 1 } = {}): Promise<CellResult> {
  const beganAtMs = performance.now();
  const notes: Notes = { outcome: 'neither', failures: [] };
  const delay = monitorEventLoopDelay();
  delay.enable();
  let run: CellRun | undefined;
  try {
    run = await CellRun.start(cell);
    if (isFromTheStart(cell.phase)) await run.listens();
    else run.fault((await run.healthy()).watermark);
    await suffer(run, notes, patience);
    if (cell.expected.staysBroken !== true) await recover(run, notes, patience);
  } catch (error) {
    notes.failures.push({ kind: 'broken', detail: error instanceof Error ? error.message : String(error) });
  }
  await run?.close().catch((error: unknown) => {
    notes.failures.push({ kind: 'broken', detail: error instanceof Error ? error.message : String(error) });
  });
  delay.disable();
  const { lastLook, ...rest } = notes;
  const said = lastLook?.reasons.map(({ code, message }) => `${code}: ${message}`);
  return {
    ...{ cell: cell.name, kind: cell.kind, ...rest },
    ...(notes.failures.length === 0 || said === undefined ? {} : { readyz: said }),
    heldUpMs: Math.round(delay.max / 1e6),
    seconds: Math.round((performance.now() - beganAtMs) / 100) / 10,
  };
}

/** From the fault on, until one of the outcomes is certain. */
async function suffer(run: CellRun, notes: Notes, patience: number): Promise<void> {
  const { mustProgress, codes } = run.cell.expected;
  const faultAtMs = performance.now();
  let watermark = -2;
  let movedAtMs = faultAtMs;
  let goingSinceMs: number | undefined;
  for (;;) {
    const look = await lookUnlessEnded(run, notes);
    if (look === undefined) return;
    noteWrongCauses(run, look, notes);
    if (look.watermark > watermark) {
      if (watermark !== -2) movedAtMs = look.atMs;
      watermark = look.watermark;
    }
    const afterMs = Math.round(look.atMs - faultAtMs);
    const stillMs = Math.round(look.atMs - movedAtMs);
    // What the window still held may come on for a moment, and then nothing more.
    const goesOn = run.isProgress(look) && stillMs < LASTS_MS;
    goingSinceMs = goesOn ? (goingSinceMs ?? look.atMs) : undefined;
    if (goingSinceMs !== undefined && look.atMs - goingSinceMs >= LASTS_MS) {
      notes.outcome = 'progress';
      notes.afterMs = Math.round(goingSinceMs - faultAtMs);
      return;
    }
    const cause = run.causes(look).find(({ code }) => codes.includes(code));
    if (!mustProgress && !goesOn && cause !== undefined) {
      notes.outcome = 'cause';
      notes.afterMs = stillMs;
      await lastingCause(run, { ...cause, afterMs: stillMs, faultAtMs }, notes);
      return;
    }
    const isLate = goingSinceMs === undefined && afterMs > patience * PROGRESS_WITHIN_MS + SLACK_MS;
    if (mustProgress && (isLate || afterMs > patience * UNDECIDED_MS)) {
      fail(notes, 'stuck', `${look.watermark} after ${afterMs} ms; ${said(run, look)}`);
      return;
    }
    if (
      !mustProgress &&
      (stillMs > patience * CAUSE_WITHIN_MS + SLACK_MS || afterMs > patience * UNDECIDED_MS)
    ) {
      fail(notes, 'silence', `at ${look.watermark} for ${stillMs} ms; ${said(run, look)}`);
      return;
    }
    await pause();
  }
}

/** A cause as `/readyz` tells it, and how long after the last progress. */
interface Cause {
  readonly code: ReadinessCode;
  readonly message: string;
  readonly afterMs: number;
  readonly faultAtMs: number;
}

/** The cause is told for as long as it holds, everywhere, and in full. */
async function lastingCause(run: CellRun, cause: Cause, notes: Notes): Promise<void> {
  const untilMs = performance.now() + LASTS_MS;
  let look: Look | undefined;
  while (performance.now() < untilMs) {
    await pause();
    look = await lookUnlessEnded(run, notes);
    if (look === undefined) return;
    if (run.isProgress(look)) {
      notes.outcome = 'progress';
      return;
    }
    noteWrongCauses(run, look, notes);
    if (!run.causes(look).some(({ code }) => run.cell.expected.codes.includes(code))) {
      fail(
        notes,
        'silence',
        `told ${cause.code} after ${cause.afterMs} ms, and then no more; ${said(run, look)}`,
      );
      return;
    }
  }
  const last = run.causes(look as Look).find(({ code }) => run.cell.expected.codes.includes(code));
  notes.telling = await tellingOf(run, { ...cause, message: last?.message ?? cause.message });
  const { node, words, count, since, status, explain, warnings } = notes.telling;
  const lacks = Object.entries({ node, words, count, since, status, explain })
    .filter(([, has]) => !has)
    .map(([name]) => name);
  if (warnings === 0) lacks.push('warning');
  if (warnings > WARNINGS_MAX) lacks.push(`a quiet log (${warnings} warnings)`);
  if (lacks.length > 0) {
    fail(
      notes,
      'told in part',
      `${cause.code} without ${lacks.join(', ')}: ${last?.message ?? cause.message}`,
    );
  }
}

async function tellingOf(run: CellRun, cause: Cause): Promise<Telling> {
  const { daemon, cell } = run;
  const isOfTheChain = OF_THE_CHAIN.has(cause.code);
  const name = isOfTheChain ? '' : (run.nodes[0]?.address ?? '');
  const words = isOfTheChain ? /./ : WORDS[cell.kind];
  const status = await daemon.status();
  const explained = JSON.stringify((await daemon.api(`/explain/${(status.latestIndexed ?? -1) + 1}`)).body);
  const reason = status.reasons.find(({ code }) => code === cause.code);
  const sinceMs = performance.timeOrigin + cause.faultAtMs - SLACK_MS;
  const warnings = daemon.program
    .logs()
    .filter(
      ({ level, time, ...line }) =>
        (level === 'warn' || level === 'error') &&
        Date.parse(time as string) >= sinceMs &&
        JSON.stringify(line).includes(isOfTheChain ? cause.code : name),
    );
  return {
    ...{ code: cause.code, message: cause.message, afterMs: cause.afterMs },
    node: cause.message.includes(name),
    words: words.test(cause.message),
    count:
      isOfTheChain ||
      /\b(?:once|twice|\d+ (?:times|attempts|failures|calls))\b|no answer|nothing yet/i.test(cause.message),
    since:
      /\b(?:since|for) [^:]*\d/i.test(cause.message) ||
      (reason?.sinceSeconds ?? 0) * 1_000 >= performance.now() - cause.faultAtMs - REASON_LATER_MS,
    status: reason?.message.includes(name) === true,
    explain: explained.includes(name) && words.test(explained),
    warnings: warnings.length,
  };
}

/** `undefined`, and noted, where the daemon has ended, or ends while it is asked. */
async function lookUnlessEnded(run: CellRun, notes: Notes): Promise<Look | undefined> {
  try {
    if (run.ending === undefined) return (notes.lastLook = await run.look());
  } catch (error) {
    await run.ended(ENDS_WITHIN_MS);
    if (run.ending === undefined) throw error;
  }
  noteEnding(run, notes);
  return undefined;
}

function noteEnding(run: CellRun, notes: Notes): void {
  const { code, message } = run.ending ?? { code: -1, message: '' };
  notes.outcome = 'exit';
  if (code !== run.cell.expected.exitCode) fail(notes, 'ended', `exit ${code}: ${message}`);
}

/** Each of them once: it stands for all looks. */
function noteWrongCauses(run: CellRun, look: Look, notes: Notes): void {
  const { codes, exitCode } = run.cell.expected;
  for (const { code, message } of run.causes(look)) {
    // One that is to end may be met on its way out.
    if (codes.includes(code) || (code === 'stopping' && exitCode !== undefined)) continue;
    if (notes.failures.some(({ kind, detail }) => kind === 'wrong cause' && detail.startsWith(`${code}:`)))
      continue;
    fail(notes, 'wrong cause', `${code}: ${message}`);
  }
}

/** From the end of the fault on. A daemon that has ended is started again, as a service manager does. */
async function recover(run: CellRun, notes: Notes, patience: number): Promise<void> {
  run.fix(notes.lastLook?.watermark ?? -1);
  if (run.ending !== undefined) run.restart();
  await run.listens();
  const mendedAtMs = performance.now();
  for (;;) {
    if (run.ending !== undefined) {
      fail(notes, 'no recovery', `exit ${run.ending.code}: ${run.ending.message}`);
      return;
    }
    const look = await run.look();
    const afterMs = Math.round(look.atMs - mendedAtMs);
    const goesOn = run.isProgress(look);
    const causes = look.reasons.filter(
      ({ code }) => run.cell.phase !== 'catching up' || !ORDINARY['catching up'].includes(code),
    );
    if (goesOn && causes.length === 0) {
      notes.recoveredAfterMs = afterMs;
      return;
    }
    if (afterMs > patience * PROGRESS_WITHIN_MS + SLACK_MS) {
      notes.lastLook = look;
      fail(
        notes,
        goesOn ? 'cause stays' : 'no recovery',
        `${look.watermark} ${afterMs} ms after the fault's end; ${said(run, look)}`,
      );
      return;
    }
    await pause();
  }
}

function fail(notes: Notes, kind: FailureKind, detail: string): void {
  notes.failures.push({ kind, detail });
}

function said(run: CellRun, look: Look): string {
  const causes = run.causes(look);
  return causes.length === 0
    ? `/readyz names ${look.reasons.map(({ code }) => code).join(', ') || 'nothing'}`
    : causes.map(({ code, message }) => `${code}: ${message}`).join('; ');
}
