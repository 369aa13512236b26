import { connect } from 'node:net';
import { daemonRuns } from '../../app/index.js';
import type { ControlAnswer } from '../../app/index.js';
import type { LoadedConfig } from '../../config/index.js';
import { OperatorError } from '../../runtime/index.js';
import { recordOf } from './daemonAddress.js';

/** Ranges that are running must end first. */
const COMMAND_TIMEOUT_MS = 30_000;

/**
 * Sends a command to the running daemon of this data directory; `undefined` when none runs there. Expected errors:
 * OperatorError (the daemon's refusal; `no_daemon` when it does not answer).
 */
export async function commandDaemon({ config }: LoadedConfig, command: unknown): Promise<unknown> {
  const record = recordOf(config);
  if (record === undefined || !daemonRuns(config.dataDir)) return undefined;
  const { control } = record;
  if (control === undefined)
    throw new OperatorError(
      'no_daemon',
      'The running daemon is an older version that takes no commands. Restart it.',
    );
  const line = await exchanged(control, `${JSON.stringify(command)}\n`);
  // The record is of a daemon that was killed; another process may have its number by now.
  if (line === 'nobody') return undefined;
  const answer = line === undefined ? undefined : (JSON.parse(line) as ControlAnswer);
  if (answer === undefined)
    throw new OperatorError('no_daemon', `The daemon of ${config.dataDir} does not answer. See its log.`);
  if ('refused' in answer) throw new OperatorError(answer.refused.exit, answer.refused.message);
  return answer.done;
}

/** Sends one line and returns the answer; `nobody`: nothing listens there; `undefined`: no answer. */
function exchanged(path: string, line: string): Promise<string | undefined> {
  return new Promise((resolve) => {
    const socket = connect({ path });
    let text = '';
    let isConnected = false;
    socket.setEncoding('utf8');
    socket.setTimeout(COMMAND_TIMEOUT_MS, () => socket.destroy());
    socket.on('connect', () => {
      isConnected = true;
      socket.write(line);
    });
    socket.on('data', (part: string) => (text += part));
    socket.on('error', () => socket.destroy());
    socket.on('close', () => resolve(text.endsWith('\n') ? text : isConnected ? undefined : 'nobody'));
  });
}
