import { stat } from 'node:fs/promises';
import { runDaemon } from '../../app/index.js';
import type { ExitReason } from '../../runtime/index.js';
import type { Terminal, Invocation } from '../command.js';
import { checkDatabases, checkEndpoints, configAgain, configOf } from '../arguments/settings.js';

/** `start`: runs the daemon until it is stopped or reaches its stop height. `ports`: see `runDaemon`. */
export async function start(
  invocation: Invocation,
  terminal: Terminal,
  ports?: Parameters<typeof runDaemon>[2],
): Promise<ExitReason> {
  const loaded = checkEndpoints(await configOf(invocation, terminal));
  const { config } = loaded;
  const { configFile = '' } = invocation;
  const host = {
    outputs: terminal.outputs,
    stdout: terminal.outputs[0],
    isLive: terminal.isLive && config.log.format === 'pretty',
    signal: terminal.signal,
    onBug: (listener: (error: unknown) => void) => terminal.onBug(listener),
    reloading: {
      loaded,
      load: async () => {
        // A pipe, as of a shell's `<(…)`, has been read: waiting for more would block the process. So would a mount that hangs, so
        // this check does not block.
        const file = configFile === '' ? undefined : await stat(configFile).catch(() => undefined);
        if (configFile === '' || file?.isFIFO() === true) return undefined;
        const next = checkEndpoints(configAgain(invocation, terminal));
        const { api, store } = next.config;
        // Files that the URL in use names may be about to be replaced.
        if (store !== config.store || api.store !== config.api.store) await checkDatabases(next);
        return next;
      },
      onWanted: (listener: () => void) => terminal.onReload(listener),
    },
  };
  return runDaemon(config, host, ports);
}
