import type { VNode } from 'preact';
import { age, amount, count, duration, many, momentIn } from '../format.js';
import { Facts } from '../parts/Panel.js';
import type { Status, View } from '../types.js';

interface FiguresProps {
  readonly view: View;
  readonly status: Status;
  /** Seconds since the status arrived. */
  readonly elapsed: number;
}

/** The six most important figures. */
export function Figures({ view, status, elapsed }: FiguresProps): VNode {
  const { lag, rate, throughput, window } = status;
  // A block may have arrived after the status.
  const head = status.head === null ? null : Math.max(status.head, view.newest?.height ?? 0);
  const collections = throughput?.collectionsPerSecond ?? 0;
  return (
    <section aria-label="At a glance">
      <Facts
        look="figures"
        items={[
          ['Chain head', head === null ? 'Unknown' : count(head), headNote(status, elapsed)],
          ['Latest indexed', ...latest(view, status)],
          ['Behind', lag === null ? 'Unknown' : count(lag), lagNote(status)],
          [
            'Rate',
            <>
              {amount(rate)} <span class="unit">heights/s</span>
            </>,
            `${amount(collections)} collections/s, ${many(window.inFlight, 'height')} in progress`,
          ],
          ['Time to the head', ...eta(status)],
          ['Proven final', ...proven(status)],
        ]}
      />
    </section>
  );
}

function headNote({ head, headAgeSeconds, headConfirmedSeconds, sealed }: Status, elapsed: number): string {
  if (head === null) return 'nobody has reported it yet';
  const isSilent = (headConfirmedSeconds ?? Infinity) > SILENT_SECONDS;
  if (isSilent && headConfirmedSeconds !== null)
    return `not confirmed for ${age(headConfirmedSeconds + elapsed)}`;
  const moved = headAgeSeconds === null ? '' : `moved ${age(headAgeSeconds + elapsed)} ago`;
  return sealed === null ? moved : `${moved}, sealed to ${count(sealed)}`;
}

/** As in the daemon: after this time the lag is unknown. */
const SILENT_SECONDS = 8;

function latest({ newest }: View, { firstIndexed, latestIndexed }: Status): [string, string] {
  if (latestIndexed === null)
    return ['Nothing yet', firstIndexed === null ? '' : `starts at ${count(firstIndexed)}`];
  const height = Math.max(latestIndexed, newest?.height ?? 0);
  const note =
    newest?.height === height
      ? `${many(newest.collections, 'collection')}, ${many(newest.transactions, 'transaction')}`
      : firstIndexed === null
        ? ''
        : `without a gap from ${count(firstIndexed)}`;
  return [count(height), note];
}

function lagNote({ head, lag, latestIndexed, reasons }: Status): string {
  if (latestIndexed === null) return 'nothing is indexed yet';
  if (lag === null) return head === null ? 'the head is not known' : 'nobody confirms the head';
  if (lag === 0) return 'everything up to the head is indexed';
  if (reasons.some(({ code }) => code === 'behind')) return 'more than ready.maxLag allows';
  return 'heights, few enough to be ready';
}

/** How far certificates prove the chain, and the block that this rests on. */
function proven({ proof }: Status): [string, string] {
  const { anchor, mode, provenHeight, reason } = proof;
  const height = provenHeight === null ? (mode === 'off' ? 'Off' : 'Not yet') : count(provenHeight);
  if (anchor === null) return [height, reason ?? ''];
  const by = {
    checkpoint: 'your checkpoint',
    spork_root: 'the root of the spork',
    spork_table: 'the end of the spork',
    first_use: 'the word of the nodes for',
  }[anchor.kind];
  return [height, `rests on ${by} ${count(anchor.height)}, ${anchor.id.slice(0, 16)}…`];
}

function eta({ eta: seconds, firstIndexed, lag, latestIndexed, ready, reasons }: Status): [string, string] {
  if (latestIndexed === null && (lag === 0 || lag === null))
    return [
      'Not begun',
      firstIndexed === null ? 'waits to begin' : `waits for height ${count(firstIndexed)}`,
    ];
  if (lag === 0) return ['At the head', 'nothing to catch up'];
  if (ready) return ['At the head', 'a few heights behind, and following'];
  if (seconds === null) {
    const isHeldUp = reasons.some(({ code }) => code !== 'behind' && code !== 'starting');
    return ['Unknown', isHeldUp ? 'held up, see above' : 'the gap does not close'];
  }
  return [duration(Math.ceil(seconds)), `at ${momentIn(seconds)}, at this rate`];
}
