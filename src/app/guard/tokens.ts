import { digestOf } from '../../api/index.js';
import { readSmallFile, unusable } from './readFile.js';

const SETTING = 'api.tokensFile';
/** Each request is compared with all of them. */
const MAX_TOKENS = 100;
const MIN_CHARACTERS = 16;
const MAX_CHARACTERS = 512;
/** What RFC 6750 lets stand behind `Bearer`. */
const BEARER = /^[A-Za-z0-9._~+/-]+=*$/;

/** One line of the file. */
export interface KnownToken {
  /** SHA-256, in hexadecimal digits. */
  readonly digest: string;
  /** As the file has it, else by its line. Never the token. */
  readonly name: string;
}

/** The tokens of a file. Expected errors: OperatorError `configuration`, which names lines, never tokens. */
export async function readTokens(file: string): Promise<readonly KnownToken[]> {
  return [...(await linesOf(file)).values()];
}

/** The first token itself, for a command that calls. Expected errors: those of `readTokens`. */
export async function readFirstToken(file: string): Promise<string> {
  const [first = ''] = (await linesOf(file)).keys();
  return first;
}

/** By token. */
async function linesOf(file: string): Promise<ReadonlyMap<string, KnownToken>> {
  const text = await readSmallFile(file, SETTING);
  const tokens = new Map<string, KnownToken>();
  for (const [index, line] of text.split(/\r?\n/).entries()) {
    const [token = '', ...words] = line.replace(/#.*/, '').trim().split(/\s+/);
    if (token === '') continue;
    const place = `line ${index + 1}`;
    const wrong = faultOf(token);
    if (wrong !== undefined) throw unusable(file, SETTING, `the token of ${place} ${wrong}`);
    if (tokens.has(token)) throw unusable(file, SETTING, `the token of ${place} stands there twice`);
    tokens.set(token, { digest: digestOf(token), name: words.length === 0 ? place : words.join(' ') });
  }
  if (tokens.size === 0)
    throw unusable(file, SETTING, 'it has no token, so nobody could call; "openssl rand -hex 32" makes one');
  if (tokens.size > MAX_TOKENS)
    throw unusable(file, SETTING, `it has ${tokens.size} tokens, and ${MAX_TOKENS} are the most`);
  return tokens;
}

function faultOf(token: string): string | undefined {
  if (token.length < MIN_CHARACTERS)
    return `has ${token.length} characters, and fewer than ${MIN_CHARACTERS} can be guessed; "openssl rand -hex 32" makes one`;
  if (token.length > MAX_CHARACTERS)
    return `has ${token.length} characters, and ${MAX_CHARACTERS} are the most`;
  return BEARER.test(token)
    ? undefined
    : 'has other characters than letters, digits and -._~+/ (and = at its end)';
}
