/** Most heights compared. */
const MAX_LOOKS = 48;

/**
 * The highest height below `differing` at which two chains have the same block; `undefined` when it is not found within
 * the bound. `isShared`: `undefined` where unknown. A new chain discards the topmost blocks, so the search doubles its
 * steps downward, then bisects the last one. Unknown heights only move it upwards.
 */
export async function highestShared(
  { firstHeight, differing }: { readonly firstHeight: number; readonly differing: number },
  isShared: (height: number) => Promise<boolean | undefined>,
): Promise<number | undefined> {
  let other = differing;
  let below: number | undefined;
  let shared: number | undefined;
  for (let step = 1, looks = 0; looks < MAX_LOOKS; looks += 1) {
    const height =
      below === undefined ? Math.max(firstHeight, differing - step) : Math.floor((below + other) / 2);
    if (height >= other || height === below) break;
    const is = await isShared(height);
    if (is === false) {
      other = height;
      step *= 2;
    } else {
      below = height;
      if (is === true) shared = height;
    }
  }
  return shared;
}
