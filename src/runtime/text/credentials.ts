/**
 * `user:password@` in a URL, anywhere in a text, except what `maskedEndpoint` wrote. The scheme's length is limited
 * because a long word would take quadratic time.
 */
const IN_URL = /([a-z][a-z0-9+.-]{0,15}:\/\/)(?!\*\*\*@)[^\s/@"\\]+@/gi;
/** `user:password@` without a scheme, or after a mistyped one. */
const BARE = /[^\s/@:"'\\]{1,64}:[^\s/@"'\\]{1,255}@/g;
/** A URL with something longer than any port after the first colon: most likely a password before a mistyped `@`. */
const LONG_PORT = /([a-z][a-z0-9+.-]{0,15}:\/\/[^\s/@"\\:,[\]]{1,255}:)[^\s/@"\\,;)[\]]{9,}/gi;
/** Everything before the last `@` of an endpoint, with or without a scheme. */
const IN_ENDPOINT = /^(\s*(?:[a-z][a-z0-9+.-]*:\/\/)?).*@/is;
/** Scheme and host of a URL, and what follows them: providers put tokens into path and query. */
const BEHIND_HOST = /([a-z][a-z0-9+.-]{0,15}):\/\/([^\s/?#"'\\]{0,255})([/?#][^\s"'\\]*)/gi;
/** The same without a scheme: the port distinguishes it from a file path. */
const BEHIND_PORT = /(?<![^\s"'=,])([a-z0-9][a-z0-9_.-]{0,253}:\d{1,5})([/?#][^\s"'\\]*)/gi;
/** Punctuation of the sentence that may follow a URL. */
const PUNCTUATION = '.,;:!)]}';
/** The path of such a URL names a database, and its query may hold a password. */
const DATABASE = /^postgres(?:ql)?$/i;
/** URLs of our own ports and files: messages and stacks keep their paths. */
const OURS = /^(?:file:\/\/|https?:\/\/(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::\d{1,5})?)$/i;
const HIDDEN = '***';

/**
 * Removes everything that looks like `user:password@` from a text, and the paths of URLs that are not our own: for
 * everything that is logged or printed.
 */
export function withoutCredentials(text: string): string {
  const known = text.includes('@') ? text.replace(IN_URL, '$1').replace(BARE, '') : text;
  return known.includes('://') ? withoutPaths(known.replace(LONG_PORT, `$1${HIDDEN}`), OURS) : known;
}

/** A text of the operator, without the path and the query of any URL in it. */
export function withoutUrlPaths(text: string): string {
  const known = text.includes('://') ? withoutPaths(text) : text;
  return known.includes(':')
    ? known.replace(BEHIND_PORT, (_all, place: string, behind: string) => place + hidden(behind))
    : known;
}

/** An endpoint or a URL that is safe to show: everything before an `@` is hidden, and the path with the query. */
export function maskedEndpoint(text: string): string {
  const [, scheme = '', place = ''] =
    /^(\s*(?:[a-z][a-z0-9+.-]*:\/\/)?)(.*)$/is.exec(text.replace(IN_ENDPOINT, `$1${HIDDEN}@`)) ?? [];
  const end = place.search(/[/?#\s]/);
  const host = (end === -1 ? place : place.slice(0, end)).replace(/:[^:\]]{9,}$/, `:${HIDDEN}`);
  const behind = end === -1 ? '' : place.slice(end);
  return scheme + host + (DATABASE.test(scheme.trim().slice(0, -3)) ? withoutQuery(behind) : hidden(behind));
}

function withoutPaths(text: string, kept?: RegExp): string {
  return text.replace(BEHIND_HOST, (all, scheme: string, host: string, behind: string) => {
    const place = `${scheme}://${host}`;
    if (kept?.test(place) === true) return all;
    return place + (DATABASE.test(scheme) ? withoutQuery(behind) : hidden(behind));
  });
}

function hidden(behind: string): string {
  let end = behind.length;
  while (PUNCTUATION.includes(behind.charAt(end - 1)) && end > 0) end -= 1;
  const path = behind.slice(0, end).trimEnd();
  const shown = path === '' || path === '/' ? path : path.slice(0, 1) + HIDDEN;
  return shown + behind.slice(end);
}

function withoutQuery(behind: string): string {
  return behind.replace(/[?#].*$/s, `?${HIDDEN}`);
}
