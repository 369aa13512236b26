import type { StatusDocument } from '../../api/index.js';
import type { DaemonConfig } from '../../config/index.js';
import type { Logger } from '../../observability/index.js';
import {
  descriptorLimit,
  Listeners,
  openDescriptors,
  OperatorError,
  outOfDescriptors,
  sleep,
} from '../../runtime/index.js';
import type { Clock } from '../../runtime/index.js';
import { descriptorShares, fewestDescriptors, plentyOfDescriptors } from './descriptorShares.js';

const LOOK_EVERY_MS = 1_000;
/** With fewer left, whatever is opened next may fail: the shares leave more. */
const LOW = 4;

/**
 * The file descriptors of this process. What the daemon needs for itself is set aside before its ports get the rest, so that no
 * number of callers can take them from the store. The limit is read again every second, as are those in use: somebody may lower
 * the one, and the system may run out of the others.
 */
export class Descriptors {
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #changed = new Listeners();
  #config: DaemonConfig;
  #limit: number;
  #open: number | undefined;
  #trouble: string | undefined;
  /** Why the store waits for one. */
  #storeWaits: string | undefined;
  #count: () => Readonly<Record<string, number>> = () => ({});

  /** Expected errors: OperatorError (`configuration`) when they do not suffice. */
  constructor(config: DaemonConfig, dependencies: { readonly clock: Clock; readonly logger: Logger }) {
    this.#config = config;
    this.#clock = dependencies.clock;
    this.#logger = dependencies.logger;
    this.#limit = descriptorLimit();
    const fewest = fewestDescriptors(config);
    if (this.#limit < fewest)
      throw new OperatorError(
        'configuration',
        `Only ${this.#limit} files may be open at once, but with this configuration the daemon needs ${fewest}, and ` +
          `${plentyOfDescriptors(config)} for api.maxConnections. Raise the limit (${howToRaise(config)}).`,
      );
    this.#tell();
  }

  get shares(): ReturnType<typeof descriptorShares> {
    return descriptorShares(this.#config, this.#limit);
  }

  /** `count`: the open connections of each port. */
  count(count: () => Readonly<Record<string, number>>): void {
    this.#count = count;
  }

  status(): StatusDocument['descriptors'] {
    const { metrics, perPort } = this.shares;
    const ports = Object.entries(this.#count());
    return {
      limit: this.#limit === Infinity ? null : this.#limit,
      open: this.#open ?? null,
      connections: ports.map(([port, open]) => ({
        port,
        open,
        limit: port === 'metrics' ? metrics : perPort,
      })),
    };
  }

  /** The store cannot open a file, for a reason in words; `undefined`: it can again. */
  storeWaits(why: string | undefined): void {
    this.#storeWaits = why;
  }

  /** Why something cannot be opened now, and what to do; `undefined` while it can. */
  trouble(): string | undefined {
    const why = this.#trouble ?? this.#storeWaits;
    return why && `${why}: raise the limit (${howToRaise(this.#config)}), or end what uses them up`;
  }

  /** `api.maxConnections` has changed. */
  reload(config: DaemonConfig): void {
    this.#config = {
      ...this.#config,
      api: { ...this.#config.api, maxConnections: config.api.maxConnections },
    };
    this.#changed.tell();
  }

  /** Calls back when the shares may have changed. */
  onChange(listener: () => void): void {
    this.#changed.add(listener);
  }

  /** Expected errors: the signal's abort reason. */
  async run(signal: AbortSignal): Promise<void> {
    for (;;) {
      await this.#look();
      await sleep(this.#clock, LOOK_EVERY_MS, signal);
    }
  }

  async #look(): Promise<void> {
    const limit = descriptorLimit();
    if (limit !== this.#limit) {
      this.#logger.warn({ files: limit, before: this.#limit }, 'another number of files may be open now');
      this.#limit = limit;
      this.#tell();
      this.#changed.tell();
    }
    try {
      this.#open = await openDescriptors();
      const left = this.#limit - (this.#open ?? 0);
      this.#trouble =
        left >= LOW ? undefined : `${this.#open} of ${limit} files that this process may have open are open`;
    } catch (error) {
      const isSystem = outOfDescriptors(error) === 'system';
      this.#trouble = isSystem
        ? 'the system has as many files open as it allows (fs.file-max)'
        : `all ${limit} files that this process may have open are open`;
    }
  }

  /** One line if the ports get less than was asked for. */
  #tell(): void {
    const { isEnough, perPort } = this.shares;
    if (isEnough) return;
    const advice = `raise the limit to ${plentyOfDescriptors(this.#config)}: ${howToRaise(this.#config)}`;
    this.#logger.warn(
      { files: this.#limit, connectionsPerPort: perPort, advice },
      'each port takes fewer connections than api.maxConnections: too few files may be open',
    );
  }
}

function howToRaise(config: DaemonConfig): string {
  const plenty = plentyOfDescriptors(config);
  return `ulimit -n ${plenty}, or LimitNOFILE=${plenty} of the systemd unit`;
}
