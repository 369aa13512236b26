import type { Logger } from '../../observability/index.js';
import { messageOf, sentence } from '../../runtime/index.js';
import type { Clock, Timer } from '../../runtime/index.js';
import type { NotifyHelper, StartNotifyHelper } from './notifyHelper.js';
import type { ServiceManager } from './serviceManager.js';

/** How often the status is read; it is sent when it has changed. */
const STATUS_EVERY_MS = 5_000;
/** Signs of life per watchdog period: one may be lost. */
const SIGNS_OF_LIFE = 2;

/** Logged when messages do not reach the service manager. */
const CANNOT_TELL = 'the service manager cannot be told how the daemon is';
const SILENT_ADVICE =
  'fix this, or set Type=exec and WatchdogSec=0: without messages the service manager ends the daemon';

/**
 * Tells the service manager how the daemon is: alive, ready, what it is doing, stopping. Signs of life come from a timer of
 * the event loop, so they stop when it hangs. A message that cannot be sent delays nothing, and is logged once.
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
    options: ServiceManager,
    dependencies: { readonly clock: Clock; readonly logger: Logger; readonly startHelper: StartNotifyHelper },
  ) {
    this.#signEveryMs = options.watchdogMs === undefined ? undefined : options.watchdogMs / SIGNS_OF_LIFE;
    this.#clock = dependencies.clock;
    this.#logger = dependencies.logger;
    this.#helper = dependencies.startHelper((error) => this.#warnOnce(error), this.#clock);
  }

  /** Sends signs of life from now on. */
  start(): void {
    this.#tell('Starting');
    this.#giveSigns();
  }

  /** The daemon serves. From now on `describe` is called every few seconds for its status. */
  ready(describe: () => string): void {
    if (this.#isReady) return;
    this.#isReady = true;
    this.#helper.send('READY=1');
    this.#follow(describe);
  }

  /** The daemon stops. Signs of life continue until this is closed. */
  stopping(): void {
    this.#statusTimer?.cancel();
    this.#helper.send('STOPPING=1');
    this.#tell('Stopping');
  }

  /**
   * Resolves when everything is sent, after a second at most. Idempotent. `failure`: why the daemon ended, which the service
   * manager keeps showing.
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
