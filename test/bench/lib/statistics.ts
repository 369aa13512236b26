/** The middle value; of an even number of values the mean of the two in the middle. NaN of nothing. */
export function median(values: readonly number[]): number {
  const sorted = values.toSorted((left, right) => left - right);
  const upper = sorted[sorted.length >> 1] ?? Number.NaN;
  const lower = sorted[(sorted.length - 1) >> 1] ?? Number.NaN;
  return (lower + upper) / 2;
}

/** The value that `share` (0 … 1) of all values do not exceed. NaN of nothing. */
export function percentile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((left, right) => left - right);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}

/** Runs every subject once in every round, so that all meet the same noise; the order turns from round to round. */
export async function interleave<Name extends string, Result>(
  subjects: Readonly<Record<Name, () => Result | Promise<Result>>>,
  { rounds }: { readonly rounds: number },
): Promise<Record<Name, Result[]>> {
  const names = Object.keys(subjects) as Name[];
  const results = Object.fromEntries(names.map((name): [Name, Result[]] => [name, []])) as Record<
    Name,
    Result[]
  >;
  for (let round = 0; round < rounds; round += 1) {
    for (const step of names.keys()) {
      const name = names[(step + round) % names.length] as Name;
      results[name].push(await subjects[name]());
    }
  }
  return results;
}

/** The median of the ratios within a round: what drifts from round to round drops out. */
export function ratioOf(numerators: readonly number[], denominators: readonly number[]): number {
  return median(numerators.map((value, round) => value / (denominators[round] ?? Number.NaN)));
}

/** Of the monotonic clock, which is the same in every process of a machine. */
export const nowMs = (): number => Number(process.hrtime.bigint()) / 1e6;
