import { OperatorError, abortReason, isAbort, sleep, systemClock } from '../../runtime/index.js';
import type { ExportOutput } from './exportFile.js';
import type { ExportProgress } from './ExportProgress.js';
import type { ExportSource, Page } from './ExportSource.js';
import { firstBlockOf } from './ExportTally.js';
import type { BlockPlace, ExportTally } from './ExportTally.js';

/** Between two looks for a height that is not there yet, or for a daemon that has gone. */
const LOOK_AGAIN_MS = 500;
/** Before a daemon that is busy is asked again. */
const BUSY_MS = 1_000;

export interface ExportPlan {
  readonly from: number;
  /** `Number.MAX_SAFE_INTEGER` for no end. */
  readonly to: number;
  /** Heights that are not indexed yet, and a daemon that has gone, are waited for; a signal ends it as it should end. */
  readonly follow: boolean;
}

export interface ExportParts {
  readonly source: ExportSource;
  readonly output: ExportOutput;
  /** What was written already. */
  readonly tally: ExportTally;
  readonly progress: ExportProgress;
  readonly signal: AbortSignal;
  /** What to say when the daemon has gone. */
  readonly gone: () => OperatorError;
}

/**
 * Writes blocks from where `tally` ends until `to`, page by page: while one is being written, the next one is fetched, and no
 * further one is, however slow the reader. Resolves with false when nobody reads any more. Expected errors: OperatorError
 * (`not_found`, `no_daemon`, `storage`; `foreign` when the source has other blocks than those that were written); the
 * signal's abort reason, but not with `follow`.
 */
export async function runExport(plan: ExportPlan, parts: ExportParts): Promise<boolean> {
  const { output, tally, progress, signal } = parts;
  try {
    let next = tally.last === undefined ? plan.from : tally.last.height + 1;
    let asked = next <= plan.to ? ask(next, plan, parts) : undefined;
    while (asked !== undefined) {
      const lines = await asked;
      await checkContinues(lines, plan, parts);
      tally.add(lines);
      next = (tally.last?.height ?? next) + 1;
      asked = next <= plan.to ? ask(next, plan, parts) : undefined;
      if (!(await written(output.write(lines), plan, signal))) return false;
      progress.at(next - 1, tally);
    }
    return true;
  } catch (error) {
    if (plan.follow && signal.aborted && isAbort(error)) return true;
    throw signal.aborted && isAbort(error) ? abortReason(signal) : error;
  }
}

/** A reader that takes nothing any more does not hold up the end. With `follow` there is a closing line to come behind it. */
function written(taken: Promise<boolean>, { follow }: ExportPlan, signal: AbortSignal): Promise<boolean> {
  if (follow) return taken;
  return new Promise((resolve, reject) => {
    const onAbort = (): void => reject(abortReason(signal));
    if (signal.aborted) onAbort();
    signal.addEventListener('abort', onAbort, { once: true });
    taken.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort));
  });
}

/** The page that begins at a height, however long it has to be waited for. */
function ask(height: number, plan: ExportPlan, parts: ExportParts): Promise<Buffer> {
  const asked = askUntilAnswered(height, plan, parts);
  // It may fail while the page before it is still being written.
  asked.catch(() => undefined);
  return asked;
}

async function askUntilAnswered(height: number, plan: ExportPlan, parts: ExportParts): Promise<Buffer> {
  const { source, signal, progress } = parts;
  for (;;) {
    const page = await source.page({ from: height, to: plan.to }, signal);
    if (page.kind === 'page') {
      progress.answered();
      return page.lines;
    }
    await waitFor(page, height, plan, parts);
  }
}

async function waitFor(
  { kind }: Exclude<Page, { kind: 'page' }>,
  height: number,
  { follow }: ExportPlan,
  { signal, progress, gone }: ExportParts,
): Promise<void> {
  if (kind === 'busy') return sleep(systemClock, BUSY_MS, signal);
  if (kind === 'gone') {
    if (!follow) throw gone();
    progress.gone();
  } else {
    progress.answered();
    if (!follow) throw new OperatorError('not_found', `Height ${height} is not indexed any more.`);
  }
  return sleep(systemClock, LOOK_AGAIN_MS, signal);
}

/**
 * The first block of a page names the last one written as its parent. At the root of a spork it need not: then the height of
 * the last one is asked for again.
 */
async function checkContinues(lines: Buffer, plan: ExportPlan, parts: ExportParts): Promise<void> {
  const { last } = parts.tally;
  if (last === undefined || firstBlockOf(lines).parentId === last.id) return;
  await checkSame(last, plan, parts);
}

/** The source has this very block. Expected errors: as `runExport`. */
export async function checkSame(last: BlockPlace, plan: ExportPlan, parts: ExportParts): Promise<void> {
  const lines = await ask(last.height, { ...plan, to: last.height }, parts);
  if (firstBlockOf(lines).id === last.id) return;
  throw new OperatorError(
    'foreign',
    `The export holds block ${last.id} at height ${last.height}, and the index has another one there: it is of another chain, ` +
      'or was rewound since. Begin a new export.',
  );
}
