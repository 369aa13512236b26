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
/** Pause between two requests for the status. */
const POLL_MS = 2_000;
/** Pause between two tries while the daemon does not answer: doubling. */
const RETRY = { minMs: 1_000, maxMs: 5_000 };
/** This many refusals in a row are not shown: the next request may succeed. */
const QUIET_REFUSALS = 2;
const UNAUTHORIZED = 401;
/** Key in the tab's storage: the version for which the page was reloaded. */
const RELOADED_FOR = 'flow-collection-indexer.loaded-for';

/** The address of something of the daemon: this script is one folder below its root, wherever a proxy puts that. */
export function fromRoot(path: string): string {
  return new URL(`../${path}`, import.meta.url).href;
}

/** Key in the tab's storage, which is lost with the tab. Another daemon behind the same proxy has another one. */
export const TOKEN = `flow-collection-indexer.token ${fromRoot('')}`;

/** The daemon refused the request. */
class RefusedError extends Error {
  override readonly name = 'RefusedError';
  readonly answer: Response;

  constructor(message: string, answer: Response) {
    super(message);
    this.answer = answer;
  }
}

/** One GET of the daemon, at a path from its root. Expected errors: RefusedError; those of `fetch`. */
async function readJson<T>(path: string): Promise<T> {
  const token = sessionStorage.getItem(TOKEN);
  const answer = await fetch(fromRoot(path), {
    cache: 'no-store',
    headers: token === null ? {} : { authorization: `Bearer ${token}` },
    signal: AbortSignal.timeout(ANSWER_LIMIT_MS),
  });
  const body = (await answer.json()) as T | ApiErrorBody;
  if (answer.ok) return body as T;
  throw new RefusedError((body as ApiErrorBody).message, answer);
}

/** Why a request to the daemon failed, in one sentence. */
export function messageOf(error: unknown): string {
  if (error instanceof RefusedError) return `It answers, but refuses: ${error.message}.`;
  if (error instanceof DOMException && error.name === 'TimeoutError')
    return `It gave no answer within ${ANSWER_LIMIT_MS / 1_000} s: it hangs, or the request was lost on the way.`;
  if (error instanceof SyntaxError) return 'Something else answers at its address.';
  return 'Nothing listens at its address, or the network is down.';
}

/** Why a height, or what an id names, is in the index or not. Expected errors: those of `readJson`. */
export function explain(key: string): Promise<Explanation> {
  return readJson<Explanation>(`explain/${encodeURIComponent(key)}`);
}

/** Everything that the page shows. */
export interface View {
  /** The latest status; `undefined` until the first one. */
  readonly status?: Status;
  /** What is wrong with the connection to the daemon; `undefined` while it answers. */
  readonly trouble?: {
    readonly since: Date;
    /** `token`: it wants a bearer token, or another one. */
    readonly kind: 'silent' | 'refused' | 'token';
    /** One sentence. */
    readonly message: string;
  };
}

/**
 * Gets the daemon's status every two seconds, until the page is left; pauses while it is hidden. Returns a function to call when
 * the token has changed.
 */
export function watchStatus(onChange: (view: View) => void): () => void {
  let view: View = {};
  let timer: number | undefined;
  let isAsking = false;
  let failures = 0;
  const show = (next: View): void => {
    view = next;
    onChange(view);
  };
  const ask = async (): Promise<void> => {
    isAsking = true;
    let pauseMs = POLL_MS;
    try {
      const status = await readJson<Status>('status');
      failures = 0;
      reloadFor(status.version);
      show({ status });
    } catch (error) {
      const answer = error instanceof RefusedError ? error.answer : undefined;
      const refused = answer?.status === UNAUTHORIZED ? 'token' : 'refused';
      const kind = answer === undefined ? 'silent' : refused;
      // Proxies send dates, too.
      const retryAfterMs = 1_000 * (Number(answer?.headers.get('retry-after')) || 0);
      pauseMs = Math.max(retryAfterMs, Math.min(RETRY.maxMs, RETRY.minMs * 2 ** failures));
      failures += 1;
      const { trouble } = view;
      const isQuiet = kind === 'refused' && failures <= QUIET_REFUSALS && trouble === undefined;
      const since = trouble?.since ?? new Date();
      if (!isQuiet) show({ ...view, trouble: { since, kind, message: messageOf(error) } });
    }
    isAsking = false;
    askIn(pauseMs);
  };
  const askIn = (ms: number): void => {
    window.clearTimeout(timer);
    if (!isAsking && !document.hidden) timer = window.setTimeout(() => void ask(), ms);
  };
  show(view);
  document.addEventListener('visibilitychange', () => askIn(0));
  askIn(0);
  return () => {
    failures = 0;
    askIn(0);
  };
}

/** Reloads the page for a daemon of another version, which has other scripts. Once per version: a proxy may cache the old ones. */
function reloadFor(version: string): void {
  if (document.getElementById('page')?.dataset['version'] === version) return;
  if (sessionStorage.getItem(RELOADED_FOR) === version) return;
  sessionStorage.setItem(RELOADED_FOR, version);
  location.reload();
}
