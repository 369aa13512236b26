import { MAX_WINDOW_CELLS, windowStates } from '../../api/index.js';
import type { StatusDocument, WindowCell, WindowState } from '../../api/index.js';
import type { IndexingLine } from '../line/buildLine.js';
import type { DaemonParts, Diagnosis } from './diagnose.js';

/** A height that has lacked collections for this long gets a reason. */
const REASON_AFTER_SECONDS = 2;
/** Reasons at most in one status, from the lowest height up: the others usually wait for the same. */
const MAX_REASONS = 32;
/** Heights that were handed out together differ by less than this. */
const SAME_AGE_SECONDS = 0.1;

/** The heights between the watermark and the end of the window, with the stage of each. */
export function windowCells(
  { clock, store, window }: Pick<DaemonParts, 'clock' | 'store' | 'window'>,
  diagnosis: Pick<Diagnosis, 'heldUpAt' | 'line'>,
  waitingFor: StatusDocument['waitingFor'],
): WindowCell[] {
  const line = diagnosis.line();
  if (line === undefined) return [];
  const first = store.latestIndexedHeight() + 1;
  const last = window.upperBound();
  const perCell = Math.max(1, Math.ceil((last - first + 1) / MAX_WINDOW_CELLS));
  const nowMs = clock.monotonic();
  const cells: WindowCell[] = [];
  let reasons = 0;
  for (let from = first; from <= last; from += perCell) {
    const cell = cellOf(line, from, Math.min(last, from + perCell - 1), nowMs);
    let reason = from === first ? waitingFor?.message : undefined;
    const isLate = cell.state === 'collecting' && (cell.ageSeconds ?? 0) >= REASON_AFTER_SECONDS;
    if (isLate && reasons < MAX_REASONS) {
      reasons += 1;
      reason ??= diagnosis.heldUpAt(from)?.message;
    }
    add(cells, { ...cell, reason: reason ?? null });
  }
  return cells;
}

/** One cell for several heights, with the state of the one that is least far. */
function cellOf(line: IndexingLine, from: number, to: number, nowMs: number): WindowCell {
  let least = windowStates.length - 1;
  let missing = 0;
  let oldestMs: number | undefined;
  for (let height = from; height <= to; height += 1) {
    const record = line.window.at(height);
    const withoutRecord: WindowState = line.indexer.isIndexed(height) ? 'durable' : 'waiting';
    least = Math.min(least, windowStates.indexOf(record?.status ?? withoutRecord));
    if (record?.isInHand !== true) continue;
    missing += record.missingCount;
    oldestMs = Math.max(oldestMs ?? 0, nowMs - record.queuedAtMs);
  }
  const ageSeconds = oldestMs === undefined ? null : oldestMs / 1_000;
  return { from, to, state: windowStates[least] ?? 'waiting', missing, ageSeconds, reason: null };
}

/** Adds a cell, or lengthens the last one. */
function add(cells: WindowCell[], cell: WindowCell): void {
  const last = cells.at(-1);
  const isPlain = ({ missing, reason, state }: WindowCell): boolean =>
    state === cell.state && missing === 0 && reason === null;
  const apart = Math.abs((last?.ageSeconds ?? 0) - (cell.ageSeconds ?? 0));
  if (last !== undefined && [last, cell].every(isPlain) && apart < SAME_AGE_SECONDS)
    cells[cells.length - 1] = { ...last, to: cell.to };
  else cells.push(cell);
}
