import { daemonSettings } from '../config/index.js';
import type { LoadedConfig } from '../config/index.js';
import type { LogLevel, ProgramLogger } from '../observability/index.js';
import { OperatorError } from '../runtime/index.js';
import type { Health, StorageWatch } from './health/startHealth.js';
import type { SecretFiles } from './guard/SecretFiles.js';
import type { ReaderThread } from './threads/ReaderThread.js';

/** How the running daemon reads its configuration again. */
export interface Reloading {
  /** With what the daemon was started. */
  readonly loaded: LoadedConfig;
  /** False where no file was named: then there is nothing to read again. */
  readonly hasFile: boolean;
  /** Reads it anew, from the same sources. Expected errors: OperatorError. */
  readonly load: () => LoadedConfig;
  /** Calls back whenever the operator wants it. */
  readonly onWanted: (listener: () => void) => void;
}

/** Whose settings may change while they run. */
export interface Reloadable {
  readonly diskWatch: Pick<StorageWatch, 'setMinFreeBytes'>;
  readonly health: Pick<Health, 'setLimits'>;
  readonly secretFiles: Pick<SecretFiles, 'reload'>;
  /** Absent where no readers are served. */
  readonly readers: Pick<ReaderThread, 'change'> | undefined;
}

/**
 * Changes the settings of the running daemon that may change, and says what became of each: one line for what has changed,
 * one for what waits for a restart, one for a file that cannot be used. In the last case nothing changes at all.
 */
export class ConfigReload {
  readonly #reloading: Reloading;
  readonly #logger: ProgramLogger;
  /** `undefined` until the daemon is built: what is wanted earlier is done then. */
  #parts: Reloadable | undefined;
  #isWanted = false;
  /** What is in effect. */
  #effective: Readonly<Record<string, unknown>>;
  #level: LogLevel;

  constructor(reloading: Reloading, dependencies: { readonly logger: ProgramLogger }) {
    this.#reloading = reloading;
    this.#logger = dependencies.logger;
    this.#effective = reloading.loaded.effective;
    this.#level = reloading.loaded.config.log.level;
    reloading.onWanted(() => this.#reload());
  }

  /** From now on what is wanted is done at once. */
  start(parts: Reloadable): void {
    this.#parts = parts;
    if (this.#isWanted) this.#reload();
  }

  #reload(): void {
    this.#isWanted = true;
    if (this.#parts === undefined) return;
    this.#parts.secretFiles.reload();
    if (!this.#reloading.hasFile) {
      this.#tell('warn', { advice: 'start with --config FILE' }, 'there is no configuration file to reload');
      return;
    }
    let next: LoadedConfig;
    try {
      next = this.#reloading.load();
    } catch (error) {
      if (!(error instanceof OperatorError)) throw error;
      this.#logger.error({ why: error.message }, 'the configuration was not reloaded: nothing has changed');
      return;
    }
    this.#take(next, this.#parts);
  }

  #take({ config, effective, origins, overridden }: LoadedConfig, parts: Reloadable): void {
    const changed = Object.keys(effective).filter((key) => !isSame(effective[key], this.#effective[key]));
    // What nobody set follows from another setting, which is told of.
    const isSet = (key: string): boolean =>
      origins[key] !== 'default' || this.#reloading.loaded.origins[key] !== 'default';
    const later = changed.filter((key) => !isReloadable(key) && isSet(key));
    const now = changed.filter(isReloadable);
    const inWords = (key: string): string =>
      `${key}: ${words(this.#effective[key])} → ${words(effective[key])}`;
    const [told, waiting] = [now.map(inWords), later.map(inWords)];
    apply(config, parts);
    this.#effective = { ...this.#effective, ...Object.fromEntries(now.map((key) => [key, effective[key]])) };
    this.#level = config.log.level;
    const besides = overridden.length === 0 ? {} : { setElsewhere: overridden };
    if (told.length > 0) this.#tell('info', { changed: told, ...besides }, 'configuration reloaded');
    else this.#tell('info', besides, 'configuration reloaded: nothing has changed');
    if (waiting.length > 0)
      this.#tell(
        'warn',
        { settings: waiting, advice: 'restart the daemon' },
        'settings change at a restart only',
      );
  }

  /** Whoever asks is answered, however quiet the log is. */
  #tell(level: 'info' | 'warn', fields: object, message: string): void {
    if (this.#level !== 'debug') this.#logger.setLevel('info');
    this.#logger[level](fields, message);
    this.#logger.setLevel(this.#level);
  }
}

/** Puts the settings that may change into effect, in both threads. The log's level is `ConfigReload`'s own. */
function apply({ api, disk, log, ready }: LoadedConfig['config'], parts: Reloadable): void {
  const { corsOrigins, maxConnections, ratePerSecondPerAddress } = api;
  parts.readers?.change({ logLevel: log.level, corsOrigins, maxConnections, ratePerSecondPerAddress });
  parts.diskWatch.setMinFreeBytes(disk.minFreeBytes);
  parts.health.setLimits(ready);
}

function isReloadable(key: string): boolean {
  return daemonSettings[key as keyof typeof daemonSettings].isReloadable === true;
}

function isSame(left: unknown, right: unknown): boolean {
  return JSON.stringify(left) === JSON.stringify(right);
}

function words(value: unknown): string {
  if (Array.isArray(value)) return value.length === 0 ? 'none' : value.join(', ');
  if (value === null) return 'none';
  return typeof value === 'string' ? value : JSON.stringify(value);
}
