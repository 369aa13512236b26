/** Of an id, what tells it apart from others on a page. */
const ID_DIGITS = 10;

/** What the daemon says, as a sentence of its own. Ids are shortened: `/status` has them in full. */
export function sentence(text: string): string {
  const short = text.trim().replaceAll(/\b[0-9a-f]{64}\b/g, (id) => `${id.slice(0, ID_DIGITS)}…`);
  // Not a name, which may begin with a small letter.
  const begun = /^[a-z]+\b(?![_./:])/.test(short) ? short.charAt(0).toUpperCase() + short.slice(1) : short;
  return /[.!?]$/.test(begun) ? begun : `${begun}.`;
}
