import type { VNode } from 'preact';
import { count, duration, heights, many, percent, amount } from '../format.js';
import { Legend, Panel } from '../parts/Panel.js';
import { sentence } from '../sentence.js';
import { chainOf, segmentKinds, segmentsOf } from './segments.js';
import type { Segment, SegmentKind } from './segments.js';
import { Strip } from '../parts/Strip.js';
import type { FilledRange, Status } from '../types.js';

const NAMES: Readonly<Record<SegmentKind, string>> = {
  indexed: 'indexed',
  next: 'to be indexed up to the head',
  filling: 'being filled in',
  begun: 'begun, waiting its turn',
  failed: 'failed, to be tried again',
  disputed: 'disputed at its borders',
  planned: 'planned',
  unserved: 'planned, but not served by any known node',
  missing: 'not indexed, not planned',
};

/** Ranges shown one by one; the strip shows all. */
const MAX_RANGES = 8;

/** The whole chain as one strip, and the ranges that are being filled in. */
export function CoveragePanel({ status }: { readonly status: Status }): VNode {
  const { backfill, coverage } = status;
  const chain = chainOf(status);
  const segments = segmentsOf(status);
  const used = segmentKinds.filter((kind) => segments.some((segment) => segment.kind === kind));
  return (
    <Panel title="Coverage of the chain" summary={summaryOf(status)}>
      {chain === undefined ? (
        <p class="dim">Nothing to draw yet: neither the chain’s first height nor its head is known.</p>
      ) : (
        <Strip
          label={`Coverage of heights ${count(chain.from)} to ${count(chain.to)}`}
          look="coverage"
          hint="Point at the strip, or use the arrow keys on it, to see what a stretch is."
          items={segments.map((segment) => ({
            key: `${segment.from}-${segment.kind}`,
            look: `segment ${segment.kind}`,
            label: labelOf(segment),
            style: placeOf(segment, chain),
          }))}
          ends={[count(chain.from), count(chain.to)]}
        >
          <Legend items={used.map((kind) => [kind, NAMES[kind]])} />
        </Strip>
      )}
      {backfill.heldBack === null ? null : <p class="dim below">{sentence(backfill.heldBack.message)}</p>}
      {backfill.ranges.length === 0 ? null : (
        <ul class="ranges">
          {backfill.ranges.slice(0, MAX_RANGES).map((range) => (
            <Range key={range.from} range={range} />
          ))}
        </ul>
      )}
      {backfill.ranges.length > MAX_RANGES ? (
        <p class="dim">And {many(backfill.ranges.length - MAX_RANGES, 'range')} more.</p>
      ) : null}
      {coverage.length === 0 && backfill.plans.length === 0 && chain !== undefined ? (
        <p class="dim below">Nothing is indexed yet, and no history is planned.</p>
      ) : null}
    </Panel>
  );
}

function summaryOf(status: Status): string {
  const { backfill, coverage } = status;
  const covered = coverage.reduce((sum, { from, to }) => sum + to - from + 1, 0);
  const chain = chainOf(status);
  const share = chain === undefined ? '' : `${percent(covered / (chain.to - chain.from + 1))}: `;
  const planned =
    backfill.missingHeights === 0
      ? ''
      : `; ${many(backfill.missingHeights, 'height')} of history to fill in` +
        (backfill.eta === null || backfill.eta === 0
          ? ''
          : ` in ${duration(Math.ceil(backfill.eta))} (${amount(backfill.rate)}/s)`);
  return `${share}${many(covered, 'height')} in ${many(coverage.length, 'range')}${planned}`;
}

function labelOf({ from, to, kind }: Segment): string {
  return `${heights(from, to)} (${count(to - from + 1)}): ${NAMES[kind]}`;
}

/** Position and width as shares of the strip; the style gives narrow segments a minimum width. */
function placeOf(
  { from, to }: Segment,
  chain: { readonly from: number; readonly to: number },
): Record<string, string> {
  const share = (heightsBefore: number): string =>
    `${((heightsBefore / (chain.to - chain.from + 1)) * 100).toFixed(4)}%`;
  return { '--at': share(from - chain.from), '--wide': share(to - from + 1) };
}

function Range({ range }: { readonly range: FilledRange }): VNode {
  const { from, to, next, rate, eta, state, failures, reason, waitingFor } = range;
  const done = (next - from) / (to - from + 1);
  const kind = { waiting: 'begun', running: 'filling', failed: 'failed', disputed: 'disputed' } as const;
  const name = heights(from, to);
  const left = eta === null || eta === 0 ? '' : `, ${duration(Math.ceil(eta))} to go`;
  const why = reason ?? waitingFor?.message;
  return (
    <li>
      <span class={`swatch ${kind[state]}`} aria-hidden="true" />
      <span class="nowrap">{name}</span>
      <progress value={done} max={1} aria-label={`${name}: done`} />
      <span class="dim">
        {percent(done)}, {NAMES[kind[state]]}
        {state === 'running' ? `, ${amount(rate)}/s${left}` : ''}
        {failures > 0 ? `, ${many(failures, 'failure')} in a row` : ''}
      </span>
      {why === undefined ? null : <p class="why">{sentence(why)}</p>}
    </li>
  );
}
