import { BorderError } from '../BorderError.js';
import type { BackfillPlan, BlockHead, HeightRange, SporkRecord } from '../IndexStore.js';
import { isVouchedRoot } from '../records/applyCommit.js';
import type { Session } from './PostgresDatabase.js';
import { readCoverage, readHeads, readPlans, readSporks, writePlans, writeSporks } from './readState.js';

/** What is true once a range is published. */
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
  // One publication at a time, whoever publishes.
  await session.query({ text: 'SELECT FROM flow_store.store FOR UPDATE' });
  const covered = await readCoverage(session, 'FOR UPDATE');
  const lower = covered.find((each) => each.to === from - 1);
  const upper = covered.find((each) => each.from === to + 1);
  await writeSporks(session, sporks);
  const known = { sporks: await readSporks(session) };
  if (lower !== undefined) checkBorder(await readHeads(session, from - 1, from), known);
  if (upper !== undefined) checkBorder(await readHeads(session, to, to + 1), known);
  await join(session, range, { lower, upper });
  await session.query({ text: 'DELETE FROM flow_store.open_range WHERE from_height = $1', values: [from] });
  const coverage = await readCoverage(session);
  return { coverage, sporks: known.sporks, plans: await withoutDone(session, coverage) };
}

/** The upper neighbour keeps its row: it may be the live range, whose writer looks for its upper end. */
async function join(
  session: Session,
  { from, to }: HeightRange,
  { lower, upper }: { readonly lower: HeightRange | undefined; readonly upper: HeightRange | undefined },
): Promise<void> {
  if (upper !== undefined) {
    if (lower !== undefined) {
      await session.query({
        text: 'DELETE FROM flow_store.coverage WHERE from_height = $1',
        values: [lower.from],
      });
    }
    await session.query({
      text: 'UPDATE flow_store.coverage SET from_height = $1 WHERE from_height = $2',
      values: [lower?.from ?? from, upper.from],
    });
  } else if (lower !== undefined) {
    await session.query({
      text: 'UPDATE flow_store.coverage SET to_height = $1 WHERE from_height = $2',
      values: [to, lower.from],
    });
  } else {
    await session.query({ text: 'INSERT INTO flow_store.coverage VALUES ($1, $2)', values: [from, to] });
  }
}

function checkBorder(
  [lower, upper]: readonly BlockHead[],
  known: { readonly sporks: readonly SporkRecord[] },
): void {
  if (lower === undefined || upper === undefined) throw new Error('a covered block has no row');
  if (upper.parentId !== lower.id && !isVouchedRoot(upper, known)) throw new BorderError(upper, lower);
}

/** Removes the plans that are covered. */
async function withoutDone(session: Session, coverage: readonly HeightRange[]): Promise<BackfillPlan[]> {
  const plans = await readPlans(session);
  const left = withHoles(plans, coverage);
  if (left.length < plans.length) await writePlans(session, left);
  return left;
}

/** Plans with a height that is not covered. */
export function withHoles(plans: readonly BackfillPlan[], coverage: readonly HeightRange[]): BackfillPlan[] {
  return plans.filter(({ from, to }) => !coverage.some((range) => range.from <= from && range.to >= to));
}
