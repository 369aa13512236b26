import type { ForwardingDesk } from '../../access/index.js';
import type { NamedHeight, StatusDocument, WorkMoment } from '../../api/index.js';
import type { Identifier } from '../../flow/index.js';
import type { Logger } from '../../observability/index.js';
import { EndGate, sleep } from '../../runtime/index.js';
import type { Clock, Timer } from '../../runtime/index.js';
import { CallAdmissions } from './CallAdmissions.js';
import type {
  Answer,
  FromReader,
  IndexMoment,
  Question,
  ReaderOptions,
  Surroundings,
  ToReader,
} from './messages.js';
import type { ReaderHandle, StartReader } from './startWorker.js';

/** Without an acknowledgement for this long, readers count as not served. */
export const DOWN_AFTER_MS = 3_000;
/** Time for a graceful stop; its servers take CLOSE_GRACE_MS (2 s) at most. */
const STOP_GRACE_MS = 4_000;
/** How long to wait for a moment at which the thread may be terminated. */
const GATE_LIMIT_MS = 1_000;
const GATE_LOOK_MS = 10;

/** What the thread is sent and may ask. Everything is synchronous, except the admission of forwarded calls. */
export interface ReaderSources {
  moment(): IndexMoment;
  surroundings(): Surroundings;
  status(): StatusDocument;
  momentAt(height: number): WorkMoment;
  naming(id: Identifier): NamedHeight | undefined;
  readonly desk: ForwardingDesk;
}

/** What a thread says that `ReaderLife` does not see to itself. */
export type ReaderNews = Exclude<FromReader, { readonly kind: 'ack' | 'ask' | 'admit' | 'over' }>;

export interface ReaderLifeDependencies {
  readonly start: StartReader;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly onNews: (news: ReaderNews) => void;
  /** Called once, last; with the uncaught error, if there was one. */
  readonly onEnd: (error: unknown) => void;
}

/**
 * One reader thread, from start to end: sends it what may be read, answers its questions, and ends it. It is sent one
 * state at a time, the newest, and acknowledges each: that is its heartbeat as well.
 */
export class ReaderLife {
  readonly #clock: Clock;
  readonly #handle: ReaderHandle;
  readonly #gate = EndGate.forThread();
  readonly #admissions: CallAdmissions;
  readonly #logger: Logger;
  readonly #onNews: (news: ReaderNews) => void;
  #sources: ReaderSources | undefined;
  /** A state was sent that is not acknowledged yet. */
  #isOwed = false;
  /** Something changed after the state that is not acknowledged yet. */
  #hasNews = false;
  /** Surroundings were sent since the last check. */
  #knowsSurroundings = false;
  #silentMs = 0;
  #listensSinceMs: number | undefined;
  #refusal: string | undefined;
  #isGivenUp = false;
  #stopping: Timer | undefined;

  constructor(options: Omit<ReaderOptions, 'gate'>, dependencies: ReaderLifeDependencies) {
    const { clock, logger, onEnd, onNews, start } = dependencies;
    this.#clock = clock;
    this.#logger = logger;
    this.#onNews = onNews;
    const handle = start({ ...options, gate: this.#gate.memory });
    this.#handle = handle;
    this.#admissions = new CallAdmissions({ clock, post: (message) => handle.post(message) });
    handle.onMessage((message) => this.#receive(message));
    handle.onEnd((error) => {
      this.#stopping?.cancel();
      this.#admissions.endAll();
      onEnd(error);
    });
  }

  /** Time without an acknowledgement of what was sent, as counted by `look`. 0 when none is owed. */
  get silentMs(): number {
    return this.#silentMs;
  }

  /** Monotonic; `undefined` until its servers listen. */
  get listensSinceMs(): number | undefined {
    return this.#listensSinceMs;
  }

  /** Why it could not serve, in words for the operator. */
  get refusal(): string | undefined {
    return this.#refusal;
  }

  get isGivenUp(): boolean {
    return this.#isGivenUp;
  }

  get isServing(): boolean {
    return this.#listensSinceMs !== undefined && !this.#isGivenUp;
  }

  /** Sends the first state, which starts its servers. */
  serve(sources: ReaderSources): void {
    this.#sources = sources;
    this.#send();
  }

  /** What may be read has changed. */
  notify(): void {
    if (this.#isOwed) this.#hasNews = true;
    else this.#send();
  }

  notifyOfSurroundings(): void {
    this.#knowsSurroundings = false;
    this.notify();
  }

  /** The regular check: sends the state and its surroundings, or counts the silence. */
  look(passedMs: number): void {
    this.#knowsSurroundings = false;
    if (this.#isOwed) this.#silentMs += passedMs;
    else this.#send();
  }

  post(message: ToReader): void {
    this.#handle.post(message);
  }

  /** It hangs: ends it. */
  giveUp(): void {
    this.#isGivenUp = true;
    this.#terminate();
  }

  /** Has it close its servers and end; terminates it if it does not answer. */
  stop(): void {
    if (this.#silentMs >= DOWN_AFTER_MS && !this.#gate.isLoading) {
      this.#terminate();
      return;
    }
    this.#handle.post({ kind: 'stop' });
    this.#stopping = this.#clock.setTimer(STOP_GRACE_MS, () => {
      this.#logger.warn({ limitMs: STOP_GRACE_MS }, 'the reader thread did not close in time');
      this.#terminate();
    });
  }

  /** Not at a harmful moment: waits while it loads, and for a while if it is in a critical step. */
  #terminate(): void {
    const endByMs = this.#clock.monotonic() + GATE_LIMIT_MS;
    const attempt = async (): Promise<void> => {
      while (!this.#gate.close()) {
        if (!this.#gate.isLoading && this.#clock.monotonic() >= endByMs) break;
        await sleep(this.#clock, GATE_LOOK_MS);
      }
      this.#handle.terminate();
    };
    void attempt();
  }

  #send({ withSurroundings = !this.#knowsSurroundings } = {}): void {
    const sources = this.#sources;
    if (sources === undefined) return;
    this.#isOwed = true;
    this.#hasNews = false;
    const surroundings = withSurroundings ? sources.surroundings() : undefined;
    this.#knowsSurroundings = true;
    this.#handle.post({
      kind: 'state',
      moment: sources.moment(),
      ...(surroundings === undefined ? {} : { surroundings }),
    });
  }

  #receive(message: FromReader): void {
    switch (message.kind) {
      case 'ack':
        this.#isOwed = false;
        this.#silentMs = 0;
        if (this.#hasNews) this.#send();
        break;
      case 'ask':
        // Readers see at least what the status says.
        if (message.question.about === 'status') this.#send({ withSurroundings: true });
        this.#handle.post({ kind: 'answer', id: message.id, answer: this.#answer(message.question) });
        break;
      case 'admit':
        void this.#admissions.admit(message, this.#sources?.desk);
        break;
      case 'over':
        this.#admissions.over(message);
        break;
      case 'listening':
        this.#listensSinceMs = this.#clock.monotonic();
        this.#onNews(message);
        break;
      case 'refused':
        this.#refusal = message.message;
        this.#onNews(message);
        break;
      default:
        this.#onNews(message);
    }
  }

  #answer(question: Question): Answer {
    const sources = this.#sources;
    if (sources === undefined) throw new Error('the reader thread asked before it was sent any state');
    switch (question.about) {
      case 'status':
        return sources.status();
      case 'height':
        return sources.momentAt(question.height);
      case 'id':
        return sources.naming(question.id);
    }
  }
}
