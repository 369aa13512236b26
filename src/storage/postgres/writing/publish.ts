import { BorderError } from '../../port/BorderError.js';
import type { BackfillPlan } from '../../port/RangeBook.js';
import type { HeightRange, SporkRecord, StoreMeta } from '../../port/stored.js';
import { isConfirmedRoot } from '../../records/book/applyCommit.js';
import { contains, without } from '../../records/heightRanges.js';
import type { Session } from '../connection/Session.js';
import {
  lockStore,
  readCoverage,
  readHeads,
  readPlans,
  readSporks,
  writePlans,
  writeSporks,
} from '../tables/readState.js';

/** The state of the store after a range was published. */
export interface Published {
  /** Ascending; the last one is the live range. */
  readonly coverage: readonly HeightRange[];
  readonly sporks: readonly SporkRecord[];
  readonly plans: readonly BackfillPlan[];
}

/**
 * Makes a complete open range part of the coverage, joined with the ranges that it touches. Expected errors: those of the
 * session; `BorderError`.
 */
export async function publish(
  session: Session,
  range: HeightRange,
  sporks: readonly SporkRecord[],
): Promise<Published> {
  const { from, to } = range;
  // One publication at a time, in whatever process.
  await lockStore(session);
  const covered = await readCoverage(session, 'FOR UPDATE');
  const lowest = covered.find((each) => each.to === from - 1)?.from ?? from;
  const upper = covered.find((each) => each.from === to + 1);
  await writeSporks(session, sporks);
  const known = await readSporks(session);
  await checkBorders(session, range, { sporks: known });
  await session.query({ text: 'DELETE FROM flow_store.coverage WHERE from_height = $1', values: [lowest] });
  // The upper neighbour keeps its row: it may be the live range, whose writer finds it by its upper end.
  await session.query(
    upper === undefined
      ? { text: 'INSERT INTO flow_store.coverage VALUES ($1, $2)', values: [lowest, to] }
      : {
          text: 'UPDATE flow_store.coverage SET from_height = $1 WHERE from_height = $2',
          values: [lowest, upper.from],
        },
  );
  await session.query({ text: 'DELETE FROM flow_store.open_range WHERE from_height = $1', values: [from] });
  const coverage = await readCoverage(session);
  return { coverage, sporks: known, plans: await removeDonePlans(session, coverage) };
}

/**
 * Checks that a range's first and last block, if stored, link to the covered blocks next to them. Expected errors: those
 * of the session; `BorderError`.
 */
export async function checkBorders(
  session: Session,
  { from, to }: HeightRange,
  known: Pick<StoreMeta, 'sporks'>,
): Promise<void> {
  const covered = await readCoverage(session);
  for (const lowerHeight of [from - 1, to]) {
    const neighbour = lowerHeight === to ? to + 1 : lowerHeight;
    if (!contains(covered, neighbour)) continue;
    const [lower, upper] = await readHeads(session, lowerHeight, lowerHeight + 1);
    if (lower === undefined || upper === undefined || upper.parentId === lower.id) continue;
    if (!isConfirmedRoot(upper, known)) throw new BorderError(upper, lower);
  }
}

/** Removes the plans whose heights are all covered; returns the others. */
async function removeDonePlans(session: Session, coverage: readonly HeightRange[]): Promise<BackfillPlan[]> {
  const plans = await readPlans(session);
  const left = withHoles(plans, coverage);
  if (left.length < plans.length) await writePlans(session, left);
  return left;
}

/** Plans with an uncovered height below the live range; the live range grows over the heights above it. */
export function withHoles(plans: readonly BackfillPlan[], coverage: readonly HeightRange[]): BackfillPlan[] {
  const firstHeight = coverage.at(-1)?.from ?? 0;
  return plans.filter(
    ({ from, to }) => without([{ from, to: Math.min(to, firstHeight - 1) }], coverage).length > 0,
  );
}
