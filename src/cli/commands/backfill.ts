import { existsSync } from 'node:fs';
import { connect } from 'node:net';
import { basename, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { killWorkersOf, loadStores, workersOf } from '../../app/index.js';
import type { BackfillCommand, BackfillOutcome, ControlAnswer } from '../../app/index.js';
import { readHeightsToFill, type LoadedConfig, type ValuesOf } from '../../config/index.js';
import { formatCount, formatDuration } from '../../observability/index.js';
import { OperatorError, quoted, type ExitReason } from '../../runtime/index.js';
import { backfillActions, type backfillFlags, type workersFlags } from '../arguments/flags.js';
import { configOf } from '../arguments/settings.js';
import { daemonStatus, namesDaemonAddress, recordOf, unserved } from '../client/askDaemon.js';
import { wrongUse, type Run } from '../command.js';
import { renderBackfill } from '../output/backfillPage.js';

/** Ranges that are running must end first. */
const COMMAND_TIMEOUT_MS = 30_000;

export const backfill: Run<typeof backfillFlags> = async (invocation, terminal) => {
  const { flags, positionals } = invocation;
  const loaded = await configOf(invocation, terminal);
  const [word, plan] = positionals;
  const action = backfillActions.find((name) => name === word) ?? 'status';
  const show = (value: unknown, text: string): ExitReason => {
    terminal.out(flags.json ? `${JSON.stringify(value)}\n` : text);
    return 'done';
  };
  if (action === 'status') {
    const daemon = await daemonStatus(loaded, { needs: ['backfill'] });
    const status =
      daemon?.backfill ?? (await unserved(loaded, ({ backfillOf }) => backfillOf(loaded.config)));
    return show(status, renderBackfill(status));
  }
  if (action === 'kill') {
    const worker = plan ?? '';
    refuseIf(worker === '', 'Say which worker: the beginning of its id, as "workers" lists it, or all.');
    const isId = worker === 'all' || /^[0-9a-f][0-9a-f-]*$/.test(worker);
    refuseIf(!isId, `${quoted(worker)} is not the beginning of the id of a worker: "workers" lists them.`);
    const count = await killWorkersOf(loaded.config, worker);
    return show({ told: count }, `Told ${count} of the workers to end: each gives its ranges back first.\n`);
  }
  const command = commandOf(action, plan, flags);
  const outcome = await obeyed(loaded, command);
  return show(outcome, `${sentenceOf(command, outcome)}\n`);
};

/**
 * Runs a command in the daemon of this data directory or, if none runs, on the store. Expected errors: OperatorError (its
 * refusal; `no_daemon` when it does not answer).
 */
async function obeyed(loaded: LoadedConfig, command: BackfillCommand): Promise<BackfillOutcome> {
  const { config } = loaded;
  if (namesDaemonAddress(loaded))
    throw wrongUse(
      'Commands that change something go through the data directory, on the machine of the daemon: name it with ' +
        '--data-dir instead of --api-host and --api-port.',
    );
  const { control } = recordOf(config) ?? {};
  // Another container may have the directory of the daemon at another path.
  const beside = join(config.dataDir, basename(control ?? ''));
  const line =
    control === undefined
      ? 'no_listener'
      : await exchanged(existsSync(beside) ? beside : control, `${JSON.stringify(command)}\n`);
  // The record may be of a daemon that was killed.
  if (line === 'no_listener') return (await loadStores()).commandStore(config, command);
  if (line === undefined)
    throw new OperatorError(
      'no_daemon',
      `The daemon of ${config.dataDir} does not say whether that is done: it hangs, or has just ended. It may still do it, so look at ` +
        '"backfill status" before you try again. Its log says more.',
    );
  const answer = JSON.parse(line) as ControlAnswer;
  if ('refused' in answer) throw new OperatorError(answer.refused.exit, answer.refused.message);
  return answer.done as BackfillOutcome;
}

/** Sends one line and returns the answer; `no_listener`: nothing listens there; `undefined`: no answer. */
async function exchanged(path: string, line: string): Promise<string | undefined> {
  const socket = connect({ path }, () => socket.write(line));
  socket.setTimeout(COMMAND_TIMEOUT_MS, () => socket.destroy());
  const answer = await text(socket).catch(() => '');
  if (answer.endsWith('\n')) return answer;
  return socket.bytesWritten > 0 ? undefined : 'no_listener';
}

/** Expected errors: OperatorError `usage`. */
function refuseIf(isWrong: boolean, message: string): void {
  if (isWrong) throw wrongUse(`${message} See flow-collection-indexer backfill --help.`);
}

function commandOf(
  action: Exclude<(typeof backfillActions)[number], 'status' | 'kill'>,
  plan: string | undefined,
  { everything, from, newest, oldest, to }: ValuesOf<typeof backfillFlags>,
): BackfillCommand {
  const given = quoted(plan ?? '');
  if (action === 'plan') {
    const heights = `${from ?? 'everything'}${to === null ? '' : `..${to}`}`;
    const isRange = from === 'everything' || from?.includes('..') === true;
    const isWrong = isRange || readHeightsToFill(heights) === undefined;
    refuseIf(plan !== undefined, `backfill plan takes its heights from --from and --to, not ${given}.`);
    refuseIf(newest && oldest, '--newest and --oldest contradict each other.');
    refuseIf(
      everything === (from !== null),
      'Say where the plan begins: --from H, --from root, --from spork:NAME, or --everything.',
    );
    refuseIf(isWrong, `--from takes a height, root or spork:NAME, not ${quoted(from ?? '')}.`);
    return { do: 'plan', heights, order: oldest ? 'oldest' : 'newest' };
  }
  const isPlanned = from !== null || to !== null || everything || newest || oldest;
  refuseIf(isPlanned, '--from, --to, --everything, --newest and --oldest are only for backfill plan.');
  if (action === 'redrive') {
    refuseIf(plan !== undefined, 'backfill redrive takes no plan: it runs every disputed range again.');
    return { do: 'redrive' };
  }
  if (plan === undefined) return { do: action };
  refuseIf(!/^\d{1,9}$/.test(plan), `${given} is not the number of a plan: backfill status lists them.`);
  return { do: action, plan: Number(plan) };
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

export const workers: Run<typeof workersFlags> = async (invocation, terminal) => {
  const { json } = invocation.flags;
  const { config } = await configOf(invocation, terminal);
  const found = await workersOf(config);
  const lines = found.length === 0 ? ['No process has used this database yet.'] : found.map(workerLine);
  terminal.out(json ? `${JSON.stringify(found)}\n` : `${lines.join('\n')}\n`);
  return 'done';
};

function workerLine(worker: Awaited<ReturnType<typeof workersOf>>[number]): string {
  const { id, host, pid, version, workVersion, roles, busyWith, beatAgeMs } = worker;
  const { isAlive, isAskedToEnd, leads, state } = worker;
  const ranges = busyWith.map(({ from, to }) => `${formatCount(from)} to ${formatCount(to)}`);
  const facts = [
    `${id} ${host}:${pid}`,
    `version ${version} (work ${workVersion})`,
    roles.join(','),
    isAlive || state === 'stopped' ? state : 'dead',
    leads && 'leads',
    ranges.length > 0 && `fills ${ranges.join(' and ')}`,
    `last beat ${formatDuration(beatAgeMs / 1_000)} ago`,
    isAskedToEnd && 'told to end',
  ];
  return facts.filter((fact) => fact !== false).join(', ');
}
