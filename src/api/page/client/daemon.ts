import type { ExplainDocument as Explanation } from '../../documents/explanation.js';
import type { ApiErrorBody } from '../../view/ApiError.js';
import type { EndpointStatus as Endpoint, StatusDocument as Status } from '../../view/statusDocument.js';

export type { Endpoint, Explanation, Status };

/** Readiness codes: what each means, and what to do. */
export type Codes = Readonly<
  Record<string, { readonly severity: 'ordinary' | 'trouble'; readonly fix: string } | undefined>
>;

/** How long to wait for an answer. */
const ANSWER_LIMIT_MS = 5_000;

/** The address of something of the daemon: this script is one folder below its root, wherever a proxy puts that. */
export function fromRoot(path: string): string {
  return new URL(`../${path}`, import.meta.url).href;
}

/** Key in the tab's storage, which is lost with the tab. Another daemon behind the same proxy has another one. */
const TOKEN = `flow-collection-indexer.token ${fromRoot('')}`;

export function keepToken(token: string): void {
  sessionStorage.setItem(TOKEN, token);
}

/** The daemon refused the request. */
class RefusedError extends Error {
  override readonly name = 'RefusedError';
  readonly code: number;
  readonly retryAfterMs: number;

  constructor(message: string, code: number, retryAfterMs: number) {
    super(message);
    this.code = code;
    this.retryAfterMs = retryAfterMs;
  }
}

/** One GET of the daemon, at a path from its root. Expected errors: RefusedError; those of `fetch`. */
export async function readJson<T>(path: string): Promise<T> {
  const token = sessionStorage.getItem(TOKEN);
  const answer = await fetch(fromRoot(path), {
    cache: 'no-store',
    headers: token === null ? {} : { authorization: `Bearer ${token}` },
    signal: AbortSignal.timeout(ANSWER_LIMIT_MS),
  });
  const body = (await answer.json()) as T | ApiErrorBody;
  if (answer.ok) return body as T;
  const retryAfterMs = 1_000 * Number(answer.headers.get('retry-after') ?? 0);
  throw new RefusedError((body as ApiErrorBody).message, answer.status, retryAfterMs);
}

/** How the daemon refused; `undefined` if something else went wrong. */
export function refusalIn(error: unknown): RefusedError | undefined {
  return error instanceof RefusedError ? error : undefined;
}

/** Why the daemon could not be asked, in one sentence. */
export function messageOf(error: unknown): string {
  if (error instanceof RefusedError) return `It answers, but refuses: ${error.message}.`;
  if (error instanceof DOMException && error.name === 'TimeoutError')
    return `It gave no answer within ${ANSWER_LIMIT_MS / 1_000} s: it hangs, or the request was lost on the way.`;
  if (error instanceof SyntaxError) return 'Something else answers at its address.';
  return 'Nothing listens at its address, or the network is down.';
}

/** What was found: why it is in the index or not, and its document, or a sentence that says why there is none. */
export interface Found {
  readonly key: string;
  readonly explanation: Explanation;
  readonly document: { readonly path: string; readonly body: unknown } | { readonly why: string };
}

/** Explains a height or an id, and fetches its document. Expected errors: those of `readJson`. */
export async function find(key: string): Promise<Found> {
  const explanation = await readJson<Explanation>(`explain/${encodeURIComponent(key)}`);
  return { key, explanation, document: await documentOf(key, explanation) };
}

async function documentOf(key: string, { kind, stage }: Explanation): Promise<Found['document']> {
  if (kind === 'unknown' || stage !== 'indexed')
    return { why: 'There is no document while it is not indexed.' };
  const path = `lookup/${kind === 'height' ? 'block' : kind}/${encodeURIComponent(key)}`;
  try {
    return { path, body: await readJson<unknown>(path) };
  } catch (error) {
    return { why: messageOf(error) };
  }
}
