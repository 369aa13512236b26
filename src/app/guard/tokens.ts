import { digestOf } from '../../api/index.js';
import { messageOf, named, OperatorError, readNamedFile } from '../../runtime/index.js';

/** Certificate chains and token files are far smaller. */
const MAX_BYTES = 1024 * 1024;
/** What to do about a file that cannot be read, by the system's code. */
const ADVICE: Readonly<Record<string, string>> = {
  ENOENT: '; check the path',
  EACCES: '; let the user that runs the daemon read it',
  EISDIR: '; name the file in it',
};

/** The text of a small file. Expected errors: OperatorError `configuration`. */
export function readSmallFile(path: string, setting: string): string {
  try {
    // Some editors begin a file with a byte order mark.
    return readNamedFile(path, { maxBytes: MAX_BYTES })
      .toString()
      .replace(/^\uFEFF/, '');
  } catch (error) {
    const advice = ADVICE[error instanceof Error && 'code' in error ? String(error.code) : ''] ?? '';
    throw unusable(path, setting, messageOf(error) + advice, error);
  }
}

/** The error for a configured file that cannot be used. `why` also says what to do. */
export function unusable(path: string, setting: string, why: string, cause?: unknown): OperatorError {
  return new OperatorError('configuration', `Cannot use ${named(path)} (${setting}): ${why}.`, { cause });
}

const SETTING = 'api.tokensFile';
/** Each request is compared with all of them. */
const MAX_TOKENS = 100;
const MIN_CHARACTERS = 16;
const MAX_CHARACTERS = 512;
/** A token that RFC 6750 allows after `Bearer`. */
const BEARER = /^[A-Za-z0-9._~+/-]+=*$/;

/** One line of the file. */
export interface KnownToken {
  /** SHA-256, in hexadecimal digits. */
  readonly digest: string;
  /** The name in the file, else its line number. Never the token. */
  readonly name: string;
}

/** The tokens of a file. Expected errors: OperatorError `configuration`, which names lines, never tokens. */
export function readTokens(file: string): readonly KnownToken[] {
  return [...linesOf(file).values()];
}

/** The first token itself, for a command that calls a daemon. Expected errors: those of `readTokens`. */
export function readFirstToken(file: string): string {
  const [first = ''] = linesOf(file).keys();
  return first;
}

/** The lines of a file, by token. */
function linesOf(file: string): ReadonlyMap<string, KnownToken> {
  const text = readSmallFile(file, SETTING);
  const refuse = (why: string): never => {
    throw unusable(file, SETTING, why);
  };
  const tokens = new Map<string, KnownToken>();
  for (const [index, line] of text.split(/\r?\n/).entries()) {
    const [token = '', ...words] = line.replace(/#.*/, '').trim().split(/\s+/);
    if (token === '') continue;
    const place = `line ${index + 1}`;
    const wrong = tokens.has(token) ? 'is there twice' : faultOf(token);
    if (wrong !== undefined) refuse(`the token of ${place} ${wrong}`);
    tokens.set(token, { digest: digestOf(token), name: words.length === 0 ? place : words.join(' ') });
  }
  if (tokens.size === 0)
    refuse('it has no token, so no caller would be accepted; "openssl rand -hex 32" makes one');
  if (tokens.size > MAX_TOKENS) refuse(`it has ${tokens.size} tokens; at most ${MAX_TOKENS} are allowed`);
  return tokens;
}

function faultOf(token: string): string | undefined {
  if (token.length < MIN_CHARACTERS)
    return `has ${token.length} characters, and fewer than ${MIN_CHARACTERS} are easy to guess; "openssl rand -hex 32" makes one`;
  if (token.length > MAX_CHARACTERS)
    return `has ${token.length} characters; at most ${MAX_CHARACTERS} are allowed`;
  return BEARER.test(token) ? undefined : 'may contain only letters, digits and -._~+/ (and = at its end)';
}
