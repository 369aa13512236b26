import type { NodeTrouble } from '../../access/index.js';
import type { DaemonConfig } from '../../config/index.js';
import type { ChainTrouble } from '../../finality/index.js';
import { consistent, formatDuration } from '../../observability/index.js';
import type { Finding, ReadinessCode } from '../../observability/index.js';
import { finalBlock } from '../threads/readableIndex.js';
import type { DaemonState } from './DaemonState.js';
import { codeOf, describeTroubles, timeOf, withTroubles } from './heldUp.js';
import type { HeldUp } from './heldUp.js';

/** After this time a missing height counts as held up, and a known cause is reported. */
const HELD_UP_AFTER_MS = 5_000;
/** After this time it is reported even without a known cause. */
const SILENT_FOR_MS = 8_000;
/** A write to the disk takes milliseconds; while LevelDB compacts, a second or two. */
const COMMIT_STALLED_AFTER_MS = 8_000;
/** Codes that findings about the store report already. */
const STORE_CODES: readonly string[] = [
  ...['store_stalled', 'database_unreachable', 'disk_low', 'descriptors_low'],
];
/** Free space that is enough on any disk, and the share that is enough on a small disk. */
const DISK_ENOUGH_BYTES = 1024 ** 3;
const DISK_ENOUGH_SHARE = 0.1;
/** Execution data exists up to the sealed head, which moves in leaps; waiting this long for it is normal. */
const SEALING_PAUSES_MS = 10_000;
/** A head that no node has reported for this long is unconfirmed: the lag is unknown. */
const HEAD_UNCONFIRMED_AFTER_MS = 8_000;
/** While starting, a known cause of the wait gets its own code after this time. */
const START_TAKES_MS = 5_000;
/** A chain whose head rose this recently continues, whatever lagging nodes report. */
const HEAD_RISES_WITHIN_MS = 5_000;
/** Once the head is known, a start continues sooner than this without the answers of some nodes. */
const START_HELD_UP_AFTER_MS = 8_500;
/** Ids named at most in one message: a block may lack a thousand. */
const UNRESOLVABLE_IDS_NAMED = 3;

/** What a part of the daemon says; `undefined`: nothing is wrong with it. */
type Said = { readonly message: string; readonly height?: number } | undefined;

function finding(code: ReadinessCode, said: Said | string): Finding | undefined {
  return typeof said === 'string' ? { code, message: said } : said && { code, ...said };
}

export type Diagnosis = ReturnType<typeof diagnose>;

/**
 * Why the daemon is not ready, read from its parts whenever asked: without waiting, store or network. One rule: the cause that
 * holds up the lowest missing height is named within ten seconds, with node, message, count and start. A head that does not move
 * while nodes answer is a quiet chain, not an alarm, unless `ready.maxHeadAgeSeconds` says so.
 */
