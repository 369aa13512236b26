import type { NewestBlock, Refusal, Status, View } from '../types.js';
import { fromRoot } from './root.js';
import { ownHeaders } from './token.js';

/** Pause between two requests for the status. */
const POLL_MS = 2_000;
/** A new block makes the page ask again, at most this often. */
const SOON_MS = 1_000;
/** How long to wait for an answer. */
const ANSWER_LIMIT_MS = 5_000;
/** Pause between two tries while the daemon does not answer: doubling. */
const RETRY = { minMs: 1_000, maxMs: 5_000 };
/** This many refusals in a row are not shown: the next request may succeed. */
const QUIET_REFUSALS = 2;
/** Follow events only up to this lag and rate: beyond, there are more events than a page needs. */
const FOLLOW = { maxLag: 50, maxPerSecond: 20 };
const UNAUTHORIZED = 401;
/** Pause after a stream of events broke. */
const REOPEN_MS = 5_000;
/** Key in the tab's storage: the version for which the page was reloaded. */
const RELOADED_FOR = 'flow-collection-indexer.loaded-for';

/** Gets the daemon's status every two seconds, and each new block while it follows the chain. */
export class Connection {
  readonly #onChange: (view: View) => void;
  #view: View = { status: undefined, receivedAtMs: 0, trouble: undefined, newest: undefined };
  #timer: number | undefined;
  #isAsking = false;
  #askedAtMs = -Infinity;
  #failures = 0;
  #events: { close(): void } | undefined;
  #mayFollowAtMs = 0;

  constructor(dependencies: { readonly onChange: (view: View) => void }) {
    this.#onChange = dependencies.onChange;
  }

  /** Runs until the page is left; pauses while the page is hidden. */
  start(): void {
    document.addEventListener('visibilitychange', () => {
      if (document.hidden) this.#pause();
      else this.#askIn(0);
    });
    this.#askIn(0);
  }

  /** Call it when the token has changed. */
  askAgain(): void {
    this.#failures = 0;
    this.#askIn(0);
  }

  #pause(): void {
    window.clearTimeout(this.#timer);
    this.#unfollow(0);
  }

  #askIn(ms: number): void {
    if (this.#isAsking || document.hidden) return;
    window.clearTimeout(this.#timer);
    this.#timer = window.setTimeout(() => void this.#ask(), ms);
  }

  async #ask(): Promise<void> {
    this.#isAsking = true;
    this.#askedAtMs = performance.now();
    let pauseMs = POLL_MS;
    try {
      this.#arrived(await readJson<Status>('status'));
    } catch (error) {
      pauseMs = this.#failed(error);
    }
    this.#isAsking = false;
    this.#askIn(pauseMs);
  }

  #arrived(status: Status): void {
    this.#failures = 0;
    reloadFor(status.version);
    this.#show({ status, receivedAtMs: performance.now(), trouble: undefined });
    const { lag, rate } = status;
    const isNear = lag !== null && lag <= FOLLOW.maxLag && rate <= FOLLOW.maxPerSecond;
    if (isNear) this.#follow();
    else this.#unfollow(0);
  }

  /** Returns how long to wait. */
  #failed(error: unknown): number {
    this.#unfollow(0);
    const isRefusal = error instanceof RefusedError;
    const pauseMs = Math.max(
      Math.min(RETRY.maxMs, RETRY.minMs * 2 ** this.#failures),
      isRefusal ? error.retryAfterMs : 0,
    );
    this.#failures += 1;
    const wantsToken = isRefusal && error.code === UNAUTHORIZED;
    if (isRefusal && !wantsToken && this.#failures <= QUIET_REFUSALS && this.#view.trouble === undefined)
      return pauseMs;
    const since = this.#view.trouble?.since ?? new Date();
    const message = messageOf(error);
    this.#show({
      trouble: { since, isRefusal, wantsToken, message, nextTryAtMs: performance.now() + pauseMs },
    });
    return pauseMs;
  }

  #follow(): void {
    if (this.#events !== undefined || performance.now() < this.#mayFollowAtMs) return;
    const end = (): void => {
      if (this.#events === events) this.#unfollow(REOPEN_MS);
    };
    const events = openEvents((name, data) => {
      if (name === 'end' || name === 'rewind') end();
      if (name !== 'height' || this.#events !== events) return;
      this.#show({ newest: newestOf(data) });
      this.#askIn(Math.max(0, this.#askedAtMs + SOON_MS - performance.now()));
    }, end);
    this.#events = events;
  }

  #unfollow(pauseMs: number): void {
    if (this.#events === undefined) return;
    this.#events.close();
    this.#events = undefined;
    this.#mayFollowAtMs = performance.now() + pauseMs;
  }

  #show(change: Partial<View>): void {
    this.#view = { ...this.#view, ...change };
    this.#onChange(this.#view);
  }
}

/** The daemon refused the request. */
export class RefusedError extends Error {
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
  const signal = AbortSignal.timeout(ANSWER_LIMIT_MS);
  const answer = await fetch(fromRoot(path), { cache: 'no-store', headers: ownHeaders(), signal });
  const body = (await answer.json()) as T | Refusal;
  if (answer.ok) return body as T;
  const retryAfterMs = 1_000 * Number(answer.headers.get('retry-after') ?? 0);
  throw new RefusedError((body as Refusal).message, answer.status, retryAfterMs);
}

/** Why the daemon could not be asked, in one sentence. */
export function messageOf(error: unknown): string {
  if (error instanceof RefusedError) return `It answers, but refuses: ${error.message}.`;
  if (error instanceof DOMException && error.name === 'TimeoutError')
    return `It gave no answer within ${ANSWER_LIMIT_MS / 1_000} s: it hangs, or the request was lost on the way.`;
  if (error instanceof SyntaxError) return 'Something else answers at its address.';
  return 'Nothing listens at its address, or the network is down.';
}

function newestOf(data: string): NewestBlock {
  const { height, collections } = JSON.parse(data) as {
    readonly height: number;
    readonly collections: readonly { readonly transaction_count: number }[];
  };
  const transactions = collections.reduce((sum, each) => sum + each.transaction_count, 0);
  return { height, collections: collections.length, transactions };
}

/** Reloads the page for a daemon of another version, which has other scripts. Once per version: a proxy may cache the old ones. */
function reloadFor(version: string): void {
  if (document.body.dataset['version'] === version) return;
  if (sessionStorage.getItem(RELOADED_FOR) === version) return;
  sessionStorage.setItem(RELOADED_FOR, version);
  location.reload();
}

/** Calls back with the name and data of each event of `/events`, and once at the end. `close` ends it. */
function openEvents(onEvent: (name: string, data: string) => void, onEnd: () => void): { close(): void } {
  // The browser's own EventSource cannot send a token.
  const cut = new AbortController();
  const read = async (): Promise<void> => {
    const { body, ok } = await fetch(fromRoot('events'), { headers: ownHeaders(), signal: cut.signal });
    if (!ok || body === null) return;
    const reader = body.pipeThrough(new TextDecoderStream()).getReader();
    let text = '';
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const events = (text + value).split('\n\n');
      text = events.pop() ?? '';
      for (const event of events) onEvent(fieldOf(event, 'event'), fieldOf(event, 'data'));
    }
  };
  void read()
    .catch(() => undefined)
    .then(onEnd);
  return { close: () => cut.abort() };
}

/** Our events have each field on one line. */
function fieldOf(event: string, name: string): string {
  const line = event.split('\n').find((each) => each.startsWith(`${name}: `));
  return line?.slice(name.length + 2) ?? '';
}
