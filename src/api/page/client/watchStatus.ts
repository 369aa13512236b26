import { messageOf, readJson, refusalIn } from './daemon.js';
import type { Status } from './daemon.js';

/** Pause between two requests for the status. */
const POLL_MS = 2_000;
/** Pause between two tries while the daemon does not answer: doubling. */
const RETRY = { minMs: 1_000, maxMs: 5_000 };
/** This many refusals in a row are not shown: the next request may succeed. */
const QUIET_REFUSALS = 2;
const UNAUTHORIZED = 401;
/** Key in the tab's storage: the version for which the page was reloaded. */
const RELOADED_FOR = 'flow-collection-indexer.loaded-for';

/** What is wrong with the connection to the daemon. */
export interface Trouble {
  readonly since: Date;
  /** It answers, but refuses. */
  readonly isRefusal: boolean;
  /** It wants a bearer token, or another one. */
  readonly wantsToken: boolean;
  /** One sentence. */
  readonly message: string;
}

/** Everything that the page shows. */
export interface View {
  /** The latest status; `undefined` until the first one. */
  readonly status: Status | undefined;
  /** `undefined` while the daemon answers. */
  readonly trouble: Trouble | undefined;
}

/**
 * Gets the daemon's status every two seconds, until the page is left; pauses while it is hidden. Returns a function to call when
 * the token has changed.
 */
export function watchStatus(onChange: (view: View) => void): () => void {
  let view: View = { status: undefined, trouble: undefined };
  let timer: number | undefined;
  let isAsking = false;
  let failures = 0;
  const show = (change: Partial<View>): void => {
    view = { ...view, ...change };
    onChange(view);
  };
  /** Returns how long to wait. */
  const failed = (error: unknown): number => {
    const refusal = refusalIn(error);
    const isRefusal = refusal !== undefined;
    const wantsToken = refusal?.code === UNAUTHORIZED;
    const pauseMs = Math.min(RETRY.maxMs, RETRY.minMs * 2 ** failures);
    failures += 1;
    const { trouble } = view;
    const isQuiet = isRefusal && !wantsToken && failures <= QUIET_REFUSALS && trouble === undefined;
    const since = trouble?.since ?? new Date();
    if (!isQuiet) show({ trouble: { since, isRefusal, wantsToken, message: messageOf(error) } });
    return Math.max(pauseMs, refusal?.retryAfterMs ?? 0);
  };
  const ask = async (): Promise<void> => {
    isAsking = true;
    let pauseMs = POLL_MS;
    try {
      const status = await readJson<Status>('status');
      failures = 0;
      reloadFor(status.version);
      show({ status, trouble: undefined });
    } catch (error) {
      pauseMs = failed(error);
    }
    isAsking = false;
    askIn(pauseMs);
  };
  const askIn = (ms: number): void => {
    window.clearTimeout(timer);
    if (!isAsking && !document.hidden) timer = window.setTimeout(() => void ask(), ms);
  };
  show({});
  document.addEventListener('visibilitychange', () => askIn(0));
  askIn(0);
  return () => {
    failures = 0;
    askIn(0);
  };
}

/** Reloads the page for a daemon of another version, which has other scripts. Once per version: a proxy may cache the old ones. */
function reloadFor(version: string): void {
  if (document.body.dataset['version'] === version) return;
  if (sessionStorage.getItem(RELOADED_FOR) === version) return;
  sessionStorage.setItem(RELOADED_FOR, version);
  location.reload();
}
