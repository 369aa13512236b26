import type { Admission, ForwardingAdmission } from '../../access/index.js';
import type { NamedHeight, StatusDocument, WorkMoment } from '../../api/index.js';
import type { Identifier } from '../../flow/index.js';
import type { Logger } from '../../observability/index.js';
import { AbortError, EndGate, isAbort, sleep } from '../../runtime/index.js';
import type { Clock, Timer } from '../../runtime/index.js';
import type { FoundDamage } from '../../storage/index.js';
import type {
  Answer,
  FromReader,
  IndexMoment,
  OpenConnections,
  Question,
  ReaderOptions,
  Surroundings,
  ToReader,
} from './messages.js';
import type { ReaderHandle, StartReader } from './startWorker.js';

/** After this time without an acknowledgement, readers count as not served. */
export const DOWN_AFTER_MS = 3_000;
/** Time for a graceful stop; its servers take CLOSE_GRACE_MS (2 s) at most. */
const STOP_GRACE_MS = 4_000;
/** How long to wait for a moment at which the thread may be terminated. */
const GATE_LIMIT_MS = 1_000;
const GATE_LOOK_MS = 10;

/** What the thread is sent and may ask. Everything is synchronous, except the admission of forwarded calls. */
export interface ReaderSources {
  readonly moment: () => IndexMoment;
  readonly surroundings: () => Surroundings;
  readonly status: () => StatusDocument;
  readonly momentAt: (height: number) => WorkMoment;
  readonly naming: (id: Identifier) => NamedHeight | undefined;
  /** A read has met damage. Does not throw. */
  readonly damaged: (damage: FoundDamage) => void;
  readonly admission: ForwardingAdmission;
}

/** Messages of a thread that `ReaderInstance` does not handle itself. */
export type ReaderEvent = Exclude<FromReader, { readonly kind: 'ack' | 'ask' | 'admit' | 'over' | 'damage' }>;

/**
 * One reader thread, from start to end: sends it the state of the index, answers its questions, and ends it. Each state waits
 * for the acknowledgement of the one before, which also serves as heartbeat.
 */
export class ReaderInstance {
  readonly #clock: Clock;
  readonly #handle: ReaderHandle;
  readonly #gate = EndGate.forThread();
  readonly #admissions: CallAdmissions;
  readonly #logger: Logger;
  readonly #onEvent: (event: ReaderEvent) => void;
  #sources: ReaderSources | undefined;
  /** A state was sent and is not acknowledged yet. */
  #awaitsAck = false;
  /** Something has changed since that state. */
  #hasChanged = false;
  /** Surroundings were sent since the last check. */
  #hasSurroundings = false;
  #silentMs = 0;
  #listensSinceMs: number | undefined;
  #connections: OpenConnections | undefined;
  #refusal: string | undefined;
  #isGivenUp = false;
  #stopping: Timer | undefined;
  readonly #ended: Promise<void>;

