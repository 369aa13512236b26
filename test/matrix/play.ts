import { monitorEventLoopDelay } from 'node:perf_hooks';
import { messageOf } from '../../src/runtime/index.js';
import type { Cell } from './cells.js';
import { CellRun, isFromTheStart, pause, type Look } from './CellRun.js';
import { OF_THE_CHAIN, ORDINARY, WORDS } from './expectations.js';

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
/** How often, as a message says it. */
const COUNT_WORDS = /\b(?:once|twice|\d+ (?:times|attempts|failures|calls))\b|no answer|nothing yet/i;

export type FailureKind =
  /** Nothing goes on, and nothing is said. */
  | 'silence'
  /** Something honest was left, and nothing went on. */
  | 'stuck'
  /** A cause was told that is none. */
  | 'wrong cause'
  /** The right cause, but not where, or not as completely, as it must be told. */
  | 'told in part'
  /** The fault is over, and nothing goes on. */
  | 'no recovery'
  /** All goes on, and the cause is still told. */
  | 'cause stays'
  /** The daemon ended. */
  | 'ended'
  /** The cell could not be played. */
  | 'broken';

export interface Failure {
  readonly kind: FailureKind;
  readonly detail: string;
}

export interface CellResult {
  readonly cell: string;
  readonly outcome: 'progress' | 'cause' | 'exit' | 'neither';
  readonly failures: readonly Failure[];
  /** The machine gave this process no time for so long: what the cell shows is not the daemon's doing. */
  readonly heldUpMs: number;
  readonly seconds: number;
}

const HELD_UP_MS = 750;
/** How often a cell is played until its process was not kept waiting. */
const PLAYED_MAX = 4;

/** Whether a cell has failed while the machine kept its process waiting, and is to be played again. `played`: how often each was. */
export function isDisturbed({ cell, failures, heldUpMs }: CellResult, played: Map<string, number>): boolean {
  const times = (played.get(cell) ?? 0) + 1;
  played.set(cell, times);
  return failures.length > 0 && heldUpMs >= HELD_UP_MS && times < PLAYED_MAX;
}

/** Never rejects. `patience`: how many times the promised time is allowed, where others share the machine. */
export async function play(cell: Cell, { patience = 1 } = {}): Promise<CellResult> {
  const beganAtMs = performance.now();
  const delay = monitorEventLoopDelay();
  delay.enable();
  const failures: Failure[] = [];
  const broken = (error: unknown): void => void failures.push({ kind: 'broken', detail: messageOf(error) });
  let run: CellRun | undefined;
  let outcome: CellResult['outcome'] = 'neither';
  try {
    run = await CellRun.start(cell);
    if (isFromTheStart(cell.phase)) await run.listens();
    else run.fault((await run.healthy()).watermark);
    const trial = new Trial(run, failures, patience);
    outcome = await trial.suffer();
    if (cell.expected.staysBroken !== true) await trial.recover();
  } catch (error) {
    broken(error);
  }
  await run?.close().catch(broken);
  delay.disable();
  return {
    ...{ cell: cell.name, outcome, failures, heldUpMs: Math.round(delay.max / 1e6) },
    seconds: Math.round((performance.now() - beganAtMs) / 100) / 10,
  };
}

/** A cause as `/readyz` told it first, and how long after the last progress. */
interface Cause extends Readonly<ReturnType<CellRun['causes']>[number]> {
  readonly afterMs: number;
  readonly faultAtMs: number;
}

class Trial {
  readonly #run: CellRun;
  readonly #failures: Failure[];
  readonly #patience: number;
  #lastWatermark = -1;

  constructor(run: CellRun, failures: Failure[], patience: number) {
    this.#run = run;
    this.#failures = failures;
    this.#patience = patience;
  }

