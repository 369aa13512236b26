import { every } from '../../runtime/index.js';
import type { Clock, Timer } from '../../runtime/index.js';
import type { Logger } from '../logs/createLogger.js';
import type { LiveTerminal } from './LiveTerminal.js';
import type { ProgressMeter, ProgressState } from './ProgressMeter.js';
import { formatDuration } from './format.js';
import { renderProgressLine } from './progressLine.js';

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
  readonly #clock: Clock;
  readonly #meter: ProgressMeter;
  readonly #terminal: Pick<LiveTerminal, 'columns' | 'setLine'> | undefined;
  readonly #logger: Logger;
  #timer: Timer | undefined;
  #mode: ProgressState['mode'] = 'waiting';
  #loggedAtMs = 0;

  constructor(dependencies: {
    readonly clock: Clock;
    readonly meter: ProgressMeter;
    readonly logger: Logger;
    /** Where the live line is; absent: log lines. */
    readonly terminal: Pick<LiveTerminal, 'columns' | 'setLine'> | undefined;
  }) {
    this.#clock = dependencies.clock;
    this.#meter = dependencies.meter;
    this.#terminal = dependencies.terminal;
    this.#logger = dependencies.logger;
  }

  start(): void {
    if (this.#timer !== undefined) return;
    this.#loggedAtMs = this.#clock.monotonic();
    this.#report();
    this.#timer = every(this.#clock, TURN_MS, () => this.#report());
  }

  /** Removes the live line. */
  close(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    this.#terminal?.setLine(undefined);
  }

  #report(): void {
    const state = this.#meter.state();
    this.#logEdge(state);
    if (this.#terminal === undefined) this.#logTurn(state);
    else this.#terminal.setLine(renderProgressLine(state, this.#terminal.columns()));
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
    const { etaSeconds, head, heldUpBy, lag, latestIndexed = -1, ratePerSecond } = state;
    const fields = {
      // An empty store that starts at height 0 has the watermark -1.
      latestIndexed: latestIndexed < 0 ? undefined : latestIndexed,
      ...(heldUpBy === undefined ? {} : { heldUpBy }),
      head,
      lag,
      rate: Math.round(ratePerSecond * 100) / 100,
      eta: etaSeconds === undefined ? 'unknown' : formatDuration(etaSeconds),
      etaSeconds: etaSeconds && Math.round(etaSeconds),
    };
    this.#logger.info(fields, message);
  }
}
