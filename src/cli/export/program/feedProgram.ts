import { formatCount, formatDuration } from '../../../observability/index.js';
import { doublingMs, OperatorError, sleep, systemClock, wasAborted } from '../../../runtime/index.js';
import { Feeding } from './Feeding.js';
import type { FeedParts, FeedPlan } from './Feeding.js';
import { SinkProgram } from './SinkProgram.js';

/** Ends in a row without an acknowledgement, before it is given up. */
const MAX_FAILURES = 8;
const BACKOFF = { minMs: 500, maxMs: 30_000 };
/** How long the program of an export that was killed is waited for. */
const PROGRAM_BEFORE_MS = 10_000;
const LOOK_MS = 100;

/**
 * Feeds a program from behind what it has acknowledged, and starts it again when it ends. Resolves when everything up to `to` is
 * acknowledged, or the signal aborts. Expected errors: those of the source; OperatorError (`program`; `usage`: it cannot be run;
 * `storage`; `foreign`: the index has other blocks than the program was ever given).
 */
export async function feedProgram(plan: FeedPlan, parts: FeedParts): Promise<void> {
  const { command, cursor, say, signal } = parts;
  await programBefore(parts);
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
      say(`The program ${outcome}. It is started again in ${formatDuration(delayMs / 1_000)}.`);
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

/** Two programs at once would do the same heights twice. */
async function programBefore({ cursor, say, signal }: FeedParts): Promise<void> {
  const pid = cursor.programBefore;
  if (pid === undefined) return;
  for (let waitedMs = 0; isAlive(pid); waitedMs += LOOK_MS) {
    if (waitedMs === 0)
      say(`The program of the export before, process ${pid}, still runs: its end is waited for.`);
    if (waitedMs >= PROGRAM_BEFORE_MS) {
      say(`Process ${pid} goes on. It is taken for another one by now; should it be the program, end it.`);
      return;
    }
    await sleep(systemClock, LOOK_MS, signal);
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
    `The program ${outcome}, for the ${formatCount(MAX_FAILURES)}th time without acknowledging anything. Mend it; the same command ` +
      'goes on behind the last acknowledged height.',
  );
}
