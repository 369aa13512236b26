import type { VNode } from 'preact';
import { amount, count, duration, heights, many, percent, sentence } from './format.js';
import { Panel } from './parts.js';
import type { Status } from './daemon.js';

/** Kinds of stretches of the chain, as the page names them. */
const NAMES = {
  failed: 'failed, to be tried again',
  disputed: 'disputed at its borders',
  filling: 'being filled in',
  begun: 'begun, waiting its turn',
  indexed: 'indexed',
  next: 'to be indexed up to the head',
  unserved: 'planned, but not served by any known node',
  planned: 'planned',
  missing: 'not indexed, not planned',
} as const;
type Kind = keyof typeof NAMES;

/** The kind of a range of history, by its state. */
const kindOf = { waiting: 'begun', running: 'filling', failed: 'failed', disputed: 'disputed' } as const;

interface Stretch {
  readonly from: number;
  readonly to: number;
}

interface Segment extends Stretch {
  readonly kind: Kind;
}

/** The whole chain as one strip, and how much of history is left to fill in. */
export function CoveragePanel({ status }: { readonly status: Status }): VNode {
  const { heldBack } = status.backfill;
  const chain = chainOf(status);
  return (
    <Panel title="Coverage of the chain" summary={summaryOf(status, chain)}>
      {chain === undefined ? (
        <p class="dim">Nothing to draw yet: neither the chain’s first height nor its head is known.</p>
      ) : (
        <Strip chain={chain} segments={segmentsOf(status, chain)} />
      )}
      {heldBack && <p class="dim">{sentence(heldBack.message)}</p>}
    </Panel>
  );
}

/** The strip with its legend; and every stretch as a list, for readers without a pointer. */
function Strip({
  chain,
  segments,
}: {
  readonly chain: Stretch;
  readonly segments: readonly Segment[];
}): VNode {
  const share = (part: number): string => `${((part / lengthOf(chain)) * 100).toFixed(4)}%`;
  return (
    <>
      <div
        class="strip"
        role="img"
        aria-label={`Coverage of heights ${count(chain.from)} to ${count(chain.to)}`}
      >
        {segments.map((segment) => (
          <span
            key={segment.from}
            class={`segment ${segment.kind}`}
            title={labelOf(segment)}
            // The style gives narrow segments a minimum width.
            style={{ '--at': share(segment.from - chain.from), '--wide': share(lengthOf(segment)) }}
          />
        ))}
      </div>
      <p class="scale" aria-hidden="true">
        <span>{count(chain.from)}</span>
        <span>{count(chain.to)}</span>
      </p>
      <ul class="legend">
        {(Object.keys(NAMES) as Kind[])
          .filter((kind) => segments.some((segment) => segment.kind === kind))
          .map((kind) => (
            <Line key={kind} kind={kind} words={NAMES[kind]} />
          ))}
      </ul>
      <details>
        <summary>{many(segments.length, 'stretch', 'stretches')}</summary>
        <ul class="ranges stretches" tabIndex={0}>
          {segments.map((segment) => (
            <Line key={segment.from} kind={segment.kind} words={labelOf(segment)} />
          ))}
        </ul>
      </details>
    </>
  );
}

function Line({ kind, words }: { readonly kind: Kind; readonly words: string }): VNode {
  return (
    <li>
      <span class={`swatch ${kind}`} aria-hidden="true" />
      {words}
    </li>
  );
}

function labelOf({ from, to, kind }: Segment): string {
  return `${heights(from, to)} (${count(lengthOf({ from, to }))}): ${NAMES[kind]}`;
}

function summaryOf({ backfill, coverage }: Status, chain: Stretch | undefined): string {
  const covered = coverage.reduce((sum, range) => sum + lengthOf(range), 0);
  const share = chain === undefined ? '' : `${percent(covered / lengthOf(chain))}: `;
  const { eta, missingHeights, rate } = backfill;
  const time = eta === null || eta === 0 ? '' : ` in ${duration(Math.ceil(eta))} (${amount(rate)}/s)`;
  const planned =
    missingHeights === 0 ? '' : `; ${many(missingHeights, 'height')} of history to fill in${time}`;
  return `${share}${many(covered, 'height')} in ${many(coverage.length, 'range')}${planned}`;
}

function lengthOf({ from, to }: Stretch): number {
  return to - from + 1;
}

/** The chain as far as it is known: from the lowest height that is served, planned or indexed to the head. */
function chainOf({ backfill, coverage, head, latestIndexed, lowestServed }: Status): Stretch | undefined {
  const firsts = [lowestServed ?? Infinity, ...[...coverage, ...backfill.plans].map(({ from }) => from)];
  const from = Math.min(...firsts);
  const to = Math.max(head ?? -Infinity, latestIndexed ?? -Infinity);
  return Number.isFinite(from) && Number.isFinite(to) && from <= to ? { from, to } : undefined;
}

/** The chain cut into stretches of one kind, from its first height to its last: where several overlap, the first applies. */
function segmentsOf(status: Status, chain: Stretch): readonly Segment[] {
  const { backfill, coverage, firstIndexed, latestIndexed } = status;
  const nextFrom = (latestIndexed ?? (firstIndexed ?? Infinity) - 1) + 1;
  const all = (stretches: readonly Stretch[], kind: Kind): readonly Segment[] =>
    stretches.map(({ from, to }) => ({ from, to, kind }));
  const stretches = [
    ...backfill.ranges.map(({ from, to, state }) => ({ from, to, kind: kindOf[state] })),
    ...all(coverage, 'indexed'),
    ...all([{ from: nextFrom, to: chain.to }], 'next'),
    ...all(backfill.unserved, 'unserved'),
    ...all(backfill.plans, 'planned'),
    ...all([chain], 'missing'),
  ].filter(({ from, to }) => from <= Math.min(to, chain.to) && to >= chain.from);
  const cuts = new Set(stretches.flatMap(({ from, to }) => [Math.max(from, chain.from), to + 1]));
  const starts = [...cuts].filter((from) => from <= chain.to).sort((a, b) => a - b);
  const segments: Segment[] = [];
  for (const [index, from] of starts.entries()) {
    const to = (starts[index + 1] ?? chain.to + 1) - 1;
    const kind = stretches.find((stretch) => stretch.from <= from && from <= stretch.to)?.kind ?? 'missing';
    const last = segments.at(-1);
    if (last?.kind === kind) segments.splice(-1, 1, { ...last, to });
    else segments.push({ from, to, kind });
  }
  return segments;
}
