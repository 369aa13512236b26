import { daemonSettings, type LoadedConfig } from '../config/index.js';
import type { ProgramLogger } from '../observability/index.js';
import { OperatorError, within, withoutUrlPaths, type Clock } from '../runtime/index.js';
import type { DaemonParts, Diagnosis } from './health/diagnose.js';

/** How the running daemon reloads its configuration. */
export interface Reloading {
  readonly loaded: LoadedConfig;
  /** False where no file is named, or a pipe: then there is nothing to reload. Resolves once the file may be read without a wait. */
  readonly hasFile: () => Promise<boolean>;
  /** Reads it again, from the same sources. Expected errors: OperatorError. */
  readonly load: () => Promise<LoadedConfig>;
  /** Calls back whenever the operator asks for a reload. */
  readonly onWanted: (listener: () => void) => void;
}

/** A file that takes longer to answer is on a disk or mount that hangs, which is told. */
const SILENT_AFTER_MS = 5_000;

/** Parts whose settings may change while they run. */
type Reloadable = Pick<DaemonParts, 'descriptors' | 'diskWatch' | 'readers'> & {
  readonly health: { readonly diagnosis: Pick<Diagnosis, 'setLimits'> };
};

/**
 * Applies changed settings to the running daemon, and logs the outcome: one line for what has changed, one for what needs a
 * restart. A file that cannot be used changes nothing, and is logged too. Call what it returns once the daemon is built; a reload
 * that was asked for earlier is done then.
 */
export function reloadWhenWanted(
  { hasFile, load, loaded, onWanted }: Reloading,
  { clock, logger }: { readonly clock: Clock; readonly logger: ProgramLogger },
): (parts: Reloadable) => void {
  let parts: Reloadable | undefined;
  let isWanted = false;
  /** The settings in effect. */
  let { effective } = loaded;
  let { level } = loaded.config.log;

  /** Logged at any log level: the operator asked. */
  const tell = (how: 'info' | 'warn', fields: object, message: string): void => {
    if (level !== 'debug') logger.setLevel('info');
    logger[how](fields, message);
    logger.setLevel(level);
  };
  /** Applies the settings that may change, in both threads. */
  const take = (next: LoadedConfig, into: Reloadable): void => {
    const before = effective;
    const { network } = loaded.config;
    // Defaults that may change follow from the network.
    if (next.config.network !== network)
      throw new OperatorError(
        'configuration',
        `It is for the network ${next.config.network}, and this daemon follows ${network}: restart it for another one`,
      );
    const changed = Object.keys(next.effective).filter(
      (key) => JSON.stringify(next.effective[key]) !== JSON.stringify(before[key]),
    );
    // A default that changed follows from another setting, which is logged.
    const isSet = (key: string): boolean =>
      next.origins[key] !== 'default' || loaded.origins[key] !== 'default';
    const later = changed.filter((key) => !isReloadable(key) && isSet(key));
    const now = changed.filter(isReloadable);
    const inWords = (key: string): string => `${key}: ${words(before[key])} → ${words(next.effective[key])}`;
    const { api, disk, log, ready } = next.config;
    const { corsOrigins, ratePerSecondPerAddress } = api;
    into.readers?.change({ logLevel: log.level, corsOrigins, ratePerSecondPerAddress });
    into.descriptors.reload(next.config);
    into.diskWatch?.setMinFreeBytes(disk.minFreeBytes);
    into.health.diagnosis.setLimits(ready);
    effective = { ...before, ...Object.fromEntries(now.map((key) => [key, next.effective[key]])) };
    ({ level } = log);
    const besides = next.overridden.length === 0 ? {} : { setElsewhere: next.overridden };
    if (now.length > 0) tell('info', { changed: now.map(inWords), ...besides }, 'configuration reloaded');
    else tell('info', besides, 'configuration reloaded: nothing has changed');
    if (later.length > 0) {
      const fields = { settings: later.map(inWords), advice: 'restart the daemon' };
      tell('warn', fields, 'settings change at a restart only');
    }
  };
  const reload = async (): Promise<void> => {
    isWanted = true;
    if (parts === undefined) return;
    const looked = hasFile();
    if ((await within(clock, SILENT_AFTER_MS, looked)) === 'late') {
      const fields = { advice: 'look at the disk or mount that has it: the reload waits for that' };
      tell('warn', fields, 'the configuration file does not answer');
    }
    if (!(await looked)) {
      tell('warn', { advice: 'start with --config FILE' }, 'there is no configuration file to reload');
      return;
    }
    try {
      take(await load(), parts);
    } catch (error) {
      if (!(error instanceof OperatorError)) throw error;
      logger.error({ why: error.message }, 'the configuration was not reloaded: nothing has changed');
    }
  };
  // One after the other: what was read first must not be applied last.
  let turn = Promise.resolve();
  onWanted(() => void (turn = turn.then(reload)));
  return (built) => {
    parts = built;
    if (isWanted) turn = turn.then(reload);
  };
}

function isReloadable(key: string): boolean {
  return daemonSettings[key as keyof typeof daemonSettings].isReloadable === true;
}

function words(value: unknown): string {
  if (Array.isArray(value)) return value.length === 0 ? 'none' : value.map(words).join(', ');
  if (value === null) return 'none';
  return typeof value === 'string' ? withoutUrlPaths(value) : JSON.stringify(value);
}
