import { formatCount, formatDuration } from '../../../observability/index.js';
import { doublingMs, OperatorError, sleep, systemClock, wasAborted } from '../../../runtime/index.js';
import { Feeding } from './Feeding.js';
import type { FeedParts, FeedPlan } from './Feeding.js';
import { SinkProgram } from './SinkProgram.js';

/** How often the program may end in a row without acknowledging anything. */
const MAX_FAILURES = 8;
const BACKOFF = { minMs: 500, maxMs: 30_000 };
/** How long to wait for the program of a killed export to end. */
const PREVIOUS_PROGRAM_MS = 10_000;
const POLL_MS = 100;

/**
 * Feeds a program everything after what it has acknowledged, and restarts it when it ends. Resolves when everything up to `to` is
 * acknowledged, or the signal aborts. Expected errors: those of the source; OperatorError (`program`; `usage`: it cannot be run;
 * `storage`; `foreign`: the index has none of the blocks that the program was given).
 */
export async function feedProgram(plan: FeedPlan, parts: FeedParts): Promise<void> {
  const { command, cursor, say, signal } = parts;
  await previousEnded(parts);
  for (let failures = 0; ;) {
    const feeding = new Feeding(plan, parts);
    const program = await SinkProgram.start(command, (line) => feeding.acknowledge(line));
    try {
      await cursor.begin(program.pid);
      const outcome = await feeding.run(program);
      if (outcome === 'done') {
        await program.end();
        return;
      }
      failures = feeding.hasAcknowledged ? 1 : failures + 1;
      if (failures >= MAX_FAILURES) throw givenUp(outcome);
      const delayMs = doublingMs(BACKOFF, failures - 1);
      say(`The program ${outcome}. It will be restarted in ${formatDuration(delayMs / 1_000)}.`);
      await sleep(systemClock, delayMs, signal);
    } catch (error) {
      if (!wasAborted(error, signal)) {
        await program.kill();
        throw error;
      }
      await program.end();
      feeding.check();
      return;
    } finally {
      await cursor.save();
    }
  }
}

/** Waits for the previous export's program: two at once would do the same heights twice. */
async function previousEnded({ cursor, say, signal }: FeedParts): Promise<void> {
  const pid = cursor.previousPid;
  if (pid === undefined) return;
  for (let waitedMs = 0; isAlive(pid); waitedMs += POLL_MS) {
    if (waitedMs === 0)
      say(`The program of the previous export, process ${pid}, still runs. Waiting for it to end.`);
    if (waitedMs >= PREVIOUS_PROGRAM_MS) {
      say(`Process ${pid} still runs and is assumed to be another program by now. If it is not, end it.`);
      return;
    }
    await sleep(systemClock, POLL_MS, signal);
  }
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

function givenUp(outcome: string): OperatorError {
  return new OperatorError(
    'program',
    `The program ${outcome}, for the ${formatCount(MAX_FAILURES)}th time without acknowledging anything. Fix it; the same command ` +
      'then continues after the last acknowledged height.',
  );
}
