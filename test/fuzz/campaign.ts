import { shown, Choices, type FuzzTarget } from './target.js';

/** One input may take so long; beyond it counts as a hang. */
export const HANG_MS = 1_000;

/** So many inputs that were late in company are tried alone. */
const MOST_AGAIN = 20;

export const Phase = { starting: 0, feeding: 1, ending: 2 };

export interface Finding {
  readonly target: string;
  readonly index: number;
  readonly problem: string;
}

export interface Tally {
  readonly inputs: number;
  readonly outcomes: ReadonlyMap<string, number>;
  readonly slowest: { readonly index: number; readonly ms: number };
  readonly elapsedMs: number;
}

export interface CampaignOptions {
  readonly seed: number;
  readonly firstIndex: number;
  readonly inputs: number;
  /** Longest time for one input: `HANG_MS` unless told. */
  readonly hangMs?: number;
  /** Told before each input, so that somebody outside can name the one that never ends. */
  readonly onInput?: (index: number) => void;
  /** Told when no more follow: what is left is to close what the target has opened. */
  readonly onLastInput?: () => void;
}

/** Ends at the first finding. What nobody caught counts as a finding of the input under way. */
export async function campaign(
  target: FuzzTarget,
  options: CampaignOptions,
): Promise<{ readonly tally: Tally; readonly finding: Finding | undefined }> {
  const { seed, firstIndex, inputs, hangMs = HANG_MS, onInput, onLastInput } = options;
  const outcomes = new Map<string, number>();
  let slowest = { index: firstIndex, ms: 0 };
  let next = firstIndex;
  let finding: Finding | undefined;
  const late: number[] = [];
  const found = (index: number, problem: unknown): void => {
    const text = problem instanceof Error ? (problem.stack ?? problem.message) : shown(problem);
    finding ??= { target: target.name, index, problem: text };
  };
  const uncaught = (problem: unknown): void => found(next - 1, problem);
  process.on('uncaughtException', uncaught);
  process.on('unhandledRejection', uncaught);
  const run = await target.open();
  const startedMs = performance.now();
  const feed = async (index: number): Promise<void> => {
    onInput?.(index);
    const beganMs = performance.now();
    const cpuBegan = process.cpuUsage();
    let waited = false;
    try {
      const running = run(new Choices(seed, target.name, index));
      waited = typeof running !== 'string';
      const outcome = typeof running === 'string' ? running : await inTime(running, hangMs);
      outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
    } catch (error) {
      found(index, error);
    }
    const ms = performance.now() - beganMs;
    if (ms > slowest.ms) slowest = { index, ms };
    if (ms <= hangMs) return;
    if (waited) late.push(index);
    else if (cpuMs(cpuBegan) > hangMs) found(index, tooLong(ms, hangMs));
  };
  const worker = async (): Promise<void> => {
    while (next < firstIndex + inputs && finding === undefined) {
      next += 1;
      await feed(next - 1);
    }
  };
  /** Others, or other programs, may have kept it waiting: what was late is fed in once more, alone. */
  const feedAgain = async (): Promise<void> => {
    for (const index of late.splice(0, MOST_AGAIN)) {
      if (finding !== undefined) return;
      onInput?.(index);
      const beganMs = performance.now();
      await run(new Choices(seed, target.name, index));
      const ms = performance.now() - beganMs;
      if (ms > hangMs) found(index, tooLong(ms, hangMs));
    }
  };
  try {
    await Promise.all(Array.from({ length: target.concurrency ?? 1 }, worker));
    await feedAgain();
    onLastInput?.();
    // What was left behind by the last input comes to light within a turn or two.
    await new Promise((resolve) => setImmediate(resolve));
  } finally {
    process.off('uncaughtException', uncaught);
    process.off('unhandledRejection', uncaught);
  }
  const tally = { inputs: next - firstIndex, outcomes, slowest, elapsedMs: performance.now() - startedMs };
  return { tally, finding };
}

function tooLong(ms: number, hangMs: number): Error {
  return new Error(`it took ${ms.toFixed(0)} ms, more than ${hangMs}`);
}

/** Of an input that waits for nothing the work counts, not how long other programs kept the processor from it. */
function cpuMs(before: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1_000;
}

/** Well beyond what counts as a hang: a late answer is told as a late one. */
const GIVE_UP_FACTOR = 5;

async function inTime<T>(running: Promise<T>, hangMs: number): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error('it never ended')), hangMs * GIVE_UP_FACTOR);
  });
  try {
    return await Promise.race([running, late]);
  } finally {
    clearTimeout(timer);
  }
}
