/**
 * Runs scenarios beside each other that mostly wait, in one test: what they clean up is cleaned up at its end. Fails with all
 * that failed, each by its name.
 */
export async function together(scenarios: Readonly<Record<string, () => Promise<unknown>>>): Promise<void> {
  const failures = await Promise.all(
    Object.entries(scenarios).map(([name, run]) =>
      run().then(
        () => [],
        (error: unknown) => [
          `${name}: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`,
        ],
      ),
    ),
  );
  if (failures.flat().length > 0) throw new Error(failures.flat().join('\n\n'));
}
