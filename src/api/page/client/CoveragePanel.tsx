import type { VNode } from 'preact';
import { amount, count, duration, heights, many, percent, sentence } from './format.js';
import { Panel } from './parts.js';
import { chainOf, kindOf, kinds, NAMES, segmentsOf } from './segments.js';
import type { Status } from './daemon.js';

/** Ranges shown one by one; the strip shows all. */
const MAX_RANGES = 8;

/** The whole chain as one strip, and the progress of history. */
export function CoveragePanel({ status }: { readonly status: Status }): VNode {
  const { backfill } = status;
  const more = backfill.ranges.length - MAX_RANGES;
  return (
    <Panel title="Coverage of the chain" summary={summaryOf(status)}>
      <ChainStrip status={status} />
      {backfill.heldBack === null ? null : <p class="dim">{sentence(backfill.heldBack.message)}</p>}
      {backfill.ranges.length === 0 ? null : (
        <ul class="ranges">
          {backfill.ranges.slice(0, MAX_RANGES).map((range) => (
            <Range key={range.from} range={range} />
          ))}
        </ul>
      )}
      {more > 0 ? <p class="dim">And {many(more, 'range')} more.</p> : null}
    </Panel>
  );
}

/** The strip with its legend; and every stretch as a list, for whoever cannot point at it. */
function ChainStrip({ status }: { readonly status: Status }): VNode {
  const chain = chainOf(status);
  if (chain === undefined)
    return <p class="dim">Nothing to draw yet: neither the chain’s first height nor its head is known.</p>;
  const share = (part: number): string => `${((part / (chain.to - chain.from + 1)) * 100).toFixed(4)}%`;
  const segments = segmentsOf(status, chain).map(({ from, to, kind }) => ({
    from,
    to,
    kind,
    label: `${heights(from, to)} (${count(to - from + 1)}): ${NAMES[kind]}`,
  }));
  return (
    <>
      <div
        class="strip"
        role="img"
        aria-label={`Coverage of heights ${count(chain.from)} to ${count(chain.to)}`}
      >
        {segments.map(({ from, to, kind, label }) => (
          <span
            key={`${from}-${kind}`}
            class={`segment ${kind}`}
            title={label}
            // The style gives narrow segments a minimum width.
            style={{ '--at': share(from - chain.from), '--wide': share(to - from + 1) }}
          />
        ))}
      </div>
      <p class="scale" aria-hidden="true">
        <span>{count(chain.from)}</span>
        <span>{count(chain.to)}</span>
      </p>
      <ul class="legend">
        {kinds
          .filter((kind) => segments.some((segment) => segment.kind === kind))
          .map((kind) => (
            <Stretch key={kind} kind={kind} words={NAMES[kind]} />
          ))}
      </ul>
      <details>
        <summary>{many(segments.length, 'stretch', 'stretches')}</summary>
        <ul class="ranges stretches">
          {segments.map(({ from, kind, label }) => (
            <Stretch key={`${from}-${kind}`} kind={kind} words={label} />
          ))}
        </ul>
      </details>
    </>
  );
}

function Stretch({ kind, words }: { readonly kind: string; readonly words: string }): VNode {
  return (
    <li>
      <span class={`swatch ${kind}`} aria-hidden="true" />
      {words}
    </li>
  );
}

function summaryOf(status: Status): string {
  const { backfill, coverage } = status;
  const covered = coverage.reduce((sum, { from, to }) => sum + to - from + 1, 0);
  const chain = chainOf(status);
  const share = chain === undefined ? '' : `${percent(covered / (chain.to - chain.from + 1))}: `;
  const { eta, missingHeights, rate } = backfill;
  const time = eta === null || eta === 0 ? '' : ` in ${duration(Math.ceil(eta))} (${amount(rate)}/s)`;
  const planned =
    missingHeights === 0 ? '' : `; ${many(missingHeights, 'height')} of history to fill in${time}`;
  return `${share}${many(covered, 'height')} in ${many(coverage.length, 'range')}${planned}`;
}

function Range({ range }: { readonly range: Status['backfill']['ranges'][number] }): VNode {
  const { from, to, next, rate, eta, state, failures, reason, waitingFor } = range;
  const done = (next - from) / (to - from + 1);
  const name = heights(from, to);
  const left = eta === null || eta === 0 ? '' : `, ${duration(Math.ceil(eta))} to go`;
  const why = reason ?? waitingFor?.message;
  return (
    <li>
      <span class={`swatch ${kindOf[state]}`} aria-hidden="true" />
      <span class="nowrap">{name}</span>
      <progress value={done} max={1} aria-label={`${name}: done`} />
      <span class="dim">
        {percent(done)}, {NAMES[kindOf[state]]}
        {state === 'running' ? `, ${amount(rate)}/s${left}` : ''}
        {failures > 0 ? `, ${many(failures, 'failure')} in a row` : ''}
      </span>
      {why === undefined ? null : <p class="why">{sentence(why)}</p>}
    </li>
  );
}
