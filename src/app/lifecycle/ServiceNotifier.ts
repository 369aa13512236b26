import type { Logger } from '../../observability/index.js';
import { messageOf, sentence } from '../../runtime/index.js';
import type { Clock, Timer } from '../../runtime/index.js';
import type { NotifyHelper, StartNotifyHelper } from './notifyHelper.js';

/** How often the status is looked at; it is sent when it has changed. */
const STATUS_EVERY_MS = 5_000;
/** Signs of life within the time of the watchdog: one may be lost. */
const SIGNS_OF_LIFE = 2;

/** Logged when the service manager does not hear of us. */
const CANNOT_TELL = 'the service manager cannot be told how the daemon is';
const SILENT_ADVICE =
  'mend this, or set Type=exec and WatchdogSec=0: it ends a daemon that it does not hear of';

export interface ServiceNotifierOptions {
  /** The service manager ends the process after this long without a sign of life. Absent: it does not. */
  readonly watchdogMs?: number | undefined;
}

/**
 * Tells the service manager how the daemon is: alive, ready, what it is doing, stopping. Signs of life come from a timer of
 * the event loop: one that hangs gives none. A message that cannot be sent holds nothing up, and is warned of once.
 */
export class ServiceNotifier {
  readonly #signEveryMs: number | undefined;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #helper: NotifyHelper;
  #signTimer: Timer | undefined;
  #statusTimer: Timer | undefined;
  #status: string | undefined;
  #isReady = false;
  #isClosed = false;
  #hasFailed = false;

  constructor(
    options: ServiceNotifierOptions,
    dependencies: { readonly clock: Clock; readonly logger: Logger; readonly startHelper: StartNotifyHelper },
  ) {
    this.#signEveryMs = options.watchdogMs === undefined ? undefined : options.watchdogMs / SIGNS_OF_LIFE;
    this.#clock = dependencies.clock;
    this.#logger = dependencies.logger;
    this.#helper = dependencies.startHelper((error) => this.#warnOnce(error), this.#clock);
  }

  /** From now on the process shows that it is alive. */
  start(): void {
    this.#tell('Starting');
    this.#giveSigns();
  }

  /** It serves. From now on `describe` is asked every few seconds what the daemon is doing. */
  ready(describe: () => string): void {
    if (this.#isReady) return;
    this.#isReady = true;
    this.#helper.send('READY=1');
    this.#follow(describe);
  }

  /** It stops. It goes on showing that it is alive until it is closed. */
  stopping(): void {
    this.#statusTimer?.cancel();
    this.#helper.send('STOPPING=1');
    this.#tell('Stopping');
  }

  /**
   * Resolves when all is told, after a second at most. Idempotent. `failure`: why it ended; the service manager goes on
   * showing it.
   */
  async close(failure?: string): Promise<void> {
    this.#signTimer?.cancel();
    this.#statusTimer?.cancel();
    if (this.#isClosed) return;
    if (failure !== undefined) this.#tell(failure);
    this.#isClosed = true;
    await this.#helper.close();
  }

  #giveSigns(): void {
    if (this.#signEveryMs === undefined) return;
    this.#helper.send('WATCHDOG=1');
    this.#signTimer = this.#clock.setTimer(this.#signEveryMs, () => this.#giveSigns());
  }

  #follow(describe: () => string): void {
    this.#tell(describe());
    this.#statusTimer = this.#clock.setTimer(STATUS_EVERY_MS, () => this.#follow(describe));
  }

  #tell(status: string): void {
    if (status === this.#status) return;
    this.#status = status;
    this.#helper.send(`STATUS=${sentence(status)}`);
  }

  #warnOnce(error: Error): void {
    if (this.#hasFailed) return;
    this.#hasFailed = true;
    this.#logger.warn({ error: messageOf(error), advice: SILENT_ADVICE }, CANNOT_TELL);
  }
}
