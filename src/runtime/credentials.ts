/**
 * `user:password@` in a URL, anywhere in a text, except what `maskedEndpoint` wrote. The scheme's length is
 * limited: without that, a long word would take quadratic time.
 */
const IN_URL = /([a-z][a-z0-9+.-]{0,15}:\/\/)(?!\*\*\*@)[^\s/@"\\]+@/gi;
/** Everything before the last `@` of an endpoint, with or without a scheme. */
const IN_ENDPOINT = /^(\s*(?:[a-z][a-z0-9+.-]*:\/\/)?).*@/is;

/** Removes `user:password@` from URLs in a text: for everything that is logged or printed. */
export function withoutCredentials(text: string): string {
  return text.includes('@') ? text.replace(IN_URL, '$1') : text;
}

/** An endpoint that is safe to show: everything before an `@` is hidden. */
export function maskedEndpoint(text: string): string {
  return text.replace(IN_ENDPOINT, '$1***@');
}
