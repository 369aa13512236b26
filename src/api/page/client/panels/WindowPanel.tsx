import type { VNode } from 'preact';
import { age, bytes, count, heights, many } from '../format.js';
import { findHref } from '../daemon/find.js';
import { Legend, Panel } from '../parts/Panel.js';
import { sentence } from '../sentence.js';
import { Strip } from '../parts/Strip.js';
import type { StripItem } from '../parts/Strip.js';
import type { Cell, Status } from '../types.js';

/** Squares of the strip: in a larger window, each shows several heights. */
const MAX_SQUARES = 512;
/** Bounds of the age at which a height without all its collections is late, whatever the rate. */
const LATE_SECONDS = { min: 2, max: 20 };
/** The lowest age at which it is very late. */
const STUCK_MIN_SECONDS = 10;

/** The ages from which a height that lacks collections is late, and very late. */
interface Limits {
  readonly late: number;
  readonly stuck: number;
}

/** The colours, with their meaning, in the order of the legend. */
function namesOf({ late, stuck }: Limits): Readonly<Record<string, string>> {
  return {
    waiting: 'waiting for its block',
    linked: 'block known, not begun',
    collecting: 'collecting',
    late: `collecting for over ${late} s`,
    stuck: `collecting for over ${stuck} s`,
    complete: 'complete, waiting for a batch',
    committing: 'being written',
    durable: 'written, waiting for the heights below',
  };
}

/**
 * In a full window, a height is late after one and a half times the window's duration at the present rate. If something holds up
 * the window, the lowest limits apply.
 */
function limitsOf({ rate, reasons, window }: Status): Limits {
  const isHeldUp = reasons.some(({ code }) => code !== 'behind');
  const usual = rate > 0 && !isHeldUp ? (1.5 * window.inFlight) / rate : 0;
  const late = Math.round(Math.min(LATE_SECONDS.max, Math.max(LATE_SECONDS.min, usual)));
  return { late, stuck: Math.max(STUCK_MIN_SECONDS, 2 * late) };
}

interface WindowPanelProps {
  readonly status: Status;
  readonly elapsed: number;
}

/** The heights in progress, one by one. */
export function WindowPanel({ status, elapsed }: WindowPanelProps): VNode {
  const { window } = status;
  const limits = limitsOf(status);
  const names = namesOf(limits);
  const perSquare = Math.max(1, Math.ceil(window.heights / MAX_SQUARES));
  const squares = window.cells.flatMap((cell) => squaresOf(cell, perSquare, limits));
  const used = Object.keys(names).filter((look) => squares.some((square) => square.look === `cell ${look}`));
  const total = Math.ceil(window.heights / perSquare);
  const open = many(window.inFlight, 'height');
  return (
    <Panel
      title="Window"
      summary={`${open} in progress of ${count(window.heights)} at once; ${bytes(window.bytesInFlight)} of ${bytes(window.bytesLimit)} held`}
    >
      <Waiting status={status} elapsed={elapsed} />
      {squares.length === 0 ? (
        <>
          <div class="window" aria-hidden="true">
            {Array.from({ length: total }, (_, place) => (
              <span key={place} class="empty" />
            ))}
          </div>
          <p class="dim below">{emptyWords(status)}</p>
        </>
      ) : (
        <Strip
          label="The heights of the window, lowest first"
          look="window"
          items={squares}
          empty={Math.max(0, total - squares.length)}
          hint={`Lowest height first${perSquare > 1 ? `, ${perSquare} heights in a square` : ''}. Point at a square, or use the arrow keys, to see its height, age and cause.`}
        >
          <Legend items={used.map((look) => [look, names[look] ?? look])} />
        </Strip>
      )}
    </Panel>
  );
}

/** What the lowest heights wait for, and why. */
function Waiting({ status, elapsed }: WindowPanelProps): VNode | null {
  const { oldestMissing, waitingFor } = status;
  if (oldestMissing === null) {
    if (waitingFor === null || waitingFor.ageSeconds < LATE_SECONDS.min) return null;
    const { height, message, ageSeconds } = waitingFor;
    return (
      <p class="oldest">
        Next height: <a href={findHref(String(height))}>{count(height)}</a>, for {age(ageSeconds + elapsed)}.{' '}
        <span class="dim">{whyOf(status, height, message)}</span>
      </p>
    );
  }
  const { height, missing, collectionId, ageSeconds, reason } = oldestMissing;
  return (
    <p class={`oldest ${ageSeconds >= limitsOf(status).stuck ? 'bad' : ''}`}>
      Oldest missing collection: <a href={findHref(collectionId)}>{collectionId.slice(0, 12)}…</a>
      {missing > 1 ? ` and ${count(missing - 1)} more` : ''} of height{' '}
      <a href={findHref(String(height))}>{count(height)}</a>, for {age(ageSeconds + elapsed)}.{' '}
      <span class="dim">{whyOf(status, height, reason)}</span>
    </p>
  );
}

/** The top of the page already has the reasons why the daemon is not ready. */
function whyOf({ reasons }: Status, height: number, why: string): string {
  const isShown = reasons.some((reason) => reason.code !== 'behind' && reason.height === height);
  return isShown ? 'The cause is at the top.' : sentence(why);
}

function emptyWords({ firstIndexed, head, lag, latestIndexed }: Status): string {
  if (head === null) return 'Empty: nobody has reported the head of the chain.';
  if (latestIndexed === null && firstIndexed !== null)
    return `Empty: nothing is indexed yet; it begins with height ${count(firstIndexed)}.`;
  if (lag === 0 || (latestIndexed ?? 0) >= head) return 'Empty: everything up to the head is indexed.';
  return 'Empty: no height may be worked on yet.';
}

/** A square for each height, or for each `perSquare` heights. */
function squaresOf(cell: Cell, perSquare: number, limits: Limits): StripItem[] {
  const squares: StripItem[] = [];
  const look = lookOf(cell, limits);
  const name = namesOf(limits)[look] ?? look;
  for (let from = cell.from; from <= cell.to; from += perSquare) {
    const to = Math.min(cell.to, from + perSquare - 1);
    squares.push({ key: from, look: `cell ${look}`, label: labelOf({ ...cell, from, to }, name) });
  }
  return squares;
}

function lookOf({ state, ageSeconds }: Cell, { late, stuck }: Limits): string {
  if (state !== 'collecting' || ageSeconds === null || ageSeconds < late) return state;
  return ageSeconds < stuck ? 'late' : 'stuck';
}

function labelOf({ from, to, state, missing, ageSeconds, reason }: Cell, name: string): string {
  const what = state === 'collecting' ? `lacks ${many(missing, 'collection')}` : name;
  const since = ageSeconds === null ? '' : `, in progress for ${age(ageSeconds)}`;
  return `${heights(from, to)}: ${what}${since}${reason === null ? '' : `. ${sentence(reason)}`}`;
}