  constructor(
    options: ReaderOptions,
    dependencies: {
      readonly start: StartReader;
      readonly clock: Clock;
      readonly logger: Logger;
      readonly onEvent: (event: ReaderEvent) => void;
      /** Called once, at the end; with the uncaught error, if there was one. */
      readonly onEnd: (error: unknown) => void;
    },
  ) {
    const { clock, logger, onEnd, onEvent, start } = dependencies;
    this.#clock = clock;
    this.#logger = logger;
    this.#onEvent = onEvent;
    const handle = start({ ...options, gate: this.#gate.memory });
    this.#handle = handle;
    this.#admissions = new CallAdmissions((message) => handle.post(message));
    handle.onMessage((message) => this.#receive(message));
    this.#ended = new Promise((resolve) => {
      handle.onEnd((error) => {
        this.#stopping?.cancel();
        this.#admissions.endAll();
        onEnd(error);
        resolve();
      });
    });
  }

  /** How long an acknowledgement is overdue, as counted by `look`; 0 when none is. */
  get silentMs(): number {
    return this.#silentMs;
  }

  /** Monotonic; `undefined` until its servers listen. */
  get listensSinceMs(): number | undefined {
    return this.#listensSinceMs;
  }

  /** As of the last acknowledgement; `undefined` while its servers do not listen. */
  get connections(): OpenConnections | undefined {
    return this.#connections;
  }

  /** Why it cannot serve, for the operator. */
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

  /** Call it when the index has changed. */
  notify(): void {
    if (this.#awaitsAck) this.#hasChanged = true;
    else this.#send();
  }

  notifyOfSurroundings(): void {
    this.#hasSurroundings = false;
    this.notify();
  }

  /** The regular check: sends the state and its surroundings, or counts the silence. */
  look(passedMs: number): void {
    this.#hasSurroundings = false;
    if (this.#awaitsAck) this.#silentMs += passedMs;
    else this.#send();
  }

  post(message: ToReader): void {
    this.#handle.post(message);
  }

  /** Terminates a thread that hangs. */
  giveUp(): void {
    this.#isGivenUp = true;
    this.#terminate();
  }

  /** Asks it to close its servers and end, terminates it if it does not, and resolves when it has ended. */
  stop(): Promise<void> {
    if (this.#silentMs >= DOWN_AFTER_MS && !this.#gate.isLoading) this.#terminate();
    else {
      this.#handle.post({ kind: 'stop' });
      this.#stopping = this.#clock.setTimer(STOP_GRACE_MS, () => {
        this.#logger.warn({ limitMs: STOP_GRACE_MS }, 'the reader thread did not close in time');
        this.#terminate();
      });
    }
    return this.#ended;
  }

  /** Waits for a safe moment: while the thread loads, and for a while if it is in a critical step. */
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

  #send(): void {
    if (this.#sources === undefined) return;
    const { moment, surroundings } = this.#sources;
    this.#awaitsAck = true;
    this.#hasChanged = false;
    const besides = this.#hasSurroundings ? {} : { surroundings: surroundings() };
    this.#hasSurroundings = true;
    this.#handle.post({ kind: 'state', moment: moment(), ...besides });
  }

  #receive(message: FromReader): void {
    switch (message.kind) {
      case 'ack':
        this.#connections = message.connections;
        this.#awaitsAck = false;
        this.#silentMs = 0;
        if (this.#hasChanged) this.#send();
        break;
      case 'ask':
        // So that reads are at least as new as the status.
        if (message.question.about === 'status') {
          this.#hasSurroundings = false;
          this.#send();
        }
        this.#handle.post({ kind: 'answer', id: message.id, answer: this.#answer(message.question) });
        break;
      case 'admit':
        void this.#admissions.admit(message, this.#sources?.admission);
        break;
      case 'over':
        this.#admissions.over(message);
        break;
      case 'damage':
        this.#sources?.damaged(message.damage);
        break;
      case 'listening':
        this.#listensSinceMs = this.#clock.monotonic();
        this.#onEvent(message);
        break;
      case 'refused':
        this.#refusal = message.message;
        this.#onEvent(message);
        break;
      default:
        this.#onEvent(message);
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

type AdmitMessage = Extract<FromReader, { readonly kind: 'admit' }>;
type OverMessage = Extract<FromReader, { readonly kind: 'over' }>;

/** The forwarded calls of one reader thread: those that wait to be admitted, and those under way. */
class CallAdmissions {
  readonly #post: (message: ToReader) => void;
  /** How each call ends. Bounded by the limits on forwarded calls. */
  readonly #calls = new Map<number, (end: OverMessage['end']) => void>();

  constructor(post: (message: ToReader) => void) {
    this.#post = post;
  }

  /** Asks whether a call may be sent, and tells the thread. Without `by`, no call may be sent. */
  async admit({ id, node, call }: AdmitMessage, by: ForwardingAdmission | undefined): Promise<void> {
    const withdraw = new AbortController();
    this.#calls.set(id, () => withdraw.abort(new AbortError()));
    let outcome: Awaited<ReturnType<ForwardingAdmission['admit']>>;
    try {
      outcome = (await by?.admit(node, call, withdraw.signal)) ?? 'gone';
    } catch (error) {
      if (!isAbort(error)) throw error;
      return;
    }
    if (typeof outcome === 'string') {
      this.#calls.delete(id);
      this.#post({ kind: 'admission', id, outcome: outcome === 'silent' ? 'gone' : outcome });
    } else this.#admitted(id, outcome);
  }

  #admitted(id: number, admission: Admission): void {
    // Cancelled while it was being admitted.
    if (!this.#calls.has(id)) {
      admission.over('other');
      return;
    }
    this.#calls.set(id, (end) => admission.over(end));
    admission.onMakeWay(() => this.#post({ kind: 'makeWay', id }));
    this.#post({ kind: 'admission', id, outcome: 'admitted' });
  }

  /** The call is over, or no longer wants to be admitted. */
  over({ id, end }: Pick<OverMessage, 'id' | 'end'>): void {
    const finish = this.#calls.get(id);
    this.#calls.delete(id);
    finish?.(end);
  }

  /** The thread has ended, and all of its calls with it. */
  endAll(): void {
    for (const id of [...this.#calls.keys()]) this.over({ id, end: 'other' });
  }
}
