import { onTestFinished } from 'vitest';

/** A folder of packages has tens of thousands of files, and the disk may be busy. */
const CLEAN_TIMEOUT_MS = 180_000;

type Clean = () => void | Promise<void>;

let scenario: Clean[] | undefined;

/** Runs `clean` at the end of the test, or of the scenario where a script runs one without a test around it. */
export function atEnd(clean: Clean): void {
  if (scenario === undefined) onTestFinished(clean, CLEAN_TIMEOUT_MS);
  else scenario.push(clean);
}

/** A scenario, cleaned up after whatever becomes of it. One within another, never two beside each other. */
export async function withCleanup<T>(action: () => Promise<T>): Promise<T> {
  const outer = scenario;
  const cleaning: Clean[] = [];
  scenario = cleaning;
  try {
    return await action();
  } finally {
    scenario = outer;
    for (const clean of cleaning.reverse()) await clean();
  }
}
