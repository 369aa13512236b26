import type { NodeTrouble } from '../../access/index.js';
import type { StatusDocument } from '../../api/index.js';
import type { DaemonConfig } from '../../config/index.js';
import { consistent, formatDuration, readinessCodes, wholeSeconds } from '../../observability/index.js';
import type { Finding, LiveTerminal, ReadinessCode } from '../../observability/index.js';
import type { SharedQueue } from '../../ranges/index.js';
import type { Output } from '../../runtime/index.js';
import type { IndexStore } from '../../storage/index.js';
import type { SecretFiles } from '../guard/openSecretFiles.js';
import type { Descriptors } from '../lifecycle/watchDescriptors.js';
import type { IndexingLine } from '../line/buildLine.js';
import type { IndexingParts } from '../line/runIndexing.js';
import type { ReaderThread } from '../threads/keepReaderThread.js';
import { finalBlock } from '../threads/readableIndex.js';
import { codeOf, describeTroubles, HELD_UP_AFTER_MS, lineHeldUp } from './heldUp.js';
import { SILENT_FOR_MS, timeOf, withTroubles, writesFor, type HeldUp } from './heldUp.js';
import type { DiskWatch } from './watches/watchDisk.js';

/** A write to the disk takes milliseconds; while LevelDB compacts, a second or two. */
const COMMIT_STALLED_AFTER_MS = 8_000;
/** Free space that is enough on any disk, and the share that is enough on a small disk. */
const DISK_ENOUGH_BYTES = 1024 ** 3;
const DISK_ENOUGH_SHARE = 0.1;
/** Execution data exists up to the sealed head, which moves in leaps; waiting this long for it is normal. */
const SEALING_PAUSES_MS = 10_000;
/** A head that no node has reported for this long is unconfirmed: the lag is unknown. */
const HEAD_UNCONFIRMED_AFTER_MS = 8_000;
/** While starting, a known cause of the wait gets its own code after this time. */
const START_TAKES_MS = 5_000;
/** A node that has stopped failing reports its head within this time, or fails again. */
const HEAD_REPORTED_WITHIN_MS = 6_000;
/** A chain whose head rose this recently is advancing, whatever lagging nodes report. */
const HEAD_RISES_WITHIN_MS = 5_000;
/** Once the head is known, a start continues sooner than this without the answers of some nodes. */
const START_HELD_UP_AFTER_MS = 8_500;
/** Within this time another process takes over from a leader that is gone. */
const LEADER_LOST_AFTER_MS = 12_000;
/** The most ids named in one message: a block may lack a thousand. */
const UNRESOLVABLE_IDS_NAMED = 3;

/** Everything that a daemon consists of. */
export interface DaemonParts extends IndexingParts {
  readonly descriptors: Descriptors;
  /** Absent: the index is in a database. */
  readonly diskWatch: DiskWatch | undefined;
  readonly storeBytes: () => number | undefined;
  readonly secretFiles: SecretFiles;
  /** Standard output and standard error. */
  readonly outputs: readonly Output[];
  /** Where the progress line is redrawn. */
  readonly terminal: LiveTerminal | undefined;
  /** Shared with other processes, if they share the store. */
  readonly queue: SharedQueue | undefined;
  /** The database that readers use instead of the store. */
  readonly replica: IndexStore | undefined;
  /** Absent when no readers are served. */
  readonly readers: ReaderThread | undefined;
}

/** `undefined` without a message. */
function finding(code: ReadinessCode, message: string | undefined, height?: number): Finding | undefined {
  return message === undefined ? undefined : { code, message, ...(height === undefined ? {} : { height }) };
}

export type Diagnosis = ReturnType<typeof diagnose>;

/**
 * Why the daemon is not ready, read from its parts on demand, without waiting, store or network. One rule: the cause that
 * holds up the lowest missing height is named within ten seconds, with node, message, count and start. A head that does not move
 * while nodes answer is a quiet chain, not an alarm, unless it exceeds `ready.maxHeadAgeSeconds`.
 */
