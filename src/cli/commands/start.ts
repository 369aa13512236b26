import { statSync } from 'node:fs';
import { runDaemon } from '../../app/index.js';
import type { ExitReason } from '../../runtime/index.js';
import type { Terminal, Invocation } from '../command.js';
import { checkEndpoints, configAgain, configOf } from '../arguments/settings.js';

/** `start`: runs the daemon until it is stopped or reaches its stop height. `ports`: see `runDaemon`. */
export async function start(
  invocation: Invocation,
  terminal: Terminal,
  ports?: Parameters<typeof runDaemon>[2],
): Promise<ExitReason> {
  const loaded = checkEndpoints(await configOf(invocation, terminal));
  const { config } = loaded;
  const { configFile } = invocation;
  const host = {
    outputs: terminal.outputs,
    stdout: terminal.outputs[0],
    isLive: terminal.isLive && config.log.format === 'pretty',
    signal: terminal.signal,
    onBug: (listener: (error: unknown) => void) => terminal.onBug(listener),
    reloading: {
      loaded,
      // A pipe, as of a shell's `<(…)`, has been read: waiting for more would hold up everything.
      hasFile: () =>
        configFile !== undefined && statSync(configFile, { throwIfNoEntry: false })?.isFIFO() !== true,
      load: () => checkEndpoints(configAgain(invocation, terminal)),
      onWanted: (listener: () => void) => terminal.onReload(listener),
    },
  };
  return runDaemon(config, host, ports);
}