  /** From the fault on, until one of the outcomes is certain. */
  async suffer(): Promise<CellResult['outcome']> {
    const run = this.#run;
    const { mustProgress } = run.cell.expected;
    const faultAtMs = performance.now();
    let watermark = -2;
    let movedAtMs = faultAtMs;
    let goingSinceMs: number | undefined;
    for (;;) {
      const look = await this.#look();
      if (look === undefined) return 'exit';
      if (look.watermark > watermark) {
        if (watermark !== -2) movedAtMs = look.atMs;
        watermark = look.watermark;
      }
      const afterMs = Math.round(look.atMs - faultAtMs);
      const stillMs = Math.round(look.atMs - movedAtMs);
      // What the window still held may come on for a moment, and then nothing more.
      const goesOn = run.isProgress(look) && stillMs < LASTS_MS;
      goingSinceMs = goesOn ? (goingSinceMs ?? look.atMs) : undefined;
      if (goingSinceMs !== undefined && look.atMs - goingSinceMs >= LASTS_MS) return 'progress';
      const cause = this.#causeIn(look);
      if (!mustProgress && !goesOn && cause !== undefined)
        return this.#lasting({ ...cause, afterMs: stillMs, faultAtMs });
      const isLate = goingSinceMs === undefined && this.#isOver(afterMs, PROGRESS_WITHIN_MS);
      const isUndecided = afterMs > this.#patience * UNDECIDED_MS;
      if (mustProgress && (isLate || isUndecided)) {
        this.#fail('stuck', `${look.watermark} after ${afterMs} ms; ${said(run, look)}`);
        return 'neither';
      }
      if (!mustProgress && (this.#isOver(stillMs, CAUSE_WITHIN_MS) || isUndecided)) {
        this.#fail('silence', `at ${look.watermark} for ${stillMs} ms; ${said(run, look)}`);
        return 'neither';
      }
      await pause();
    }
  }

  /** From the end of the fault on. A daemon that has ended is started again, as a service manager does. */
  async recover(): Promise<void> {
    const run = this.#run;
    run.fix(this.#lastWatermark);
    if (run.ending !== undefined) run.restart();
    await run.listens();
    const mendedAtMs = performance.now();
    while (run.ending === undefined) {
      const look = await run.look();
      const goesOn = run.isProgress(look);
      const isBehind = run.cell.phase === 'catching up';
      const ordinary = isBehind ? ORDINARY['catching up'] : [];
      if (goesOn && look.reasons.every(({ code }) => ordinary.includes(code))) return;
      const afterMs = Math.round(look.atMs - mendedAtMs);
      if (this.#isOver(afterMs, PROGRESS_WITHIN_MS)) {
        const detail = `${look.watermark} ${afterMs} ms after the fault's end; ${said(run, look)}`;
        this.#fail(goesOn ? 'cause stays' : 'no recovery', detail);
        return;
      }
      await pause();
    }
    this.#fail('no recovery', `exit ${run.ending.code}: ${run.ending.message}`);
  }

  /** The cause is told for as long as it holds, everywhere, and in full. */
  async #lasting(cause: Cause): Promise<CellResult['outcome']> {
    const untilMs = performance.now() + LASTS_MS;
    let { message } = cause;
    while (performance.now() < untilMs) {
      await pause();
      const look = await this.#look();
      if (look === undefined) return 'exit';
      if (this.#run.isProgress(look)) return 'progress';
      const now = this.#causeIn(look);
      if (now === undefined) {
        const first = `told ${cause.code} after ${cause.afterMs} ms, and then no more`;
        this.#fail('silence', `${first}; ${said(this.#run, look)}`);
        return 'cause';
      }
      ({ message } = now);
    }
    const lacks = await this.#lacks({ ...cause, message });
    if (lacks.length > 0) this.#fail('told in part', `${cause.code} without ${lacks.join(', ')}: ${message}`);
    return 'cause';
  }

  /** What the telling of a cause is without. */
  async #lacks({ code, message, faultAtMs }: Cause): Promise<string[]> {
    const { daemon, cell, nodes } = this.#run;
    const isOfTheChain = OF_THE_CHAIN.has(code);
    const name = isOfTheChain ? '' : (nodes[0]?.address ?? '');
    const words = isOfTheChain ? /./ : WORDS[cell.kind];
    const status = await daemon.status();
    const explained = JSON.stringify((await daemon.api(`/explain/${(status.latestIndexed ?? -1) + 1}`)).body);
    const reason = status.reasons.find((each) => each.code === code);
    const sinceMs = performance.timeOrigin + faultAtMs - SLACK_MS;
    const { length: warnings } = daemon.program
      .logs()
      .filter(
        ({ level, time, ...line }) =>
          (level === 'warn' || level === 'error') &&
          Date.parse(time as string) >= sinceMs &&
          JSON.stringify(line).includes(isOfTheChain ? code : name),
      );
    const told = {
      node: message.includes(name),
      words: words.test(message),
      count: isOfTheChain || COUNT_WORDS.test(message),
      since:
        /\b(?:since|for) [^:]*\d/i.test(message) ||
        (reason?.sinceSeconds ?? 0) * 1_000 >= performance.now() - faultAtMs - REASON_LATER_MS,
      status: reason?.message.includes(name) === true,
      explain: explained.includes(name) && words.test(explained),
      warning: warnings > 0,
      [`a quiet log (${warnings} warnings)`]: warnings <= WARNINGS_MAX,
    };
    return Object.entries(told).flatMap(([what, isTold]) => (isTold ? [] : [what]));
  }

  /** With what is told wrongly noted; `undefined` where the daemon has ended, or ends while it is asked, which is noted too. */
  async #look(): Promise<Look | undefined> {
    const run = this.#run;
    const { codes, exitCode } = run.cell.expected;
    try {
      if (run.ending === undefined) {
        const look = await run.look();
        this.#lastWatermark = look.watermark;
        for (const { code, message } of run.causes(look)) {
          // One that is to end may be met on its way out.
          if (codes.includes(code) || (code === 'stopping' && exitCode !== undefined)) continue;
          // Each of them once: it stands for all looks.
          const isKnown = this.#failures.some(
            ({ kind, detail }) => kind === 'wrong cause' && detail.startsWith(`${code}:`),
          );
          if (!isKnown) this.#fail('wrong cause', `${code}: ${message}`);
        }
        return look;
      }
    } catch (error) {
      await run.ended(ENDS_WITHIN_MS);
      if (run.ending === undefined) throw error;
    }
    const { code, message } = run.ending;
    if (code !== exitCode) this.#fail('ended', `exit ${code}: ${message}`);
    return undefined;
  }

  #causeIn(look: Look): ReturnType<CellRun['causes']>[number] | undefined {
    return this.#run.causes(look).find(({ code }) => this.#run.cell.expected.codes.includes(code));
  }

  #isOver(ms: number, promisedMs: number): boolean {
    return ms > this.#patience * promisedMs + SLACK_MS;
  }

  #fail(kind: FailureKind, detail: string): void {
    this.#failures.push({ kind, detail });
  }
}

function said(run: CellRun, look: Look): string {
  const causes = run.causes(look);
  return causes.length === 0
    ? `/readyz names ${look.reasons.map(({ code }) => code).join(', ') || 'nothing'}`
    : causes.map(({ code, message }) => `${code}: ${message}`).join('; ');
}
