/**
 * The anchor of a heading, as the repository's own page gives it, so that one link works in both places. A heading that
 * comes again on its page gets `-1`, `-2` and so on.
 */
export function anchorOf(heading: string): string {
  return heading
    .trim()
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{M}\p{N}\p{Pc}\- ]/gu, '')
    .replaceAll(' ', '-');
}
