/**
 * `user:password@` within a URL, wherever in a text the URL stands; what `maskedEndpoint` put there may stay. The scheme is
 * bounded, lest a long word cost the square of its length.
 */
const IN_URL = /([a-z][a-z0-9+.-]{0,15}:\/\/)(?!\*\*\*@)[^\s/@"\\]+@/gi;
/** Whatever stands before the last `@` of an endpoint, with or without a scheme. */
const IN_ENDPOINT = /^(\s*(?:[a-z][a-z0-9+.-]*:\/\/)?).*@/is;

/** A text whose URLs have lost their `user:password@` part: for everything that is logged or printed. */
export function withoutCredentials(text: string): string {
  return text.includes('@') ? text.replace(IN_URL, '$1') : text;
}

/** An endpoint as it may be shown: what stands before an `@` is hidden, however it is written. */
export function maskedEndpoint(text: string): string {
  return text.replace(IN_ENDPOINT, '$1***@');
}
