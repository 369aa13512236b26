/** Digits of an id that distinguish it on a page. */
const ID_DIGITS = 10;

/** A message of the daemon as a sentence. Ids are shortened: `/status` has them in full. */
export function sentence(text: string): string {
  const short = text.trim().replaceAll(/\b[0-9a-f]{64}\b/g, (id) => `${id.slice(0, ID_DIGITS)}…`);
  // Names keep their small first letter.
  const begun = /^[a-z]+\b(?![_./:])/.test(short) ? short.charAt(0).toUpperCase() + short.slice(1) : short;
  return /[.!?]$/.test(begun) ? begun : `${begun}.`;
}
