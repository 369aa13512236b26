import { connect } from 'node:net';
import type { BackfillStatus, StatusDocument } from '../../api/index.js';
import { daemonRuns, killWorkersOf, loadStores, workersOf } from '../../app/index.js';
import type { BackfillCommand, BackfillOutcome, ControlAnswer } from '../../app/index.js';
import { readHeightsToFill } from '../../config/index.js';
import type { LoadedConfig, ValuesOf } from '../../config/index.js';
import { formatCount, formatDuration } from '../../observability/index.js';
import { OperatorError, quoted } from '../../runtime/index.js';
import type { backfillFlags, workersFlags } from '../arguments/flags.js';
import { configOf } from '../arguments/settings.js';
import { askDaemon, namesDaemonAddress, noDaemon, recordOf } from '../client/findDaemon.js';
import { wrongUse } from '../command.js';
import type { Run } from '../command.js';
import { renderBackfill } from '../output/backfillPage.js';

/** Ranges that are running must end first. */
const COMMAND_TIMEOUT_MS = 30_000;

/**
 * Sends a command to the running daemon of this data directory; `undefined` when none runs there. Expected errors:
 * OperatorError (the daemon's refusal; `no_daemon` when it does not answer).
 */
async function commandDaemon({ config }: LoadedConfig, command: unknown): Promise<unknown> {
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

/** `backfill`: shows or changes what history is filled in, by a running daemon or in a store at rest. */
export const backfill: Run<typeof backfillFlags> = async (invocation, terminal) => {
  const flags = invocation.flags;
  const { json, now } = flags;
  const loaded = await configOf(invocation, terminal);
  const [action, plan] = invocation.positionals;
  if (action === undefined || action === 'status') {
    const status = await statusOf(loaded);
    terminal.out(json ? `${JSON.stringify(status)}\n` : renderBackfill(status));
    return 'done';
  }
  if (action === 'kill') {
    const told = await killWorkersOf(loaded.config, workerOf(plan), now ? 'release' : 'finish');
    const how = now ? 'releases its ranges' : 'finishes its ranges';
    terminal.out(
      json ? `${JSON.stringify({ told })}\n` : `Told ${told} of the workers to end: each ${how} first.\n`,
    );
    return 'done';
  }
  if (now) throw usage('--now is only for backfill kill.');
  const command = commandOf(action, plan, flags);
  const outcome = await obeyed(loaded, command);
  terminal.out(json ? `${JSON.stringify(outcome)}\n` : `${sentenceOf(command, outcome)}\n`);
  return 'done';
};

async function statusOf(loaded: LoadedConfig): Promise<BackfillStatus> {
  const answer = await askDaemon(loaded, '/status');
  if (answer !== undefined) return (answer.body as StatusDocument).backfill;
  if (namesDaemonAddress(loaded)) throw noDaemon(loaded);
  const { backfillOf } = await loadStores();
  return backfillOf(loaded.config);
}

/** Expected errors: OperatorError. */
async function obeyed(loaded: LoadedConfig, command: BackfillCommand): Promise<BackfillOutcome> {
  if (namesDaemonAddress(loaded))
    throw wrongUse(
      'Commands that change something go through the data directory, on the machine of the daemon: name it with ' +
        '--data-dir instead of --api-host and --api-port.',
    );
  const told = await commandDaemon(loaded, command);
  if (told !== undefined) return told as BackfillOutcome;
  const { commandStore } = await loadStores();
  return commandStore(loaded.config, command);
}

/** Expected errors: OperatorError. */
function workerOf(given: string | undefined): string {
  if (given === undefined)
    throw usage('Say which worker: the beginning of its id, as "workers" lists it, or all.');
  if (given !== 'all' && !/^[0-9a-f][0-9a-f-]*$/.test(given))
    throw usage(`${quoted(given)} is not the beginning of the id of a worker: "workers" lists them.`);
  return given;
}

type BackfillFlags = ValuesOf<typeof backfillFlags>;

function commandOf(action: string, plan: string | undefined, flags: BackfillFlags): BackfillCommand {
  if (action === 'plan') {
    if (plan !== undefined)
      throw usage(`backfill plan takes its heights from --from and --to, not ${quoted(plan)}.`);
    return { do: 'plan', heights: heightsOf(flags), order: flags.oldest ? 'oldest' : 'newest' };
  }
  const { from, to, everything, newest, oldest } = flags;
  if (from !== null || to !== null || everything || newest || oldest)
    throw usage('--from, --to, --everything, --newest and --oldest are only for backfill plan.');
  if (action === 'redrive') {
    if (plan !== undefined)
      throw usage('backfill redrive takes no plan: it runs every disputed range again.');
    return { do: 'redrive' };
  }
  if (action !== 'pause' && action !== 'resume' && action !== 'cancel')
    throw usage(`There is no backfill ${quoted(action)}.`);
  if (plan === undefined) return { do: action };
  if (!/^\d{1,9}$/.test(plan))
    throw usage(`${quoted(plan)} is not the number of a plan: backfill status lists them.`);
  return { do: action, plan: Number(plan) };
}

function heightsOf({ from, to, everything, newest, oldest }: BackfillFlags): string {
  if (newest && oldest) throw usage('--newest and --oldest contradict each other.');
  if (everything === (from !== null)) {
    throw usage('Say where the plan begins: --from H, --from root, --from spork:NAME, or --everything.');
  }
  const text = `${from ?? 'everything'}${to === null ? '' : `..${to}`}`;
  const read = readHeightsToFill(text);
  if (read === undefined || (from !== null && (from === 'everything' || from.includes('..')))) {
    throw usage(`--from takes a height, root or spork:NAME, not ${quoted(from ?? '')}.`);
  }
  return text;
}

function sentenceOf(command: BackfillCommand, { plan, redriven = 0 }: BackfillOutcome): string {
  if (command.do === 'plan' && plan !== undefined) {
    const { id, from, to, order } = plan;
    return `Plan ${id}: heights ${from} to ${to}, ${formatCount(to - from + 1)} in all, ${order} first. "backfill status" shows its progress.`;
  }
  if (command.do === 'redrive') {
    return redriven === 0 ? 'No range is disputed.' : `${redriven} disputed ranges run again.`;
  }
  const which = 'plan' in command ? `Plan ${command.plan}` : 'Every plan';
  if (command.do === 'cancel') return `${which} is cancelled. What was filled in stays.`;
  return `${which} is ${command.do === 'pause' ? 'paused' : 'resumed'}.`;
}

function usage(message: string): OperatorError {
  return wrongUse(`${message} See flow-collection-indexer backfill --help.`);
}

/** `workers`: the processes that share a database. */
export const workers: Run<typeof workersFlags> = async (invocation, terminal) => {
  const { json } = invocation.flags;
  const { config } = await configOf(invocation, terminal);
  const found = await workersOf(config);
  const lines = found.length === 0 ? ['No process has used this database yet.'] : found.map(workerLine);
  terminal.out(json ? `${JSON.stringify(found)}\n` : `${lines.join('\n')}\n`);
  return 'done';
};

/** A process that shares the database, for people. */
function workerLine(worker: Awaited<ReturnType<typeof workersOf>>[number]): string {
  const { id, host, pid, version, workVersion, roles, busyWith, beatAgeMs, isAlive, kill, leads, state } =
    worker;
  const ranges = busyWith.map(({ from, to }) => `${formatCount(from)} to ${formatCount(to)}`);
  const facts = [
    `${id} ${host}:${pid}`,
    `version ${version} (work ${workVersion})`,
    roles.join(','),
    isAlive || state === 'stopped' ? state : 'dead',
    leads && 'leads',
    ranges.length > 0 && `fills ${ranges.join(' and ')}`,
    `last beat ${formatDuration(beatAgeMs / 1_000)} ago`,
    kill !== undefined && 'told to end',
  ];
  return facts.filter((fact) => fact !== false).join(', ');
}
