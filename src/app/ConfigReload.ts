import { daemonSettings } from '../config/index.js';
import type { LoadedConfig } from '../config/index.js';
import type { LogLevel, ProgramLogger } from '../observability/index.js';
import { OperatorError, withoutUrlPaths } from '../runtime/index.js';
import type { DaemonParts } from './health/DaemonState.js';
import type { Health } from './health/startHealth.js';

/** How the running daemon reloads its configuration. */
export interface Reloading {
  /** The configuration that the daemon was started with. */
  readonly loaded: LoadedConfig;
  /** False when no file was named: then there is nothing to reload. */
  readonly hasFile: boolean;
  /** Reads it again, from the same sources. Expected errors: OperatorError. */
  readonly load: () => LoadedConfig;
  /** Calls back whenever the operator asks for a reload. */
  readonly onWanted: (listener: () => void) => void;
}

/** Parts whose settings may change while they run. */
type Reloadable = Pick<DaemonParts, 'descriptors' | 'diskWatch' | 'readers' | 'secretFiles'> & {
  readonly health: Pick<Health, 'setLimits'>;
};

/**
 * Applies changed settings to the running daemon, and logs the outcome: one line for what has changed, one for what needs a
 * restart. A file that cannot be used changes nothing, and is logged too.
 */
export class ConfigReload {
  readonly #reloading: Reloading;
  readonly #logger: ProgramLogger;
  /** `undefined` until the daemon is built; an earlier reload is done then. */
  #parts: Reloadable | undefined;
  #isWanted = false;
  /** The settings in effect. */
  #effective: Readonly<Record<string, unknown>>;
  #level: LogLevel;

  constructor(reloading: Reloading, dependencies: { readonly logger: ProgramLogger }) {
    this.#reloading = reloading;
    this.#logger = dependencies.logger;
    this.#effective = reloading.loaded.effective;
    this.#level = reloading.loaded.config.log.level;
    reloading.onWanted(() => this.#reload());
  }

  /** Reloads at once from now on. */
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
    // A default that changed follows from another setting, which is logged.
    const isSet = (key: string): boolean =>
      origins[key] !== 'default' || this.#reloading.loaded.origins[key] !== 'default';
    const later = changed.filter((key) => !isReloadable(key) && isSet(key));
    const now = changed.filter(isReloadable);
    const inWords = (key: string): string =>
      `${key}: ${words(this.#effective[key])} → ${words(effective[key])}`;
    const [applied, waiting] = [now.map(inWords), later.map(inWords)];
    apply(config, parts);
    this.#effective = { ...this.#effective, ...Object.fromEntries(now.map((key) => [key, effective[key]])) };
    this.#level = config.log.level;
    const besides = overridden.length === 0 ? {} : { setElsewhere: overridden };
    if (applied.length > 0) this.#tell('info', { changed: applied, ...besides }, 'configuration reloaded');
    else this.#tell('info', besides, 'configuration reloaded: nothing has changed');
    if (waiting.length > 0)
      this.#tell(
        'warn',
        { settings: waiting, advice: 'restart the daemon' },
        'settings change at a restart only',
      );
  }

  /** Logged at any log level: the operator asked. */
  #tell(level: 'info' | 'warn', fields: object, message: string): void {
    if (this.#level !== 'debug') this.#logger.setLevel('info');
    this.#logger[level](fields, message);
    this.#logger.setLevel(this.#level);
  }
}

/** Applies the settings that may change, in both threads. `ConfigReload` itself sets the log level. */
function apply(config: LoadedConfig['config'], parts: Reloadable): void {
  const { api, disk, log, ready } = config;
  const { corsOrigins, ratePerSecondPerAddress } = api;
  parts.readers?.change({ logLevel: log.level, corsOrigins, ratePerSecondPerAddress });
  parts.descriptors.reload(config);
  parts.diskWatch?.setMinFreeBytes(disk.minFreeBytes);
  parts.health.setLimits(ready);
}

function isReloadable(key: string): boolean {
  return daemonSettings[key as keyof typeof daemonSettings].isReloadable === true;
}

function isSame(left: unknown, right: unknown): boolean {
  return JSON.stringify(left) === JSON.stringify(right);
}

function words(value: unknown): string {
  if (Array.isArray(value)) return value.length === 0 ? 'none' : value.map(words).join(', ');
  if (value === null) return 'none';
  return typeof value === 'string' ? withoutUrlPaths(value) : JSON.stringify(value);
}
