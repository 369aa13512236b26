/**
 * Keeps the named fields only, as Flow's `select` does: a path names a field with all below it, dots lead into
 * objects, arrays are passed through (`header.id`, `transactions.payer`). A path that leads nowhere selects nothing.
 */
export function selectFields(value: unknown, paths: readonly string[]): unknown {
  if (Array.isArray(value)) return value.map((item: unknown) => selectFields(item, paths));
  if (typeof value !== 'object' || value === null) return value;
  const kept: [string, unknown][] = [];
  for (const [key, field] of Object.entries(value)) {
    if (paths.includes(key)) {
      kept.push([key, field]);
      continue;
    }
    const below = paths
      .filter((path) => path.startsWith(`${key}.`))
      .map((path) => path.slice(key.length + 1));
    if (below.length > 0 && typeof field === 'object' && field !== null)
      kept.push([key, selectFields(field, below)]);
  }
  return Object.fromEntries(kept);
}
