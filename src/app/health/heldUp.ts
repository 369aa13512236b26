import type { NodeTrouble } from '../../access/index.js';
import { formatDuration, wholeSeconds, type ReadinessCode } from '../../observability/index.js';
import type { Clock } from '../../runtime/index.js';
import type { Descriptors } from '../lifecycle/watchDescriptors.js';
import type { IndexingLine } from '../line/buildLine.js';
import type { IndexingParts } from '../line/runIndexing.js';

/** After this time a missing height counts as held up, and a known cause is reported. */
export const HELD_UP_AFTER_MS = 5_000;
/** After this time it is reported even without a known cause. */
export const SILENT_FOR_MS = 8_000;
/** The most nodes named in one message. */
const NODES_NAMED = 3;

/** What the lowest missing height waits for, and what holds that up. */
export interface HeldUp {
  readonly height: number;
  /** What it waits for, and after a colon, if known, why that is missing. */
  readonly message: string;
  /** `undefined` while no fault is known: it may just be too early. */
  readonly code: ReadinessCode | undefined;
  /** `store`: it waits only for the store. `unserved`: there is no node to ask. */
  readonly because?: 'store' | 'unserved';
  /** How long it has waited for that, if known: before, it waited for something else. */
  readonly forMs?: number | undefined;
}

/** What this needs to know of the daemon around the line. */
export interface Surroundings extends Pick<IndexingParts, 'clock' | 'listener' | 'network'> {
  readonly store: Pick<IndexingParts['store'], 'latestIndexedHeight' | 'meta' | 'trouble'>;
  readonly descriptors: Pick<Descriptors, 'trouble'>;
  readonly diskWatch: { pause(): string | undefined } | undefined;
}

/**
 * What holds up the lowest missing height of a line: the store, its block, or its collections. Only this function decides it;
 * `/readyz`, `/status`, `explain` and the log all use it.
 */
export function lineHeldUp(
  height: number,
  line: IndexingLine,
  around: Surroundings,
  { ediOnly }: { readonly ediOnly: boolean },
): HeldUp {
  const away = around.store.trouble?.();
  // Without the database nothing continues, whatever else is wrong.
  if (away !== undefined) return { height, message: away, code: 'database_unreachable', because: 'store' };
  const { stage, waitedMs: forMs } = line.explainer.explain(height);
  // A height stored above a gap before the start waits for its block like any other: the chain has to confirm it.
  const isConfirmed = stage === 'indexed' && line.window.at(height)?.status === 'durable';
  if (stage === 'committing' || isConfirmed)
    return { height, because: 'store', forMs, ...heldUpByStore(height, line, around) };
  if (stage === 'collecting')
    return { forMs, ...(ediOnly ? heldUpByFeed : heldUpByCollections)(height, line, around) };
  const block = line.blocks.heldUpBy();
  const what = `waiting for block ${block?.height ?? height}`;
  // A node that is back is about to be asked.
  if (block?.isUnserved === true && around.network.namesServing(height).size === 0)
    return { ...heldUpByNobody(block.height, what, around), height };
  return because(height, what, block?.troubles ?? [], around.clock);
}

/** What waits for a height that no node serves, why, and what helps where that lasts. */
export function heldUpByNobody(
  height: number,
  what: string,
  { clock, network, store }: Pick<Surroundings, 'clock' | 'network' | 'store'>,
): HeldUp {
  const none = `${what}: no ${network.source} serves that height`;
  const { code = 'upstream_refusing', message } = because(height, none, network.whyUnserved(height), clock);
  const another = network.source === 'peer' ? 'a --peer' : 'an --access-node';
  // Its node went on to the next spork before it gave a block.
  const isGone = store.latestIndexedHeight() < (store.meta()?.firstHeight ?? 0);
  const more = isGone ? '; nothing is indexed yet: to begin elsewhere, name another data directory' : '';
  // A node that does not answer may have it.
  const advice = code === 'upstream_refusing' ? `; add ${another} that has it${more}` : '';
  return { height, message: message + advice, code, because: 'unserved' };
}

function heldUpByStore(
  height: number,
  { indexer }: IndexingLine,
  { clock, descriptors, diskWatch, store }: Surroundings,
): Pick<HeldUp, 'code' | 'message'> {
  const complete = `height ${height} is complete`;
  const noFiles = descriptors.trouble();
  if (noFiles !== undefined) return { message: `${complete}; ${noFiles}`, code: 'descriptors_low' };
  const startedAtMs = indexer.commitStartedAtMs();
  if (startedAtMs !== undefined) {
    const forMs = clock.monotonic() - startedAtMs;
    const message = `${writesFor(forMs, store)}; height ${height} waits for it`;
    return { message, code: forMs < HELD_UP_AFTER_MS ? undefined : 'store_stalled' };
  }
  const paused = diskWatch?.pause();
  if (paused !== undefined) return { message: `${complete}, and ${paused}`, code: 'disk_low' };
  return { message: `writing height ${height}`, code: undefined };
}

