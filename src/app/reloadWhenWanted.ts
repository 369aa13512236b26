import { isDeepStrictEqual } from 'node:util';
import { configured, daemonSettings, type DaemonConfig, type LoadedConfig } from '../config/index.js';
import { WorkSignal } from '../jobqueue/index.js';
import type { ProgramLogger } from '../observability/index.js';
import { OperatorError, orAborted, within, withoutUrlPaths, type Clock } from '../runtime/index.js';

/** How the running daemon reloads its configuration. */
export interface Reloading {
  readonly loaded: LoadedConfig;
  /**
   * Reads it again, from the same sources, once its file can be read without waiting; `undefined` if no file is named, or a pipe.
   * Expected errors: OperatorError.
   */
  readonly load: () => Promise<LoadedConfig | undefined>;
  /** Calls back whenever the operator asks for a reload. */
  readonly onWanted: (listener: () => void) => void;
}

/** A file that takes longer to answer is on a hanging disk or mount, which is logged. */
const SILENT_AFTER_MS = 5_000;

/**
 * Writes changed settings into the configuration of the running daemon on request, and logs the outcome: one line for what has
 * changed, one for what needs a restart. An unusable file changes nothing, and is logged too. Call the returned function once
 * the daemon is built; a reload that was requested earlier happens then.
 */
export function reloadWhenWanted(
  { load, loaded, onWanted }: Reloading,
  { clock, logger }: { readonly clock: Clock; readonly logger: ProgramLogger },
) {
  const wanted = new WorkSignal();
  onWanted(() => wanted.notify());
  /** The settings in effect. */
  let { effective } = loaded;
  const take = (
    { config, effective: next, origins, overridden }: LoadedConfig,
    running: DaemonConfig,
  ): void => {
    const { dataDir, network } = running;
    // Reloadable defaults depend on the network.
    if (config.network !== network)
      throw new OperatorError(
        'configuration',
        `It is for the network ${config.network}, and this daemon follows ${network}: restart it for another one`,
      );
    const changed = Object.keys(next).filter((key) => !isDeepStrictEqual(next[key], effective[key]));
    // A changed default depends on another setting, which is logged.
    const isSet = (key: string): boolean => origins[key] !== 'default' || loaded.origins[key] !== 'default';
    const inWords = (key: string): string => `${key}: ${words(effective[key])} → ${words(next[key])}`;
    const now = changed.filter(isReloadable);
    const later = changed.filter((key) => !isReloadable(key) && isSet(key)).map(inWords);
    const besides = overridden.length === 0 ? {} : { setElsewhere: overridden };
    if (now.length > 0) logger.info({ changed: now.map(inWords), ...besides }, 'configuration reloaded');
    else logger.info(besides, 'configuration reloaded: nothing has changed');
    if (later.length > 0)
      logger.warn({ settings: later, advice: 'restart the daemon' }, 'settings change at a restart only');
    effective = { ...effective, ...Object.fromEntries(now.map((key) => [key, next[key]])) };
    Object.assign(running, configured(effective), { dataDir });
  };
  /** `running`: reloadable settings are read from it whenever they are needed. Ends with the signal's abort reason. */
  return async (running: DaemonConfig, onChange: () => void, signal: AbortSignal): Promise<never> => {
    for (;;) {
      await wanted.wait(signal);
      try {
        const loading = load();
        if ((await within(clock, SILENT_AFTER_MS, loading)) === 'late') {
          const fields = { advice: 'look at the disk or mount that has it: the reload waits for that' };
          logger.error(fields, 'the configuration file does not answer');
        }
        const next = await orAborted(loading, signal);
        // The operator asked for it, so the outcome is logged at any level.
        if (running.log.level !== 'debug') logger.setLevel('info');
        if (next !== undefined) take(next, running);
        else logger.warn({ advice: 'start with --config FILE' }, 'there is no configuration file to reload');
      } catch (error) {
        if (!(error instanceof OperatorError)) throw error;
        logger.error({ why: error.message }, 'the configuration was not reloaded: nothing has changed');
      } finally {
        logger.setLevel(running.log.level);
      }
      onChange();
    }
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
