import { messageOf, readJson, refusalIn } from './daemon.js';
import type { Status, View } from './types.js';

/** Pause between two requests for the status. */
const POLL_MS = 2_000;
/** Pause between two tries while the daemon does not answer: doubling. */
const RETRY = { minMs: 1_000, maxMs: 5_000 };
/** This many refusals in a row are not shown: the next request may succeed. */
const QUIET_REFUSALS = 2;
const UNAUTHORIZED = 401;
/** Key in the tab's storage: the version for which the page was reloaded. */
const RELOADED_FOR = 'flow-collection-indexer.loaded-for';

/** Gets the daemon's status every two seconds. */
export class Connection {
  readonly #onChange: (view: View) => void;
  #view: View = { status: undefined, trouble: undefined };
  #timer: number | undefined;
  #isAsking = false;
  #failures = 0;

  constructor(dependencies: { readonly onChange: (view: View) => void }) {
    this.#onChange = dependencies.onChange;
  }

  /** Runs until the page is left; pauses while the page is hidden. */
  start(): void {
    this.#show({});
    document.addEventListener('visibilitychange', () => this.#askIn(0));
    this.#askIn(0);
  }

  /** Call it when the token has changed. */
  askAgain(): void {
    this.#failures = 0;
    this.#askIn(0);
  }

  #askIn(ms: number): void {
    window.clearTimeout(this.#timer);
    if (!this.#isAsking && !document.hidden) this.#timer = window.setTimeout(() => void this.#ask(), ms);
  }

  async #ask(): Promise<void> {
    this.#isAsking = true;
    let pauseMs = POLL_MS;
    try {
      const status = await readJson<Status>('status');
      this.#failures = 0;
      reloadFor(status.version);
      this.#show({ status, trouble: undefined });
    } catch (error) {
      pauseMs = this.#failed(error);
    }
    this.#isAsking = false;
    this.#askIn(pauseMs);
  }

  /** Returns how long to wait. */
  #failed(error: unknown): number {
    const refusal = refusalIn(error);
    const isRefusal = refusal !== undefined;
    const wantsToken = refusal?.code === UNAUTHORIZED;
    const pauseMs = Math.max(
      Math.min(RETRY.maxMs, RETRY.minMs * 2 ** this.#failures),
      refusal?.retryAfterMs ?? 0,
    );
    this.#failures += 1;
    const { trouble } = this.#view;
    const isQuiet = isRefusal && !wantsToken && this.#failures <= QUIET_REFUSALS && trouble === undefined;
    const since = trouble?.since ?? new Date();
    if (!isQuiet) this.#show({ trouble: { since, isRefusal, wantsToken, message: messageOf(error) } });
    return pauseMs;
  }

  #show(change: Partial<View>): void {
    this.#view = { ...this.#view, ...change };
    this.#onChange(this.#view);
  }
}

/** Reloads the page for a daemon of another version, which has other scripts. Once per version: a proxy may cache the old ones. */
function reloadFor(version: string): void {
  if (document.body.dataset['version'] === version) return;
  if (sessionStorage.getItem(RELOADED_FOR) === version) return;
  sessionStorage.setItem(RELOADED_FOR, version);
  location.reload();
}