function heldUpByCollections(height: number, line: IndexingLine, around: Surroundings): HeldUp {
  const { edi, explainer, peer } = line;
  const { clock, network } = around;
  const { missing = 0, of = 0, troubles = [], heldBack = [] } = explainer.heldUpBy(height) ?? {};
  const what = `waiting for ${missing} of ${of} collections of height ${height}`;
  if (troubles.length === 0 && heldBack.length > 0) {
    const limits = heldBack.map(
      ({ node, untilMs }) => `rate-limited by ${node} until ${timeOf(untilMs, clock)}`,
    );
    return { height, message: `${what}: ${limits.join('; ')}`, code: 'upstream_refusing' };
  }
  // Troubles of nodes from before they moved to the next spork are no longer the cause.
  const isUnserved = network.namesServing(height).size === 0;
  const held = isUnserved ? heldUpByNobody(height, what, around) : because(height, what, troubles, clock);
  const besides = [edi?.state.trouble(), peer?.state.trouble()].filter((words) => words !== undefined);
  return { ...held, message: [held.message, ...besides].join('; ') };
}

function heldUpByFeed(height: number, { edi }: IndexingLine, { clock, listener }: Surroundings): HeldUp {
  const unavailable = (what: string, troubles: readonly NodeTrouble[]): HeldUp => ({
    ...because(height, what, troubles, clock),
    code: 'edi_unavailable',
  });
  const sealed = listener.sealed.height;
  if (sealed === undefined || sealed < height) {
    const ageMs = listener.sealed.advanceAgeMs();
    const age = ageMs === undefined ? '' : `, has not moved for ${formatDuration(ageMs / 1000)}`;
    const head =
      sealed === undefined ? 'no node has reported its sealed head' : `the sealed head, ${sealed}${age}`;
    return unavailable(`waiting for height ${height} to be sealed; ${head}`, listener.sealed.troubles());
  }
  const what = `waiting for the execution data of height ${height}`;
  const troubles = edi?.state.troubles() ?? [];
  if (troubles.length > 0) return unavailable(what, troubles);
  const trouble = edi?.state.trouble();
  if (trouble !== undefined) return unavailable(`${what}; ${trouble}`, []);
  // A stream may deliver messages for lower heights, or a long one over a slow connection: that is progress.
  const forMs = edi?.state.lateMs();
  return { height, message: what, code: undefined, ...(forMs === undefined ? {} : { forMs }) };
}

function because(height: number, what: string, troubles: readonly NodeTrouble[], clock: Clock): HeldUp {
  const code = troubles.length === 0 ? undefined : codeOf(troubles);
  return { height, message: withTroubles(what, troubles, clock), code };
}

/**
 * The code for the troubles of one request, by severity: wrong data, no proof, a refusal, no answer, a denial. After a denial, it
 * may just be too early.
 */
export function codeOf(troubles: readonly NodeTrouble[]): ReadinessCode {
  const kinds = new Set(troubles.map(({ kind }) => kind));
  if (kinds.has('invalid')) return 'upstream_invalid';
  if (kinds.has('unproven')) return 'unproven';
  if (kinds.has('refused') || kinds.has('rate_limited')) return 'upstream_refusing';
  return kinds.has('denied') && !kinds.has('unreachable') ? 'upstream_refusing' : 'upstream_unreachable';
}

/** The state `what`, and after a colon the troubles, if there are any. */
export function withTroubles(what: string, troubles: readonly NodeTrouble[], clock: Clock): string {
  return troubles.length === 0 ? what : `${what}: ${describeTroubles(troubles, clock)}`;
}

/** What is slow to write, in words. */
export function writesFor(ms: number, { trouble }: Surroundings['store']): string {
  return `the ${trouble === undefined ? 'disk' : 'database'} has been writing one batch for ${wholeSeconds(ms)} s`;
}

/** Node, message, count and start, for the first nodes; empty when there is no trouble. */
export function describeTroubles(troubles: readonly NodeTrouble[], clock: Clock): string {
  const named = troubles.slice(0, NODES_NAMED).map(({ node, said, count, sinceMs }) => {
    const words = said.includes(node) ? said : `${node} ${said}`;
    const times = count === 0 ? '' : count === 1 ? 'once, ' : `${count} times `;
    return `${words} (${times}since ${timeOf(sinceMs, clock)})`;
  });
  const more = troubles.length - NODES_NAMED;
  return named.join('; ') + (more > 0 ? `; and ${more} more nodes` : '');
}

/** A monotonic time as the hour of the day, UTC. */
export function timeOf(monotonicMs: number, clock: Clock): string {
  const wallMs = clock.now() - (clock.monotonic() - monotonicMs);
  return `${new Date(wallMs).toISOString().slice(11, 19)} UTC`;
}
