import { onTestFinished } from 'vitest';
import { AbortError } from '../../src/runtime/index.js';

/** A folder of packages has tens of thousands of files, and the disk may be busy. */
const CLEAN_TIMEOUT_MS = 180_000;

type Clean = () => unknown;

let scenario: Clean[] | undefined;

/** Runs `clean` at the end of the test, or of the scenario where a script runs one without a test around it. */
export function atEnd(clean: Clean): void {
  const cleaned = async (): Promise<void> => {
    await clean();
  };
  if (scenario === undefined) onTestFinished(cleaned, CLEAN_TIMEOUT_MS);
  else scenario.push(clean);
}

/** Lets something run until then, however it ends. */
export function untilEnd(run: (signal: AbortSignal) => Promise<unknown>): void {
  const stop = new AbortController();
  const ended = run(stop.signal).catch(() => undefined);
  atEnd(async () => {
    stop.abort(new AbortError('the test ends'));
    await ended;
  });
}

/** A scenario, cleaned up after whatever becomes of it, all of it. One within another, never two beside each other. */
export async function withCleanup<T>(action: () => Promise<T>): Promise<T> {
  const outer = scenario;
  const cleaning: Clean[] = [];
  scenario = cleaning;
  const [outcome] = await Promise.allSettled([action()]);
  scenario = outer;
  const failures = outcome.status === 'rejected' ? [outcome] : [];
  for (const clean of cleaning.reverse()) {
    const [cleaned] = await Promise.allSettled([(async () => clean())()]);
    if (cleaned.status === 'rejected') failures.push(cleaned);
  }
  if (outcome.status === 'fulfilled' && failures.length === 0) return outcome.value;
  throw failures[0]?.reason;
}
