import { rmSync } from 'node:fs';
import { expect } from 'vitest';
import { runProgram, storeFlags, storePath } from '../support/index.js';
import { RunningDaemon } from '../support/runningDaemon.js';
import { rangesInWords } from '../../src/storage/index.js';
import type { Result } from './scenario.js';
import { KILLED, type Stage } from './stage.js';

/** A refusal is one readable line, without a stack trace. */
export function expectRefusal(stderr: string, ...says: readonly RegExp[]): void {
  expect(stderr.trimEnd().split('\n'), stderr).toHaveLength(1);
  expect(stderr).not.toMatch(/\n {4}at |\.[jt]s:\d+:\d+/);
  for (const what of says) expect(stderr).toMatch(what);
}

/** Starts the daemon after damage, and where it refuses, does what it says. `names`: what a refusal must name. */
export async function fix(stage: Stage, dataDir: string, names: RegExp): Promise<Result> {
  const started = await stage.startAlone(dataDir);
  if (started instanceof RunningDaemon) {
    // By then it has looked at everything by itself.
    await started.scrapeUntil((metrics) => metrics.series('store_last_scrub_timestamp_seconds').length > 0);
    const { watermark, refused } = await stage.askEverything(started);
    expect(await started.program.stop()).toBe(0);
    // What is missing above the watermark was lost with the log, which LevelDB does not tell.
    const gone = started.program
      .logs()
      .find(({ msg }) => String(msg).startsWith('heights that were durable are gone'));
    const lost =
      watermark < KILLED ? { heights: rangesInWords([{ from: watermark + 1, to: KILLED }]) } : undefined;
    if (lost === undefined) expect(gone).toBeUndefined();
    else expect(gone).toMatchObject(lost);
    const wentOnFrom = await stage.goesOn(dataDir, { isHealed: refused > 0 });
    expect(wentOnFrom).toBe(watermark);
    if (refused > 0)
      return { outcome: 'healed', exitCode: 0, wentOnFrom, remark: `${refused} answers of 503, none wrong` };
    return { outcome: watermark === KILLED ? 'unharmed' : 'rolled back', exitCode: 0, wentOnFrom };
  }
  const exitCode = await started.exited;
  expect(exitCode, started.stderr).toBe(74);
  expectRefusal(started.stderr, names, /Run "verify".*"repair --yes"/);
  return repair(stage, dataDir, names, exitCode);
}

/** `verify` names the damage, and `repair` mends it, or says that nothing can be kept. */
async function repair(
  stage: Stage,
  dataDir: string,
  names: RegExp,
  exitCode: number | string,
): Promise<Result> {
  const verified = await runProgram(['verify', ...storeFlags(dataDir)]);
  expect(verified, verified.stderr).toMatchObject({ code: 65 });
  expect(verified.stdout).toMatch(names);
  const plan = await runProgram(['repair', ...storeFlags(dataDir)]);
  const repaired = await runProgram(['repair', ...storeFlags(dataDir), '--yes']);
  if (repaired.code === 74) {
    expect(plan).toMatchObject({ code: 74 });
    expectRefusal(repaired.stderr, /cannot be repaired.*move it away and start again/);
    rmSync(storePath(dataDir), { recursive: true });
    return { outcome: 'refused, begun anew', exitCode, wentOnFrom: await stage.goesOn(dataDir) };
  }
  expect(plan, plan.stderr).toMatchObject({ code: 65 });
  expect(repaired, repaired.stderr).toMatchObject({ code: 0 });
  const wentOnFrom = await stage.goesOn(dataDir);
  expect(repaired.stdout).toContain(`The daemon goes on at ${wentOnFrom + 1}`);
  return { outcome: 'refused, repaired', exitCode, wentOnFrom };
}
