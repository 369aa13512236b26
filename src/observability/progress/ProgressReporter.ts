import type { Clock, Timer } from '../../runtime/index.js';
import type { Logger } from '../logs/createLogger.js';
import type { ProgressMeter, ProgressState } from './ProgressMeter.js';
import { progressFields, renderProgressLine } from './progressLine.js';

/** Shows the live line; `LiveTerminal` is one. */
export interface ProgressOutput {
  columns(): number;
  setLine(line: string | undefined): void;
}

export interface ProgressReporterOptions {
  /** `tty`: a live line on `output`. `log`: log lines. */
  readonly mode: 'tty' | 'log';
}

/** Between log lines while catching up. */
const INTERVAL_MS = 10_000;
/** Between log lines while following the head. */
const FOLLOWING_INTERVAL_MS = 60_000;
/** How often the meter is sampled and the live line redrawn. */
const TURN_MS = 500;

/**
 * Reports progress: on a terminal by a line rewritten in place, elsewhere by log lines, every 10 s while catching
 * up and every minute at the head. Both modes log when the head is reached and lost.
 */
export class ProgressReporter {
  readonly #options: ProgressReporterOptions;
  readonly #clock: Clock;
  readonly #meter: ProgressMeter;
  readonly #output: ProgressOutput | undefined;
  readonly #logger: Logger;
  #timer: Timer | undefined;
  #mode: ProgressState['mode'] = 'waiting';
  #loggedAtMs = 0;

  constructor(
    options: ProgressReporterOptions,
    dependencies: {
      readonly clock: Clock;
      readonly meter: ProgressMeter;
      readonly logger: Logger;
      /** Required in mode `tty`. */
      readonly output?: ProgressOutput;
    },
  ) {
    this.#options = options;
    this.#clock = dependencies.clock;
    this.#meter = dependencies.meter;
    this.#output = dependencies.output;
    this.#logger = dependencies.logger;
  }

  start(): void {
    if (this.#timer !== undefined) return;
    this.#loggedAtMs = this.#clock.monotonic();
    const turn = (): void => {
      this.#report();
      this.#timer = this.#clock.setTimer(TURN_MS, turn);
    };
    turn();
  }

  /** Removes the live line. */
  close(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    this.#output?.setLine(undefined);
  }

  #report(): void {
    const state = this.#meter.state();
    this.#logEdge(state);
    if (this.#options.mode === 'tty' && this.#output !== undefined) {
      this.#output.setLine(renderProgressLine(state, this.#output.columns()));
    } else {
      this.#logTurn(state);
    }
  }

  #logEdge(state: ProgressState): void {
    // A mode change while held up means nothing.
    if (state.mode === this.#mode || state.heldUpBy !== undefined) return;
    const before = this.#mode;
    this.#mode = state.mode;
    if (state.mode === 'following') this.#log(state, 'reached the head');
    else if (state.mode === 'catching_up' && before === 'following') this.#log(state, 'fell behind the head');
  }

  #logTurn(state: ProgressState): void {
    const following = state.mode === 'following' && state.heldUpBy === undefined;
    const intervalMs = following ? FOLLOWING_INTERVAL_MS : INTERVAL_MS;
    if (this.#clock.monotonic() - this.#loggedAtMs < intervalMs) return;
    if (state.mode === 'waiting') this.#log(state, 'waiting for the head');
    else if (state.heldUpBy !== undefined) this.#log(state, 'held up');
    else this.#log(state, following ? 'following the head' : 'catching up');
  }

  #log(state: ProgressState, message: string): void {
    this.#loggedAtMs = this.#clock.monotonic();
    this.#logger.info(progressFields(state), message);
  }
}
