import type { NodeTrouble } from '../../access/index.js';
import type { DaemonConfig } from '../../config/index.js';
import type { ChainTrouble } from '../../finality/index.js';
import { consistent, formatDuration } from '../../observability/index.js';
import type { Finding, ReadinessCode } from '../../observability/index.js';
import type { Clock } from '../../runtime/index.js';
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

/**
 * Why the daemon is not ready, read from its parts whenever asked: without waiting, store or network. One rule: the cause that
 * holds up the lowest missing height is named within ten seconds, with node, message, count and start. A head that does not move
 * while nodes answer is a quiet chain, not an alarm, unless `ready.maxHeadAgeSeconds` says so.
 */
export class Diagnosis {
  readonly #daemon: DaemonState;
  readonly #parts: DaemonState['parts'];
  readonly #clock: Clock;
  readonly #startedAtMs: number;
  #limits: DaemonConfig['ready'];
  #watermark: number;
  /** When the watermark moved last, or there was nothing to do; as of the last `noteProgress`. */
  #progressAtMs: number;
  /** When the watermark moved last, or the start. */
  #indexedAtMs: number;
  /** Since when the nodes' head is far below what is indexed. */
  #headBehindSinceMs: number | undefined;

  constructor(daemon: DaemonState) {
    this.#daemon = daemon;
    this.#parts = daemon.parts;
    this.#clock = daemon.parts.clock;
    this.#limits = daemon.config.ready;
    this.#startedAtMs = this.#progressAtMs = this.#indexedAtMs = this.#clock.monotonic();
    this.#watermark = this.#parts.store.latestIndexedHeight();
  }

  /** Takes effect at the next check. */
  setLimits(limits: DaemonConfig['ready']): void {
    this.#limits = limits;
  }

