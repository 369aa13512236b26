import type { Admission, ForwardingAdmission } from '../../access/index.js';
import { AbortError, isAbort } from '../../runtime/index.js';
import type { Clock } from '../../runtime/index.js';
import type { FromReader, ToReader } from './messages.js';

type AdmitMessage = Extract<FromReader, { readonly kind: 'admit' }>;
type OverMessage = Extract<FromReader, { readonly kind: 'over' }>;

interface AskedAdmission {
  readonly withdraw: AbortController;
  /** `undefined` while the call is queued. */
  admission: Admission | undefined;
}

/** The forwarded calls of one reader thread: those that wait to be admitted, and those under way. */
export class CallAdmissions {
  readonly #clock: Clock;
  readonly #post: (message: ToReader) => void;
  /** Bounded by the limits on forwarded calls. */
  readonly #asked = new Map<number, AskedAdmission>();

  constructor(dependencies: { readonly clock: Clock; readonly post: (message: ToReader) => void }) {
    this.#clock = dependencies.clock;
    this.#post = dependencies.post;
  }

  /** Asks whether a call may be sent, and tells the thread. Without one, no call may be sent. */
  async admit({ id, node, call }: AdmitMessage, admission: ForwardingAdmission | undefined): Promise<void> {
    const asked: AskedAdmission = { withdraw: new AbortController(), admission: undefined };
    this.#asked.set(id, asked);
    const admitting = admission?.admit(node, call, asked.withdraw.signal);
    const waits = this.#clock.setTimer(0, () => this.#post({ kind: 'admission', id, outcome: 'waits' }));
    try {
      const admission = (await admitting) ?? 'gone';
      if (typeof admission === 'string') {
        this.#asked.delete(id);
        this.#post({ kind: 'admission', id, outcome: admission === 'silent' ? 'gone' : admission });
        return;
      }
      // Cancelled while it was being admitted.
      if (!this.#asked.has(id)) {
        admission.over('other');
        return;
      }
      asked.admission = admission;
      admission.onMakeWay(() => this.#post({ kind: 'makeWay', id }));
      this.#post({ kind: 'admission', id, outcome: 'admitted' });
    } catch (error) {
      if (!isAbort(error)) throw error;
    } finally {
      waits.cancel();
    }
  }

  /** The call is over, or no longer wants to be admitted. */
  over({ id, end }: OverMessage): void {
    const asked = this.#asked.get(id);
    this.#asked.delete(id);
    asked?.admission?.over(end);
    asked?.withdraw.abort(new AbortError());
  }

  /** The thread has ended, and all of its calls with it. */
  endAll(): void {
    for (const id of [...this.#asked.keys()]) this.over({ kind: 'over', id, end: 'other' });
  }
}
