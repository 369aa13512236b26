import type { VNode } from 'preact';
import { age, amount, count, duration, many, momentIn, sentence } from './format.js';
import { Facts } from './parts.js';
import { findHref } from './Search.js';
import type { Status } from './daemon.js';

/** As in the daemon: after this time the lag is unknown. */
const SILENT_SECONDS = 8;
/** What a height waits for is shown from this age on: a full window takes a while. */
const LATE_SECONDS = 10;

/** The six most important figures, and what the lowest heights wait for. */
export function Figures({ status }: { readonly status: Status }): VNode {
  const { collectionsPerSecond, head, lag, rate, window } = status;
  return (
    <section class="glance" aria-label="At a glance">
      <Facts
        look="figures"
        items={[
          ['Chain head', head === null ? 'Unknown' : count(head), headNote(status)],
          ['Latest indexed', ...latest(status)],
          ['Behind', lag === null ? 'Unknown' : count(lag), lagNote(status)],
          [
            'Rate',
            <>
              {amount(rate)} <span class="unit">heights/s</span>
            </>,
            `${amount(collectionsPerSecond ?? 0)} collections/s, ${many(window.inFlight, 'height')} in progress`,
          ],
          ['Time to the head', ...eta(status)],
          ['Proven final', ...proven(status)],
        ]}
      />
      {waiting(status)}
    </section>
  );
}

function headNote({ head, headAgeSeconds, headConfirmedSeconds, sealed }: Status): string {
  if (head === null) return 'no node has reported it yet';
  if (headConfirmedSeconds !== null && headConfirmedSeconds > SILENT_SECONDS)
    return `not confirmed for ${age(headConfirmedSeconds)}`;
  const moved = headAgeSeconds === null ? '' : `moved ${age(headAgeSeconds)} ago`;
  return sealed === null ? moved : `${moved}, sealed to ${count(sealed)}`;
}

function latest({ firstIndexed, latestIndexed }: Status): [string, string] {
  const first = firstIndexed === null ? '' : count(firstIndexed);
  if (latestIndexed === null) return ['Nothing yet', first && `starts at ${first}`];
  return [count(latestIndexed), first && `without a gap from ${first}`];
}

function lagNote({ head, lag, latestIndexed, reasons }: Status): string {
  if (latestIndexed === null) return 'nothing is indexed yet';
  if (lag === null) return head === null ? 'the head is not known' : 'no node confirms the head';
  if (lag === 0) return 'everything up to the head is indexed';
  if (reasons.some(({ code }) => code === 'behind')) return 'more than ready.maxLag allows';
  return 'heights, few enough to be ready';
}

function eta({ eta: seconds, firstIndexed, lag, latestIndexed, ready, reasons }: Status): [string, string] {
  if (latestIndexed === null && (lag === 0 || lag === null))
    return [
      'Not begun',
      firstIndexed === null ? 'waits to begin' : `waits for height ${count(firstIndexed)}`,
    ];
  if (lag === 0) return ['At the head', 'nothing to catch up'];
  if (ready) return ['At the head', 'a few heights behind, and following'];
  if (seconds !== null) return [duration(Math.ceil(seconds)), `at ${momentIn(seconds)}, at this rate`];
  const isHeldUp = reasons.some(({ code }) => code !== 'behind' && code !== 'starting');
  return ['Unknown', isHeldUp ? 'held up, see above' : 'the gap does not close'];
}

/** How far certificates prove the chain, and the block that this rests on. */
function proven({ proof: { anchor, mode, provenHeight, reason } }: Status): [string, string] {
  const height = provenHeight === null ? (mode === 'off' ? 'Off' : 'Not yet') : count(provenHeight);
  if (anchor === null) return [height, reason ?? ''];
  const by = {
    checkpoint: 'your checkpoint',
    spork_root: 'the root of the spork',
    spork_table: 'the end of the spork',
    first_use: 'the word of the nodes for block',
  }[anchor.kind];
  return [height, `rests on ${by} ${count(anchor.height)}, ${anchor.id.slice(0, 16)}…`];
}

/** What the lowest height waits for, if it is late, and why. */
function waiting({ oldestMissing, reasons, waitingFor }: Status): VNode | null {
  const late = oldestMissing ?? waitingFor;
  if (late === null || late.ageSeconds < LATE_SECONDS) return null;
  // The top of the page already has the reasons why the daemon is not ready.
  const isShown = reasons.some(({ code, height }) => code !== 'behind' && height === late.height);
  const why = 'reason' in late ? late.reason : late.message;
  return (
    <p class="oldest">
      {oldestMissing === null ? (
        'Next height: '
      ) : (
        <>
          Oldest missing collection:{' '}
          <a href={findHref(oldestMissing.collectionId)}>{oldestMissing.collectionId.slice(0, 12)}…</a>
          {oldestMissing.missing > 1 ? ` and ${count(oldestMissing.missing - 1)} more` : ''} of height{' '}
        </>
      )}
      <a href={findHref(String(late.height))}>{count(late.height)}</a>, for {age(late.ageSeconds)}.{' '}
      <span class="dim">{isShown ? 'The cause is at the top.' : sentence(why)}</span>
    </p>
  );
}