export function diagnose(daemon: DaemonState) {
  const { config, parts } = daemon;
  const { clock, listener, network, store, window } = parts;
  const startedAtMs = clock.monotonic();
  let limits = config.ready;
  let watermark = store.latestIndexedHeight();
  /** When the watermark moved last, or there was nothing to do; as of the last `noteProgress`. */
  let progressAtMs = startedAtMs;
  /** When the watermark moved last, or the start. */
  let indexedAtMs = startedAtMs;
  /** Since when the nodes' head is far below what is indexed. */
  let headBehindSinceMs: number | undefined;

  /** Takes effect at the next check. */
  const setLimits = (next: DaemonConfig['ready']): void => void (limits = next);

  /** False while no node confirms the head: then the lag of the index is unknown. */
  const isHeadConfirmed = (): boolean => (listener.lastAnswerAgeMs() ?? Infinity) < HEAD_UNCONFIRMED_AFTER_MS;

  /** Milliseconds since the watermark moved, or since the start. */
  const indexedAgeMs = (): number => {
    noteProgress();
    return clock.monotonic() - indexedAtMs;
  };

  /** What the lowest missing height waits for, and since when; `undefined` when there is none. */
  const waitingFor = (): (HeldUp & { readonly sinceMs: number }) | undefined => {
    noteProgress();
    const heldUp = daemon.phase === 'running' ? lowestHeldUp() : undefined;
    return heldUp && { ...heldUp, sinceMs: progressAtMs };
  };

  /** At most one for each code, and none that contradicts another. Call it about every second. */
  const findings = (): readonly Finding[] => {
    noteProgress();
    const { phase } = daemon;
    if (phase === 'stopping') return [{ code: 'stopping', message: 'the daemon is stopping' }];
    const outOfDescriptors = parts.descriptors.trouble();
    const found: (Finding | undefined)[] = [
      finding('descriptors_low', outOfDescriptors),
      ...[starting(), upstream(), startHeldUp(), chain()],
      ...(phase === 'running' ? running() : []),
      finding('reader_down', parts.readers?.down()),
      finding('disk_low', disk()),
      finding('database_unreachable', databaseTrouble()),
      finding('leader_lost', daemon.leaderWatch.lost()),
    ];
    // What follows from a lack of descriptors is not a cause of its own.
    const isCause = ({ message }: Finding): boolean =>
      outOfDescriptors === undefined || !/\bE[MN]FILE\b/.test(message);
    const known = found.filter((each) => each !== undefined).filter(isCause);
    return consistent(known);
  };

  /** Call it when the watermark has moved, and regularly: a daemon without work makes progress by definition. */
  const noteProgress = (): void => {
    const indexed = store.latestIndexedHeight();
    const target = daemon.phase === 'running' ? window.target() : undefined;
    const isIdle = target === undefined || indexed >= target || waitsForSealing(indexed + 1);
    const nowMs = clock.monotonic();
    if (indexed !== watermark) progressAtMs = indexedAtMs = nowMs;
    else if (isIdle) progressAtMs = nowMs;
    watermark = indexed;
  };

  /** Execution data follows the sealed head, some seconds behind the finalized one. */
  const waitsForSealing = (height: number): boolean => {
    if (!config.ediOnly || height <= (listener.sealedHeight() ?? -1)) return false;
    const movesMs = listener.sealedAdvanceAgeMs() ?? clock.monotonic() - startedAtMs;
    return movesMs < SEALING_PAUSES_MS;
  };

  const running = (): (Finding | undefined)[] => {
    const head = listener.finalizedHeight();
    if (head === undefined) return [];
    const chain = daemon.line?.blocks.chainTrouble();
    const isMismatch = chain?.code === 'parent_mismatch';
    const mismatch = isMismatch ? misfit(chain) : undefined;
    const unconfirmed = (isMismatch ? undefined : misfit(chain)) ?? undecidedSpork();
    return [
      startHeightAhead(head),
      behind(),
      finding('parent_mismatch', mismatch),
      finding('proof_failed', proofFailed()),
      finding('not_vouched', unconfirmed),
      headStale(head),
      storeStalled(),
      // Those have their own codes.
      (mismatch ?? unconfirmed ?? network.chain.chainReplaced()) === undefined ? heldUp() : undefined,
      finding('unresolvable', unresolvable()),
    ];
  };

  /** What does not fit, which nodes sent it, and how to fix it. */
  const misfit = (trouble: ChainTrouble | undefined): Said => {
    if (trouble === undefined) return undefined;
    const { height, what, fix } = trouble;
    const words = describeTroubles(daemon.line?.blocks.heldUpBy()?.troubles ?? [], clock);
    return { height, message: words === '' ? `${what}: ${fix}` : `${what}: ${words}; ${fix}` };
  };

  /** A reported spork that is not confirmed, and that the next block waits for. */
  const undecidedSpork = (): Said => {
    const block = daemon.line?.blocks.heldUpBy();
    if (block?.isUnserved !== true) return undefined;
    const spork = network.heights.undecidedSporkAt(block.height);
    if (spork === undefined) return undefined;
    const { awaited, rootHeight, tellers } = spork;
    const reporters = tellers.join(', ');
    return {
      height: block.height,
      message:
        `a spork at height ${rootHeight} is reported by ${reporters} but is not in config/sporks.json, and it is not known yet whether ` +
        `the chain continues there without one (asked: ${awaited.join(', ')}). If there is such a spork, confirm it with ` +
        `--access-spork-root ${rootHeight}; if not, leave out --access-node ${reporters}`,
    };
  };

  /** The nodes gave a chain that consensus nodes did not sign. */
  const proofFailed = (): Said => {
    const failed = parts.prover?.status().failed;
    if (failed === undefined) return undefined;
    const { height, reason, rewindTo } = failed;
    return {
      height,
      message: `the certificate in block ${height} is invalid: ${reason}; the chain is proven up to ${rewindTo}: rewind to that height, and name nodes that follow the chain`,
    };
  };

  const unresolvable = (): Said => {
    const afterMs = config.requester.unresolvableAfterMs;
    const [lowest, ...others] = daemon.line?.explainer.unresolvable(afterMs) ?? [];
    if (lowest === undefined) return undefined;
    const { ageMs, height, ids } = lowest;
    const unnamed = ids.length - UNRESOLVABLE_IDS_NAMED;
    const named =
      ids.slice(0, UNRESOLVABLE_IDS_NAMED).join(', ') + (unnamed > 0 ? ` and ${unnamed} more` : '');
    const besides = others.length > 0 ? `; ${others.length} more heights as well` : '';
    const why = daemon.heldUpAt(height)?.message ?? '';
    return {
      height,
      message: `height ${height} has lacked collection ${named} for ${formatDuration(ageMs / 1000)} (${why})${besides}`,
    };
  };

  /** What the lowest missing height waits for; `undefined` when there is none. */
  const lowestHeldUp = (): HeldUp | undefined => {
    const height = store.latestIndexedHeight() + 1;
    if (daemon.line === undefined || height > (window.target() ?? -1)) return undefined;
    const trouble = store.trouble?.();
    // Without the database nothing continues, whatever else is wrong.
    if (trouble !== undefined) return { height, message: trouble, code: 'database_unreachable' };
    return daemon.heldUpAt(height);
  };

  /** Why a database does not answer, of those that hold the index and the work; `undefined` if there is none. */
  const databaseTrouble = (): string | undefined => {
    const { queue, replica } = parts;
    return store.trouble && (store.trouble() ?? queue?.trouble() ?? replica?.trouble?.());
  };

  const startHeightAhead = (head: number): Finding | undefined => {
    const first = store.meta()?.firstHeight;
    if (first === undefined || first <= head || store.latestIndexedHeight() >= first) return undefined;
    return {
      code: 'start_height_ahead',
      height: first,
      message: `waiting for the chain to reach height ${first}, the first of this store; its head is ${head}`,
    };
  };

  const behind = (): Finding | undefined => {
    const { maxLag } = limits;
    const target = window.target();
    const indexed = store.latestIndexedHeight();
    const watermark = Math.min(
      indexed,
      Math.max(provenTo() ?? indexed, (store.meta()?.firstHeight ?? 0) - 1),
    );
    const lag = (target ?? watermark) - watermark;
    // While no node confirms the head, the lag is unknown.
    if (lag <= maxLag || !isHeadConfirmed()) return undefined;
    const why =
      watermark === indexed
        ? ''
        : `; proof.finality is proven, and finality is proven only up to ${watermark}: ${whyNotProven()}`;
    return {
      code: 'behind',
      message: `${lag} heights behind the head ${target ?? ''}; ready at ${maxLag} or fewer${why}`,
      height: watermark,
    };
  };

  /** What readers may read at most; `undefined` where they may read what is indexed. */
  const provenTo = (): number | undefined => {
    const isLimited = config.proof.finality === 'proven';
    return isLimited ? (finalBlock(parts)?.height ?? -1) : undefined;
  };

  const whyNotProven = (): string => {
    const { prover } = parts;
    return prover === undefined
      ? 'the process that follows the chain proves it, and has proven nothing more'
      : (prover.status().reason ?? 'the newest blocks say nothing more');
  };

  const headStale = (head: number): Finding | undefined => {
    const { maxHeadAgeSeconds } = limits;
    const ageMs = listener.lastAdvanceAgeMs();
    if (maxHeadAgeSeconds === 0 || ageMs === undefined || ageMs < maxHeadAgeSeconds * 1000) return undefined;
    // Nobody says that it stands still: nobody says anything.
    if (!isHeadConfirmed()) return undefined;
    return {
      code: 'head_stale',
      height: head,
      message: `the head has stood at ${head} for ${Math.floor(ageMs / 1000)} s; ready.maxHeadAgeSeconds allows ${maxHeadAgeSeconds}`,
    };
  };

  const storeStalled = (): Finding | undefined => {
    const begunAtMs = daemon.line?.indexer.commitStartedAtMs();
    const forMs = begunAtMs === undefined ? 0 : clock.monotonic() - begunAtMs;
    const isKnown = (databaseTrouble() ?? parts.descriptors.trouble()) !== undefined;
    if (forMs < COMMIT_STALLED_AFTER_MS || isKnown) return undefined;
    const [writer, advice] =
      store.trouble === undefined
        ? ['disk', '']
        : ['database', '; its pg_stat_activity shows what it waits for'];
    return {
      code: 'store_stalled',
      height: store.latestIndexedHeight() + 1,
      message: `the ${writer} has been writing one batch for ${Math.floor(forMs / 1000)} s${advice}`,
    };
  };

  const heldUp = (): Finding | undefined => {
    const stillMs = clock.monotonic() - progressAtMs;
    if (stillMs < HELD_UP_AFTER_MS) return undefined;
    const heldUp = lowestHeldUp();
    if (heldUp === undefined || STORE_CODES.includes(heldUp.code ?? '')) return undefined;
    // Nodes that do not answer serve nothing: that has its own finding.
    if (heldUp.because === 'unserved' && !isHeadConfirmed()) return undefined;
    const { height, message } = heldUp;
    if (heldUp.code !== undefined) return { code: heldUp.code, height, message };
    if (stillMs < SILENT_FOR_MS) return undefined;
    const ofNodes = config.ediOnly ? 'edi_unavailable' : 'upstream_unreachable';
    const code = heldUp.because === 'complete' ? 'store_stalled' : ofNodes;
    return { code, height, message: `${message}: nothing has come for ${Math.floor(stillMs / 1000)} s` };
  };

  const disk = (): Said => {
    const { diskWatch } = parts;
    const paused = diskWatch?.pause();
    if (paused !== undefined) return { height: store.latestIndexedHeight() + 1, message: paused.message };
    const { freeBytes = Infinity, sizeBytes = 0 } = diskWatch?.disk() ?? {};
    if (freeBytes >= Math.min(DISK_ENOUGH_BYTES, sizeBytes * DISK_ENOUGH_SHARE)) return undefined;
    const free = Math.floor(freeBytes / 1024 ** 2);
    return { message: `${free} MiB are left on the disk of the data directory` };
  };

  const starting = (): Finding | undefined => {
    const isStarting = daemon.phase === 'starting';
    if (!isStarting && listener.finalizedHeight() !== undefined) return undefined;
    const what = isStarting
      ? 'the daemon is starting'
      : `no ${network.heights.source} has reported its finalized head yet`;
    return { code: 'starting', message: withTroubles(what, upstreamTroubles(), clock) };
  };

  /** The head is not reported, or no longer. */
  const upstream = (): Finding | undefined => {
    const silentMs = listener.lastAnswerAgeMs();
    const waitedMs = silentMs ?? clock.monotonic() - startedAtMs;
    const isReplaced = network.chain.chainReplaced() !== undefined;
    // Nodes of another chain are not asked for their head: what they said of it before is old.
    const troubles = isReplaced ? network.identityTroubles() : upstreamTroubles();
    const limitMs =
      silentMs === undefined && troubles.length > 0 ? START_TAKES_MS : HEAD_UNCONFIRMED_AFTER_MS;
    if (waitedMs < limitMs) return undefined;
    const code = codeOf(troubles);
    if (isReplaced && code === 'upstream_unreachable') return undefined;
    const { source } = network.heights;
    const silent = `no ${source} has reported its head for ${Math.floor(waitedMs / 1000)} s`;
    const what = withTroubles(silent, troubles, clock);
    const key = source === 'peer' ? 'peers' : 'accessNodes';
    const advice = `; check that ${key} names ${source}s that run and can be reached from here`;
    return { code, message: code === 'upstream_unreachable' ? what + advice : what };
  };

  /** The head is known, but the start still waits for the nodes to say where their chain begins. */
  const startHeldUp = (): Finding | undefined => {
    const isStarting = daemon.phase === 'starting';
    if (!isStarting || clock.monotonic() - startedAtMs < START_HELD_UP_AFTER_MS) return undefined;
    const troubles = network.identityTroubles();
    if (troubles.length === 0) return undefined;
    const what = 'the start waits for the nodes to identify themselves';
    return { code: codeOf(troubles), message: withTroubles(what, troubles, clock) };
  };

  const upstreamTroubles = (): readonly NodeTrouble[] => {
    const identity = network.identityTroubles();
    const named = new Set(identity.map(({ node }) => node));
    return [...identity, ...listener.headTroubles().filter(({ node }) => !named.has(node))];
  };

  const chain = (): Finding | undefined => {
    const replaced = network.chain.chainReplaced();
    if (replaced !== undefined) {
      const silent = network.identityTroubles().filter(({ kind }) => kind === 'unreachable');
      const words = silent.length === 0 ? '' : ` (not heard: ${describeTroubles(silent, clock)})`;
      return { code: 'chain_replaced', message: replaced.message + words };
    }
    const behind = network.chain.headBelow();
    const rises = (listener.lastAdvanceAgeMs() ?? Infinity) < HEAD_RISES_WITHIN_MS;
    // No node has reported a head since it rose: what is known is old.
    const isOld = (listener.lastAnswerAgeMs() ?? Infinity) >= HEAD_RISES_WITHIN_MS;
    if (behind === undefined || rises || isOld) {
      headBehindSinceMs = undefined;
      return undefined;
    }
    const { head, watermark } = behind;
    headBehindSinceMs ??= clock.monotonic();
    return {
      code: 'head_behind',
      height: head,
      message: `the nodes' head, ${head}, is ${watermark - head} heights below what is indexed, ${watermark}, since ${timeOf(headBehindSinceMs, clock)}: they are being restored, or lag far behind`,
    };
  };

  return { setLimits, isHeadConfirmed, indexedAgeMs, waitingFor, findings, noteProgress };
}