export function diagnose(config: DaemonConfig, parts: DaemonParts) {
  const { clock, descriptors, leadership, lifecycle, listener, network, prover, store, window } = parts;
  const startedAtMs = clock.monotonic();
  let line: IndexingLine | undefined;
  let hasBegun = false;
  let watermark = store.latestIndexedHeight();
  /** When the watermark moved last, or there was nothing to do; as of the last `noteProgress`. */
  let progressAtMs = startedAtMs;
  /** When the watermark moved last, or the start. */
  let indexedAtMs = startedAtMs;
  /** Since when the nodes' head is far below what is indexed. */
  let headBehindSinceMs: number | undefined;
  /** When a leader was last seen, or there was a known reason to see none. */
  let leaderSeenAtMs = startedAtMs;

  const ageOf = (sinceMs: number): number => clock.monotonic() - sinceMs;
  /** What arrived during a standstill of the process, or an outage of its database, is seen only afterwards: waits count from then. */
  let awakeMs = Infinity;
  const waitedMs = (ageMs: number): number => Math.min(ageMs, awakeMs);
  let databaseAwayAtMs = -Infinity;
  const heldUpMs = (ageMs: number): number => Math.min(waitedMs(ageMs), ageOf(databaseAwayAtMs));
  const answerAgeMs = (): number => listener.finalized.answerAgeMs() ?? Infinity;
  /** False while no node confirms the head: then the lag of the index is unknown. */
  const isHeadConfirmed = (): boolean => answerAgeMs() < HEAD_UNCONFIRMED_AFTER_MS;

  /** How much of the daemon is up. */
  const phase = (): 'starting' | 'running' | 'stopping' => {
    if (lifecycle.signal.aborted) return 'stopping';
    const waitsForLeader = line === undefined && store.meta() === undefined;
    return hasBegun && !waitsForLeader ? 'running' : 'starting';
  };

  /** Call it when the watermark has moved, and regularly: a daemon without work makes progress by definition. */
  const noteProgress = (): void => {
    const indexed = store.latestIndexedHeight();
    const target = phase() === 'running' ? window.target() : undefined;
    const { sealed } = listener;
    // Execution data follows the sealed head, some seconds behind the finalized one.
    const isSealed = !config.ediOnly || indexed < (sealed.height ?? -1);
    const waitsForSealing = !isSealed && (sealed.advanceAgeMs() ?? ageOf(startedAtMs)) < SEALING_PAUSES_MS;
    const isIdle = target === undefined || indexed >= target || waitsForSealing;
    const nowMs = clock.monotonic();
    if (indexed !== watermark) progressAtMs = indexedAtMs = nowMs;
    else if (isIdle) progressAtMs = nowMs;
    watermark = indexed;
  };

  /** What a height that is not durable waits for; `undefined` while no line runs. */
  const heldUpAt = (height: number): HeldUp | undefined => line && lineHeldUp(height, line, parts, config);

  /** What the lowest missing height waits for; `undefined` when there is none. */
  const lowestHeldUp = (): HeldUp | undefined => {
    const height = store.latestIndexedHeight() + 1;
    return height > (window.target() ?? -1) ? undefined : heldUpAt(height);
  };

  /** What the lowest missing height waits for, as `/status` has it; `undefined` when there is none. */
  const waitingFor = (): StatusDocument['waitingFor'] | undefined => {
    noteProgress();
    const heldUp = phase() === 'running' ? lowestHeldUp() : undefined;
    if (heldUp === undefined) return undefined;
    const { height, message } = heldUp;
    return { height, message, ageSeconds: ageOf(progressAtMs) / 1000 };
  };

  /**
   * At most one for each code, and none that contradicts another. Call it about every second. `sinceStandstillMs`: the time
   * since the process stood still.
   */
  const findings = (sinceStandstillMs = Infinity): readonly Finding[] => {
    awakeMs = sinceStandstillMs;
    if (store.trouble?.() !== undefined) databaseAwayAtMs = clock.monotonic();
    noteProgress();
    if (phase() === 'stopping') return [{ code: 'stopping', message: 'the daemon is stopping' }];
    const outOfDescriptors = descriptors.trouble();
    const found: (Finding | undefined)[] = [
      finding('descriptors_low', outOfDescriptors),
      ...[starting(), upstream(), startHeldUp(), replacedChain(), headBehind()],
      ...(phase() === 'running' ? running() : []),
      finding('reader_down', parts.readers?.down()),
      diskLow(),
      finding(
        'database_unreachable',
        databaseTrouble() ?? parts.replica?.trouble?.() ?? parts.readers?.trouble(),
      ),
      leaderLost(),
    ];
    // Consequences of a lack of descriptors are not causes.
    const isCause = ({ message }: Finding): boolean =>
      outOfDescriptors === undefined || !/\bE[MN]FILE\b/.test(message);
    return consistent(found.filter((each) => each !== undefined).filter(isCause));
  };

  const running = (): (Finding | undefined)[] => {
    const head = listener.finalized.height;
    if (head === undefined) return [];
    const unfit = misfit() ?? undecidedSpork();
    const early = [startHeightAhead(head), behind(), unfit, proofFailed(), headStale(head), storeStalled()];
    // Those have their own codes.
    const isOwn = (unfit ?? network.chainReplaced()) !== undefined;
    return [...early, isOwn ? undefined : heldUp(), unresolvable()];
  };

  /** What does not match, which nodes sent it, and how to fix it. */
  const misfit = (): Finding | undefined => {
    const trouble = line?.blocks.chainTrouble();
    if (trouble === undefined) return undefined;
    const { code, height, what, fix } = trouble;
    const words = describeTroubles(line?.blocks.heldUpBy()?.troubles ?? [], clock);
    return finding(code, words === '' ? `${what}: ${fix}` : `${what}: ${words}; ${fix}`, height);
  };

  /** A reported spork that is not confirmed, and that the start or the next block waits for. */
  const undecidedSpork = (): Finding | undefined => {
    const block = line?.blocks.heldUpBy();
    const next = block?.isUnserved === true ? block.height : -1;
    const spork = network.verifier.undecidedAt(phase() === 'starting' ? Infinity : next);
    if (spork === undefined) return undefined;
    const { awaited, rootHeight } = spork;
    const reporters = spork.reporters.join(', ');
    const asked = awaited.length === 0 ? '' : ` (asked: ${awaited.join(', ')})`;
    const message =
      `a spork at height ${rootHeight} is reported by ${reporters} but is not in config/sporks.json, and it is not known yet whether ` +
      `the chain continues there without one${asked}. If there is such a spork, confirm it with ` +
      `--access-spork-root ${rootHeight}; if not, leave out --access-node ${reporters}`;
    return finding('not_vouched', message, block?.height);
  };

  /** The nodes gave a chain that consensus nodes did not sign. */
  const proofFailed = (): Finding | undefined => {
    const failed = prover?.status().failed;
    if (failed === undefined) return undefined;
    const { height, reason, rewindTo } = failed;
    const others = network
      .named()
      .flatMap(({ foreign, node }) => (foreign?.reason === 'block' ? node.name : []));
    const perhaps = others.length === 0 ? '' : ` (perhaps ${others.join(', ')}, left out for other blocks)`;
    const message = `the certificate in block ${height} is invalid: ${reason}; the chain is proven up to ${rewindTo}: rewind to that height, and name only nodes that follow the chain${perhaps}`;
    return finding('proof_failed', message, height);
  };

  const unresolvable = (): Finding | undefined => {
    const afterMs = config.requester.unresolvableAfterMs;
    const [lowest, ...others] = line?.explainer.unresolvable(afterMs) ?? [];
    if (lowest === undefined) return undefined;
    const { ageMs, height, ids } = lowest;
    const unnamed = ids.length - UNRESOLVABLE_IDS_NAMED;
    const named =
      ids.slice(0, UNRESOLVABLE_IDS_NAMED).join(', ') + (unnamed > 0 ? ` and ${unnamed} more` : '');
    const besides = others.length > 0 ? `; ${others.length} more heights as well` : '';
    const why = heldUpAt(height)?.message ?? '';
    const message = `height ${height} has lacked collection ${named} for ${formatDuration(ageMs / 1000)} (${why})${besides}`;
    return finding('unresolvable', message, height);
  };

  /** Why the database does not answer, from the store or else the queue; `undefined` if it does, or there is none. Readers may use another. */
  const databaseTrouble = (): string | undefined => store.trouble?.() ?? parts.queue?.trouble();

  const startHeightAhead = (head: number): Finding | undefined => {
    const first = store.meta()?.firstHeight;
    if (first === undefined || first <= head || store.latestIndexedHeight() >= first) return undefined;
    const message = `waiting for the chain to reach height ${first}, the first of this store; its head is ${head}`;
    return finding('start_height_ahead', message, first);
  };

  const behind = (): Finding | undefined => {
    const target = window.target();
    const indexed = store.latestIndexedHeight();
    // What readers may read at most.
    const provenTo = config.proof.finality === 'proven' ? (finalBlock(parts)?.height ?? -1) : indexed;
    const copied = parts.replica?.latestIndexedHeight() ?? indexed;
    const beforeFirst = (store.meta()?.firstHeight ?? 0) - 1;
    const readable = Math.min(indexed, copied, Math.max(provenTo, beforeFirst));
    const lag = (target ?? readable) - readable;
    // While no node confirms the head, the lag is unknown; a standstill alone does not make the daemon ready.
    if (lag <= config.ready.maxLag || waitedMs(answerAgeMs()) >= HEAD_UNCONFIRMED_AFTER_MS) return undefined;
    const proven = readable === beforeFirst ? 'of no block yet' : `only up to ${readable}`;
    const whyNotProven =
      prover === undefined
        ? 'the process that follows the chain proves it, and has proven nothing more'
        : (prover.status().reason ?? 'the newest blocks prove nothing more');
    const why =
      indexed - copied > config.ready.maxLag
        ? `; readers use api.store, which has come only to ${copied}: it may no longer be a replica, or receive nothing`
        : readable === Math.min(indexed, copied)
          ? ''
          : `; proof.finality is proven, and finality is proven ${proven}: ${whyNotProven}`;
    const reporter = network.soleReporter(readable + config.ready.maxLag);
    const head = `the head ${target ?? ''}${reporter === undefined ? '' : `, which only ${reporter} reports`}`;
    const message = `${lag} heights behind ${head}; ready at ${config.ready.maxLag} or fewer${why}`;
    return finding('behind', message, readable < 0 ? undefined : readable);
  };

  const headStale = (head: number): Finding | undefined => {
    const { maxHeadAgeSeconds } = config.ready;
    const ageMs = listener.finalized.advanceAgeMs() ?? 0;
    if (maxHeadAgeSeconds === 0 || ageMs < maxHeadAgeSeconds * 1000 || !isHeadConfirmed()) return undefined;
    const message = `the head has stood at ${head} for ${wholeSeconds(ageMs)} s; ready.maxHeadAgeSeconds allows ${maxHeadAgeSeconds}`;
    return finding('head_stale', message, head);
  };

  const storeStalled = (): Finding | undefined => {
    const forMs = heldUpMs(ageOf(line?.indexer.commitStartedAtMs() ?? Infinity));
    const isKnown = (store.trouble?.() ?? descriptors.trouble()) !== undefined;
    if (forMs < COMMIT_STALLED_AFTER_MS || isKnown) return undefined;
    const advice = store.trouble === undefined ? '' : '; its pg_stat_activity shows what it waits for';
    const message = writesFor(forMs, store) + advice;
    return finding('store_stalled', message, store.latestIndexedHeight() + 1);
  };

  const heldUp = (): Finding | undefined => {
    const stillMs = heldUpMs(ageOf(progressAtMs));
    if (stillMs < HELD_UP_AFTER_MS) return undefined;
    const lowest = lowestHeldUp();
    if (lowest === undefined) return undefined;
    const { because, code, forMs = stillMs, height, message } = lowest;
    // Findings about the store have that already.
    if (because === 'store' && (code ?? store.trouble?.()) !== undefined) return undefined;
    // Nodes that do not answer serve nothing: that has its own finding.
    if (because === 'unserved' && !isHeadConfirmed()) return undefined;
    if (code !== undefined) return finding(code, message, height);
    const silentMs = Math.min(stillMs, forMs);
    if (silentMs < SILENT_FOR_MS) return undefined;
    const ofNodes = config.ediOnly ? 'edi_unavailable' : 'upstream_unreachable';
    const silent = `${message}, for ${wholeSeconds(silentMs)} s now`;
    return finding(because === 'store' ? 'store_stalled' : ofNodes, silent, height);
  };

  /** Whether a reason keeps blocks from becoming durable. Other reasons do not stop the line. */
  const holdsUp = ({ code }: Pick<Finding, 'code'>): boolean => {
    if (code === 'disk_low') return parts.diskWatch?.pause() !== undefined;
    if (code === 'database_unreachable') return store.trouble?.() !== undefined;
    if (code === 'reader_down' || code === 'proof_failed') return false;
    return readinessCodes[code].severity === 'trouble';
  };

  /** The process that leads, of those that share the store, as far as this one knows. */
  const leader = (): NonNullable<StatusDocument['cluster']>['leader'] => {
    const known = leadership.leader();
    if (known === undefined) return null;
    return { worker: known.id, host: known.host, ageSeconds: known.beatAgeMs / 1_000 };
  };

  const leaderLost = (): Finding | undefined => {
    const nowMs = clock.monotonic();
    const seen = leader();
    // Without its database no leader can be seen, and without nodes this process cannot lead yet: both are reported separately.
    const isKnown = databaseTrouble() !== undefined || (!hasBegun && config.roles.includes('live'));
    if (isKnown || store.shared?.isLeading() !== false) leaderSeenAtMs = nowMs;
    else if (seen !== null) leaderSeenAtMs = Math.max(leaderSeenAtMs, nowMs - seen.ageSeconds * 1_000);
    const forMs = nowMs - leaderSeenAtMs;
    if (forMs <= LEADER_LOST_AFTER_MS) return undefined;
    const who =
      seen === null
        ? `no process has led for ${wholeSeconds(forMs)} s`
        : `the process that leads, ${seen.worker} on ${seen.host}, has not been heard of for ${wholeSeconds(forMs)} s`;
    return finding('leader_lost', `${who}: new blocks are not indexed; start a process with the role live`);
  };

  const diskLow = (): Finding | undefined => {
    const paused = parts.diskWatch?.pause();
    if (paused !== undefined) return finding('disk_low', paused, store.latestIndexedHeight() + 1);
    const { freeBytes = Infinity, sizeBytes = 0 } = parts.diskWatch?.disk() ?? {};
    if (freeBytes >= Math.min(DISK_ENOUGH_BYTES, sizeBytes * DISK_ENOUGH_SHARE)) return undefined;
    const freeMib = Math.floor(freeBytes / 1024 ** 2);
    return finding('disk_low', `${freeMib} MiB are left on the disk of the data directory`);
  };

  const starting = (): Finding | undefined => {
    const isStarting = phase() === 'starting';
    if (!isStarting && listener.finalized.height !== undefined) return undefined;
    const what = isStarting
      ? 'the daemon is starting'
      : `no ${network.source} has reported its finalized head yet`;
    return finding('starting', withTroubles(what, upstreamTroubles(), clock));
  };

  /** When nodes were first asked: only after the servers listen, which takes a while on a slow machine. */
  let askedAtMs = Infinity;
  /** Why no head was reported, by the latest troubles of the nodes. */
  let latest = { troubles: [] as readonly NodeTrouble[], atMs: -Infinity };
  /** No node reports the head, or none does any longer. */
  const upstream = (): Finding | undefined => {
    const silentMs = listener.finalized.answerAgeMs();
    for (const member of network.named())
      if (member.askedAtMs >= startedAtMs) askedAtMs = Math.min(askedAtMs, member.askedAtMs);
    const forMs = waitedMs(silentMs ?? ageOf(askedAtMs));
    const isReplaced = network.chainReplaced() !== undefined;
    // Nodes of another chain are not asked for their head: their earlier troubles with it are old.
    let troubles = isReplaced ? network.identityTroubles() : upstreamTroubles();
    if (troubles.length > 0) latest = { troubles, atMs: clock.monotonic() };
    // A node that has stopped failing but has not reported its head yet is not unreachable: a silent one is in trouble by then.
    else if (ageOf(latest.atMs) < HEAD_REPORTED_WITHIN_MS) ({ troubles } = latest);
    const isCauseKnown = silentMs === undefined && troubles.length > 0;
    if (forMs < (isCauseKnown ? START_TAKES_MS : HEAD_UNCONFIRMED_AFTER_MS)) return undefined;
    const code = codeOf(troubles);
    const silent = `no ${network.source} has reported its head for ${wholeSeconds(forMs)} s`;
    const key = network.source === 'peer' ? 'peers' : 'accessNodes';
    const advice = `; check that ${key} names ${network.source}s that run and can be reached from here`;
    const what = withTroubles(silent, troubles, clock);
    return finding(code, code === 'upstream_unreachable' ? what + advice : what);
  };

  /** The start still waits for the nodes to report where their chain begins, or whether there is a spork. */
  const startHeldUp = (): Finding | undefined => {
    if (phase() !== 'starting' || ageOf(startedAtMs) < START_HELD_UP_AFTER_MS) return undefined;
    const troubles = network.identityTroubles();
    if (troubles.length === 0) return undecidedSpork() ?? headLacked();
    const isRootWanted = config.startHeight === 'root' && listener.finalized.height !== undefined;
    const root = 'give the root of the live spork (name one that has it, or a height for --start-height)';
    const what = `the start waits for the nodes to ${isRootWanted ? root : 'identify themselves'}`;
    return finding(codeOf(troubles), withTroubles(what, troubles, clock));
  };

  /** The index would begin at a reported head whose block no node has. */
  const headLacked = (): Finding | undefined => {
    const { height = 0, troubles = [] } = listener.lacked() ?? {};
    if (troubles.length === 0) return undefined;
    const what = `the start waits for block ${height}, which ${listener.finalized.reportedBy} reports as the head`;
    const advice = '; where that is false, --start-height with a height begins at once';
    return finding(codeOf(troubles), withTroubles(what, troubles, clock) + advice);
  };

  const upstreamTroubles = (): readonly NodeTrouble[] => {
    const identity = network.identityTroubles();
    const named = new Set(identity.map(({ node }) => node));
    return [...identity, ...listener.finalized.troubles().filter(({ node }) => !named.has(node))];
  };

  const replacedChain = (): Finding | undefined => {
    const replaced = network.chainReplaced();
    if (replaced === undefined) return undefined;
    const silent = network.identityTroubles().filter(({ kind }) => kind === 'unreachable');
    const words = silent.length === 0 ? '' : ` (no answer: ${describeTroubles(silent, clock)})`;
    return finding('chain_replaced', replaced + words);
  };

  const headBehind = (): Finding | undefined => {
    const below = network.headBelow(listener.finalized.height);
    const rises = (listener.finalized.advanceAgeMs() ?? Infinity) < HEAD_RISES_WITHIN_MS;
    // No node has reported a head recently: what is known is old.
    if (below === undefined || rises || answerAgeMs() >= HEAD_RISES_WITHIN_MS) {
      headBehindSinceMs = undefined;
      return undefined;
    }
    const { head, reached } = below;
    headBehindSinceMs ??= clock.monotonic();
    const [what, otherwise] =
      reached <= store.latestIndexedHeight()
        ? ['what is indexed', ', or started over, which their next blocks will show']
        : ['the one that was reported before', ', or that one was false, which a restart clears'];
    const message = `the nodes' head, ${head}, is ${reached - head} heights below ${what}, ${reached}, since ${timeOf(headBehindSinceMs, clock)}: they are being restored, lag far behind${otherwise}`;
    return finding('head_behind', message, head);
  };

  return {
    isHeadConfirmed,
    noteProgress,
    heldUpAt,
    waitingFor,
    leader,
    findings,
    holdsUp,
    leaderAgeSeconds: (): number | undefined =>
      store.shared && (store.shared.isLeading() ? 0 : leader()?.ageSeconds),
    /** Sets the line that reports are about; `undefined`: another process indexes the live range, or none does. */
    runs: (begun: IndexingLine | undefined): void => {
      // A process that takes over is not charged with its predecessor's delay.
      if (line === undefined) progressAtMs = clock.monotonic();
      line = begun;
      hasBegun = true;
    },
    /** `undefined` until the first line has started, and while another process leads. */
    line: (): IndexingLine | undefined => line,
    /** Milliseconds since the watermark moved, or since the start. */
    indexedAgeMs: (): number => {
      noteProgress();
      return ageOf(indexedAtMs);
    },
  };
}
