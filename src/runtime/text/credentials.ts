/**
 * `user:password@` in a URL, anywhere in a text, except what `maskedEndpoint` wrote. The scheme's length is
 * limited: without that, a long word would take quadratic time.
 */
const IN_URL = /([a-z][a-z0-9+.-]{0,15}:\/\/)(?!\*\*\*@)[^\s/@"\\]+@/gi;
/** `user:password@` without a scheme before it, or behind one that was mistyped. */
const BARE = /[^\s/@:"'\\]{1,64}:[^\s/@"'\\]{1,255}@/g;
/**
 * A URL in which something longer than any port follows the first colon: most likely a password before an `@` that was
 * mistyped.
 */
const LONG_PORT = /([a-z][a-z0-9+.-]{0,15}:\/\/[^\s/@"\\:,[\]]{1,255}:)[^\s/@"\\,;)[\]]{9,}/gi;
/** Everything before the last `@` of an endpoint, with or without a scheme. */
const IN_ENDPOINT = /^(\s*(?:[a-z][a-z0-9+.-]*:\/\/)?).*@/is;

/** Removes everything that looks like `user:password@` from a text: for everything that is logged or printed. */
export function withoutCredentials(text: string): string {
  const known = text.includes('@') ? text.replace(IN_URL, '$1').replace(BARE, '') : text;
  return known.includes('://') ? known.replace(LONG_PORT, '$1***') : known;
}

/** An endpoint that is safe to show: everything before an `@` is hidden. */
export function maskedEndpoint(text: string): string {
  return text.replace(IN_ENDPOINT, '$1***@');
}
