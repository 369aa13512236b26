/** Runs scenarios beside each other that mostly wait. Fails with all that failed, by name. `atOnce`: where each needs much. */
export async function together(
  scenarios: Readonly<Record<string, () => Promise<unknown>>>,
  atOnce = Infinity,
): Promise<void> {
  const queue = Object.entries(scenarios);
  const failures: string[] = [];
  const work = async (): Promise<void> => {
    for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
      const [name, run] = next;
      await run().catch((error: unknown) => {
        failures.push(`${name}: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`);
      });
    }
  };
  await Promise.all(Array.from({ length: Math.min(atOnce, queue.length) }, work));
  if (failures.length > 0) throw new Error(failures.join('\n\n'));
}