  /** False while no node confirms the head: then the lag of the index is unknown. */
  isHeadConfirmed(): boolean {
    return (this.#parts.listener.lastAnswerAgeMs() ?? Infinity) < HEAD_UNCONFIRMED_AFTER_MS;
  }

  /** Milliseconds since the watermark moved, or since the start. */
  indexedAgeMs(): number {
    this.noteProgress();
    return this.#clock.monotonic() - this.#indexedAtMs;
  }

  /** What the lowest missing height waits for, and since when; `undefined` when there is none. */
  waitingFor(): (HeldUp & { readonly sinceMs: number }) | undefined {
    this.noteProgress();
    const heldUp = this.#daemon.phase === 'running' ? this.#lowestHeldUp() : undefined;
    return heldUp && { ...heldUp, sinceMs: this.#progressAtMs };
  }

  /** At most one for each code, and none that contradicts another. Call it about every second. */
  findings(): readonly Finding[] {
    this.noteProgress();
    const { phase } = this.#daemon;
    if (phase === 'stopping') return [{ code: 'stopping', message: 'the daemon is stopping' }];
    const outOfDescriptors = this.#parts.descriptors.trouble();
    const found: (Finding | undefined)[] = [
      finding('descriptors_low', outOfDescriptors),
      ...[this.#starting(), this.#upstream(), this.#startHeldUp(), this.#chain()],
      ...(phase === 'running' ? this.#running() : []),
      finding('reader_down', this.#parts.readers?.down()),
      finding('disk_low', this.#disk()),
      finding('database_unreachable', this.#databaseTrouble()),
      finding('leader_lost', this.#parts.leaderWatch.lost()),
    ];
    // What follows from a lack of descriptors is not a cause of its own.
    const isCause = ({ message }: Finding): boolean =>
      outOfDescriptors === undefined || !/\bE[MN]FILE\b/.test(message);
    const known = found.filter((each) => each !== undefined).filter(isCause);
    return consistent(known);
  }

  /** Call it when the watermark has moved, and regularly: a daemon without work makes progress by definition. */
  noteProgress(): void {
    const watermark = this.#parts.store.latestIndexedHeight();
    const target = this.#daemon.phase === 'running' ? this.#parts.window.target() : undefined;
    const isIdle = target === undefined || watermark >= target || this.#waitsForSealing(watermark + 1);
    const nowMs = this.#clock.monotonic();
    if (watermark !== this.#watermark) this.#progressAtMs = this.#indexedAtMs = nowMs;
    else if (isIdle) this.#progressAtMs = nowMs;
    this.#watermark = watermark;
  }

  /** Execution data follows the sealed head, some seconds behind the finalized one. */
  #waitsForSealing(height: number): boolean {
    const { listener } = this.#parts;
    if (!this.#daemon.config.ediOnly || height <= (listener.sealedHeight() ?? -1)) return false;
    const movesMs = listener.sealedAdvanceAgeMs() ?? this.#clock.monotonic() - this.#startedAtMs;
    return movesMs < SEALING_PAUSES_MS;
  }

  #running(): (Finding | undefined)[] {
    const head = this.#parts.listener.finalizedHeight();
    if (head === undefined) return [];
    const { blocks } = this.#daemon.line ?? {};
    const chain = blocks?.chainTrouble();
    const isMismatch = chain?.code === 'parent_mismatch';
    const mismatch = isMismatch ? this.#misfit(chain) : undefined;
    const unconfirmed = (isMismatch ? undefined : this.#misfit(chain)) ?? this.#undecidedSpork();
    return [
      this.#startHeightAhead(head),
      this.#behind(),
      finding('parent_mismatch', mismatch),
      finding('proof_failed', this.#proofFailed()),
      finding('not_vouched', unconfirmed),
      this.#headStale(head),
      this.#storeStalled(),
      // Those have their own codes.
      (mismatch ?? unconfirmed ?? this.#parts.network.chain.chainReplaced()) === undefined
        ? this.#heldUp()
        : undefined,
      finding('unresolvable', this.#unresolvable()),
    ];
  }

  /** What does not fit, which nodes sent it, and how to fix it. */
  #misfit(trouble: ChainTrouble | undefined): Said {
    if (trouble === undefined) return undefined;
    const { height, what, fix } = trouble;
    const words = describeTroubles(this.#daemon.line?.blocks.heldUpBy()?.troubles ?? [], this.#clock);
    return { height, message: words === '' ? `${what}: ${fix}` : `${what}: ${words}; ${fix}` };
  }

  /** A reported spork that is not confirmed, and that the next block waits for. */
  #undecidedSpork(): Said {
    const block = this.#daemon.line?.blocks.heldUpBy();
    if (block?.isUnserved !== true) return undefined;
    const spork = this.#parts.network.heights.undecidedSporkAt(block.height);
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
  }

  /** The nodes gave a chain that consensus nodes did not sign. */
  #proofFailed(): Said {
    const failed = this.#parts.prover?.status().failed;
    if (failed === undefined) return undefined;
    const { height, reason, rewindTo } = failed;
    return {
      height,
      message: `the certificate in block ${height} is invalid: ${reason}; the chain is proven up to ${rewindTo}: rewind to that height, and name nodes that follow the chain`,
    };
  }

  #unresolvable(): Said {
    const { config, line } = this.#daemon;
    const [lowest, ...others] = line?.explainer.unresolvable(config.requester.unresolvableAfterMs) ?? [];
    if (lowest === undefined) return undefined;
    const { ageMs, height, ids } = lowest;
    const unnamed = ids.length - UNRESOLVABLE_IDS_NAMED;
    const named =
      ids.slice(0, UNRESOLVABLE_IDS_NAMED).join(', ') + (unnamed > 0 ? ` and ${unnamed} more` : '');
    const besides = others.length > 0 ? `; ${others.length} more heights as well` : '';
    const why = this.#daemon.heldUpAt(height)?.message ?? '';
    return {
      height,
      message: `height ${height} has lacked collection ${named} for ${formatDuration(ageMs / 1000)} (${why})${besides}`,
    };
  }

  /** What the lowest missing height waits for; `undefined` when there is none. */
  #lowestHeldUp(): HeldUp | undefined {
    const { store, window } = this.#parts;
    const height = store.latestIndexedHeight() + 1;
    if (this.#daemon.line === undefined || height > (window.target() ?? -1)) return undefined;
    const trouble = store.trouble?.();
    // Without the database nothing continues, whatever else is wrong.
    if (trouble !== undefined) return { height, message: trouble, code: 'database_unreachable' };
    return this.#daemon.heldUpAt(height);
  }

  /** Why a database does not answer, of those that hold the index and the work; `undefined` if there is none. */
  #databaseTrouble(): string | undefined {
    const { queue, replica, store } = this.#parts;
    return store.trouble && (store.trouble() ?? queue?.trouble() ?? replica?.trouble?.());
  }

  #startHeightAhead(head: number): Finding | undefined {
    const { store } = this.#parts;
    const first = store.meta()?.firstHeight;
    if (first === undefined || first <= head || store.latestIndexedHeight() >= first) return undefined;
    return {
      code: 'start_height_ahead',
      height: first,
      message: `waiting for the chain to reach height ${first}, the first of this store; its head is ${head}`,
    };
  }

  #behind(): Finding | undefined {
    const { maxLag } = this.#limits;
    const { store, window } = this.#parts;
    const target = window.target();
    const indexed = store.latestIndexedHeight();
    const watermark = Math.min(
      indexed,
      Math.max(this.#provenTo() ?? indexed, (store.meta()?.firstHeight ?? 0) - 1),
    );
    const lag = (target ?? watermark) - watermark;
    // While no node confirms the head, the lag is unknown.
    if (lag <= maxLag || !this.isHeadConfirmed()) return undefined;
    const why =
      watermark === indexed
        ? ''
        : `; proof.finality is proven, and finality is proven only up to ${watermark}: ${this.#whyNotProven()}`;
    return {
      code: 'behind',
      message: `${lag} heights behind the head ${target ?? ''}; ready at ${maxLag} or fewer${why}`,
      height: watermark,
    };
  }

  /** What readers may read at most; `undefined` where they may read what is indexed. */
  #provenTo(): number | undefined {
    const isLimited = this.#daemon.config.proof.finality === 'proven';
    return isLimited ? (finalBlock(this.#parts)?.height ?? -1) : undefined;
  }

  #whyNotProven(): string {
    const { prover } = this.#parts;
    return prover === undefined
      ? 'the process that follows the chain proves it, and has proven nothing more'
      : (prover.status().reason ?? 'the newest blocks say nothing more');
  }

  #headStale(head: number): Finding | undefined {
    const { maxHeadAgeSeconds } = this.#limits;
    const ageMs = this.#parts.listener.lastAdvanceAgeMs();
    if (maxHeadAgeSeconds === 0 || ageMs === undefined || ageMs < maxHeadAgeSeconds * 1000) return undefined;
    // Nobody says that it stands still: nobody says anything.
    if (!this.isHeadConfirmed()) return undefined;
    return {
      code: 'head_stale',
      height: head,
      message: `the head has stood at ${head} for ${Math.floor(ageMs / 1000)} s; ready.maxHeadAgeSeconds allows ${maxHeadAgeSeconds}`,
    };
  }

  #storeStalled(): Finding | undefined {
    const startedAtMs = this.#daemon.line?.indexer.commitStartedAtMs();
    const forMs = startedAtMs === undefined ? 0 : this.#clock.monotonic() - startedAtMs;
    const { descriptors, store } = this.#parts;
    const isKnown = (this.#databaseTrouble() ?? descriptors.trouble()) !== undefined;
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
  }

  #heldUp(): Finding | undefined {
    const stillMs = this.#clock.monotonic() - this.#progressAtMs;
    if (stillMs < HELD_UP_AFTER_MS) return undefined;
    const heldUp = this.#lowestHeldUp();
    if (heldUp === undefined || STORE_CODES.includes(heldUp.code ?? '')) return undefined;
    // Nodes that do not answer serve nothing: that has its own finding.
    if (heldUp.because === 'unserved' && !this.isHeadConfirmed()) return undefined;
    const { height, message } = heldUp;
    if (heldUp.code !== undefined) return { code: heldUp.code, height, message };
    if (stillMs < SILENT_FOR_MS) return undefined;
    const ofNodes = this.#daemon.config.ediOnly ? 'edi_unavailable' : 'upstream_unreachable';
    const code = heldUp.because === 'complete' ? 'store_stalled' : ofNodes;
    return { code, height, message: `${message}: nothing has come for ${Math.floor(stillMs / 1000)} s` };
  }

  #disk(): Said {
    const { diskWatch, store } = this.#parts;
    const paused = diskWatch?.pause();
    if (paused !== undefined) return { height: store.latestIndexedHeight() + 1, message: paused.message };
    const { freeBytes = Infinity, sizeBytes = 0 } = diskWatch?.disk() ?? {};
    if (freeBytes >= Math.min(DISK_ENOUGH_BYTES, sizeBytes * DISK_ENOUGH_SHARE)) return undefined;
    const free = Math.floor(freeBytes / 1024 ** 2);
    return { message: `${free} MiB are left on the disk of the data directory` };
  }

  #starting(): Finding | undefined {
    const isStarting = this.#daemon.phase === 'starting';
    if (!isStarting && this.#parts.listener.finalizedHeight() !== undefined) return undefined;
    const what = isStarting
      ? 'the daemon is starting'
      : `no ${this.#parts.network.heights.source} has reported its finalized head yet`;
    return { code: 'starting', message: withTroubles(what, this.#upstreamTroubles(), this.#clock) };
  }

  /** The head is not reported, or no longer. */
  #upstream(): Finding | undefined {
    const silentMs = this.#parts.listener.lastAnswerAgeMs();
    const waitedMs = silentMs ?? this.#clock.monotonic() - this.#startedAtMs;
    const isReplaced = this.#parts.network.chain.chainReplaced() !== undefined;
    // Nodes of another chain are not asked for their head: what they said of it before is old.
    const troubles = isReplaced ? this.#parts.network.identityTroubles() : this.#upstreamTroubles();
    const limitMs =
      silentMs === undefined && troubles.length > 0 ? START_TAKES_MS : HEAD_UNCONFIRMED_AFTER_MS;
    if (waitedMs < limitMs) return undefined;
    const code = codeOf(troubles);
    if (isReplaced && code === 'upstream_unreachable') return undefined;
    const { source } = this.#parts.network.heights;
    const silent = `no ${source} has reported its head for ${Math.floor(waitedMs / 1000)} s`;
    const what = withTroubles(silent, troubles, this.#clock);
    const key = source === 'peer' ? 'peers' : 'accessNodes';
    const advice = `; check that ${key} names ${source}s that run and can be reached from here`;
    return { code, message: code === 'upstream_unreachable' ? what + advice : what };
  }

  /** The head is known, but the start still waits for the nodes to say where their chain begins. */
  #startHeldUp(): Finding | undefined {
    const isStarting = this.#daemon.phase === 'starting';
    if (!isStarting || this.#clock.monotonic() - this.#startedAtMs < START_HELD_UP_AFTER_MS) return undefined;
    const troubles = this.#parts.network.identityTroubles();
    if (troubles.length === 0) return undefined;
    const what = 'the start waits for the nodes to identify themselves';
    return { code: codeOf(troubles), message: withTroubles(what, troubles, this.#clock) };
  }

  #upstreamTroubles(): readonly NodeTrouble[] {
    const identity = this.#parts.network.identityTroubles();
    const named = new Set(identity.map(({ node }) => node));
    return [...identity, ...this.#parts.listener.headTroubles().filter(({ node }) => !named.has(node))];
  }

  #chain(): Finding | undefined {
    const replaced = this.#parts.network.chain.chainReplaced();
    if (replaced !== undefined) {
      const silent = this.#parts.network.identityTroubles().filter(({ kind }) => kind === 'unreachable');
      const words = silent.length === 0 ? '' : ` (not heard: ${describeTroubles(silent, this.#clock)})`;
      return { code: 'chain_replaced', message: replaced.message + words };
    }
    const behind = this.#parts.network.chain.headBelow();
    const rises = (this.#parts.listener.lastAdvanceAgeMs() ?? Infinity) < HEAD_RISES_WITHIN_MS;
    // No node has reported a head since it rose: what is known is old.
    const isOld = (this.#parts.listener.lastAnswerAgeMs() ?? Infinity) >= HEAD_RISES_WITHIN_MS;
    if (behind === undefined || rises || isOld) {
      this.#headBehindSinceMs = undefined;
      return undefined;
    }
    const { head, watermark } = behind;
    this.#headBehindSinceMs ??= this.#clock.monotonic();
    return {
      code: 'head_behind',
      height: head,
      message: `the nodes' head, ${head}, is ${watermark - head} heights below what is indexed, ${watermark}, since ${timeOf(this.#headBehindSinceMs, this.#clock)}: they are being restored, or lag far behind`,
    };
  }
}
