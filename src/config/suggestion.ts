/** Anything longer is no misspelt word, and comparing it would take seconds. */
const LONGEST_WORD = 64;

/**
 * A sentence that suggests what `written` may have meant, each word as `shown`; empty if no known word is close. Close are
 * those that contain it as a word (`port` in `api-port` and `metrics-port`), else the one with the smallest edit distance.
 */
export function suggestion(
  written: string,
  known: readonly string[],
  shown: (word: string) => string = (word) => word,
): string {
  const close = nearest(written.toLowerCase(), known).map(shown);
  const last = close.pop();
  if (last === undefined) return '';
  return ` Did you mean ${close.length === 0 ? last : `${close.join(', ')} or ${last}`}?`;
}

function nearest(written: string, known: readonly string[]): readonly string[] {
  if (written.length > LONGEST_WORD) return [];
  const wordIn = known.filter((candidate) => candidate.toLowerCase().split(/[-._]/).includes(written));
  if (wordIn.length > 0) return wordIn;
  const lettersOf = (word: string): string => Array.from(word).sort().join('');
  const distances = known.map((candidate) => {
    const word = candidate.toLowerCase();
    return lettersOf(word) === lettersOf(written) ? 1 : editDistance(written, word);
  });
  const least = Math.min(...distances);
  // If half of it differs, it is another word: tcsh is not bash.
  const isClose = least <= Math.max(2, Math.floor(written.length / 3)) && 2 * least < written.length;
  return isClose ? known.slice(distances.indexOf(least)).slice(0, 1) : [];
}

function editDistance(left: string, right: string): number {
  let previous = Array.from({ length: right.length + 1 }, (_, index) => index);
  for (let row = 1; row <= left.length; row += 1) {
    const current = [row];
    for (let column = 1; column <= right.length; column += 1) {
      const substitution = (previous[column - 1] ?? 0) + (left[row - 1] === right[column - 1] ? 0 : 1);
      current.push(Math.min(substitution, (previous[column] ?? 0) + 1, (current[column - 1] ?? 0) + 1));
    }
    previous = current;
  }
  return previous[right.length] ?? 0;
}
