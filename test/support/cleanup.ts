import { onTestFinished } from 'vitest';

type Clean = () => void | Promise<void>;

let scenario: Clean[] | undefined;

/** Runs `clean` at the end of the test, or of the scenario where a script runs one without a test around it. */
export function atEnd(clean: Clean): void {
  if (scenario === undefined) onTestFinished(clean);
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
