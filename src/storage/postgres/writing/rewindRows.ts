import { ok as assert } from 'node:assert/strict';
import type { HeightRange } from '../../port/stored.js';
import { rewindRefusal } from '../../records/book/rewoundBook.js';
import { joined, upTo } from '../../records/heightRanges.js';
import type { Session } from '../connection/Session.js';
import { readCoverage, readPlans, writePlans } from '../tables/readState.js';
import { deleteBlocks } from './BlockLine.js';
import { withHoles } from './publish.js';

/** The result of a rewind. */
interface Rewound {
  readonly live: HeightRange;
  /** Everything above goes, plans included. */
  readonly target: number;
}

/** Expected errors: `OperatorError` (`usage`). */
export function rewound(
  { published, live }: { readonly published: readonly HeightRange[]; readonly live: HeightRange },
  height: number,
): Rewound {
  const isHeight = Number.isSafeInteger(height);
  if (isHeight && (height >= live.from || (height === live.from - 1 && published.length === 0))) {
    return { live: { from: live.from, to: Math.min(live.to, height) }, target: height };
  }
  const last = isHeight ? upTo(published, height).at(-1) : undefined;
  if (last !== undefined) return { live: last, target: last.to };
  throw rewindRefusal({ coverage: joined([...published, live]), firstHeight: live.from }, height);
}

/** Call it in a write of the leader, while nobody publishes. Expected errors: those of the session; those of `rewound`. */
export async function forgetAbove(session: Session, height: number): Promise<void> {
  const before = await readCoverage(session);
  const whole = before.at(-1);
  assert(whole !== undefined, 'the store is not initialised');
  const { live, target } = rewound({ published: before.slice(0, -1), live: whole }, height);
  await deleteBlocks(session, live.to + 1, Number.MAX_SAFE_INTEGER);
  await session.query({
    text: 'DELETE FROM flow_store.coverage WHERE from_height > $1',
    values: [live.from],
  });
  await session.query({
    text: 'UPDATE flow_store.coverage SET to_height = $2 WHERE from_height = $1',
    values: [live.from, live.to],
  });
  await session.query({
    text: 'DELETE FROM flow_store.open_range WHERE from_height > $1',
    values: [live.from],
  });
  await session.query({
    text: `UPDATE flow_store.unproven SET heights = heights * int8multirange(int8range(NULL, $1, '[]'))`,
    values: [target],
  });
  await session.query({ text: 'DELETE FROM flow_store.evidence WHERE height > $1', values: [target] });
  await session.query({ text: 'UPDATE flow_store.proven SET height = least(height, $1)', values: [target] });
  // A spork whose root is removed will be recorded again; the first one stays.
  await session.query({
    text: `DELETE FROM flow_store.spork WHERE root_height > $1`,
    values: [Math.max(target, live.from)],
  });
  const plans = (await readPlans(session))
    .filter(({ from }) => from <= target)
    .map((plan) => ({ ...plan, to: Math.min(plan.to, target) }));
  await writePlans(session, withHoles(plans, await readCoverage(session)));
}
