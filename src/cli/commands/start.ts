import { runDaemon } from '../../app/index.js';
import type { ExitReason } from '../../runtime/index.js';
import type { Invocation, Terminal } from '../command.js';
import { checkEndpoints, configAgain, configOf } from '../arguments/settings.js';

/** `start`: runs the daemon until it is stopped or reaches its stop height. */
export async function start(invocation: Invocation, terminal: Terminal): Promise<ExitReason> {
  const loaded = await configOf(invocation, terminal);
  checkEndpoints(loaded);
  const { config } = loaded;
  const { outputs } = terminal;
  return runDaemon(config, {
    outputs,
    stdout: outputs[0],
    isLive: terminal.isLive && config.log.format === 'pretty',
    signal: terminal.signal,
    onBug: (listener) => terminal.onBug(listener),
    reloading: {
      loaded,
      hasFile: invocation.configFile !== undefined,
      load: () => {
        const again = configAgain(invocation, terminal);
        checkEndpoints(again);
        return again;
      },
      onWanted: (listener) => terminal.onReload(listener),
    },
  });
}
