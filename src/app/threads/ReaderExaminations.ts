import { ApiError } from '../../api/index.js';
import type { Clock, Timer } from '../../runtime/index.js';
import type { Examination, ExaminationOutcome, ToReader } from './messages.js';

/** Time for the answer, which is large, after the profile itself. */
const ANSWER_LIMIT_MS = 10_000;
/** Concurrent examinations at most. */
const MAX_EXAMINATIONS = 4;

interface Asked {
  readonly answered: (outcome: ExaminationOutcome) => void;
  readonly timer: Timer;
}

/** Profiles of the current reader thread, for `/debug`. */
export class ReaderExaminations {
  readonly #clock: Clock;
  readonly #asked = new Map<number, Asked>();
  #ids = 0;

  constructor(dependencies: { readonly clock: Clock }) {
    this.#clock = dependencies.clock;
  }

  /** Expected errors: ApiError (503) when the thread is busy with another, does not answer, or ends. */
  ask(wanted: Examination, post: (message: ToReader) => void): Promise<string> {
    if (this.#asked.size >= MAX_EXAMINATIONS)
      return Promise.reject(new ApiError(503, 'busy', 'the reader thread is being examined already; retry'));
    return new Promise((resolve, reject) => {
      this.#ids += 1;
      const id = this.#ids;
      const durationMs = wanted.of === 'cpu' ? wanted.durationMs : 0;
      const timer = this.#clock.setTimer(durationMs + ANSWER_LIMIT_MS, () => {
        this.#asked.delete(id);
        reject(new ApiError(503, 'busy', 'the reader thread does not answer; retry'));
      });
      const answered: Asked['answered'] = (outcome) => {
        this.#asked.delete(id);
        timer.cancel();
        if ('result' in outcome) resolve(outcome.result);
        else reject(new ApiError(503, 'busy', outcome.refused));
      };
      this.#asked.set(id, { answered, timer });
      post({ kind: 'examine', id, wanted });
    });
  }

  answered(id: number, outcome: ExaminationOutcome): void {
    this.#asked.get(id)?.answered(outcome);
  }

  /** The thread has ended. */
  endAll(): void {
    for (const { answered } of [...this.#asked.values()])
      answered({ refused: 'the reader thread has ended; retry' });
  }
}
