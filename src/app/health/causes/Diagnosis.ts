import type { NodeTrouble } from '../../../access/index.js';
import type { Finding } from '../../../observability/index.js';
import type { Clock } from '../../../runtime/index.js';
import type { HeldUp } from './heldUp.js';
import { codeOf, describeTroubles, timeOf, withoutIds } from './describeTroubles.js';

/** After so long a missing height is held up, and a known cause is reported. */
const HELD_UP_AFTER_MS = 5_000;
/** After so long it is reported even without a known cause. */
const SILENT_FOR_MS = 8_000;
/** A head that no node has reported for so long is unconfirmed: the lag is unknown. */
const HEAD_UNCONFIRMED_AFTER_MS = 8_000;
/** While starting, a known cause of the wait gets its own code after so long. */
const START_TAKES_MS = 5_000;
/** A head that rose so lately is of a chain that goes on, whatever a node told before, or another that lags tells. */
const HEAD_RISES_WITHIN_MS = 5_000;
/** Once the head is known, a start goes on sooner than this without what some node does not tell. */
const START_HELD_UP_AFTER_MS = 8_500;
/** Execution data exists up to the sealed head. It moves in leaps; standing still for so long is a hold-up. */
const SEALING_STALLED_AFTER_MS = 15_000;
/** A write to the disk takes milliseconds; while LevelDB compacts, a second or two. */
const COMMIT_STALLED_AFTER_MS = 8_000;
/** Free space that is enough on any disk, and the share that is enough on a small one. */
const DISK_ENOUGH_BYTES = 1024 ** 3;
const DISK_ENOUGH_SHARE = 0.1;

export interface DiagnosisOptions {
  /** Heights behind the head that still count as ready. */
  readonly readyMaxLag: number;
  /** How long the head of the chain may stand still, in milliseconds; `undefined` = for ever. */
  readonly maxHeadAgeMs: number | undefined;
  readonly ediOnly: boolean;
}

/** What the diagnosis asks of the daemon. Every answer must be immediate: no waiting, no store, no network. */
export interface Symptoms {
  phase(): 'starting' | 'running' | 'stopping';
  /** The first height of the store; `undefined` until it is decided. */
  firstHeight(): number | undefined;
  latestIndexedHeight(): number;
  /** The finalized head as it was told last; `undefined` until a node told it. */
  headHeight(): number | undefined;
  /** The head, or the stop height where that is lower. */
  target(): number | undefined;
  sealedHeight(): number | undefined;
  /** Since any node told the finalized head, moved or not; `undefined` before the first time. */
  headAnswerAgeMs(): number | undefined;
  /** Since the finalized head moved. */
  headAgeMs(): number | undefined;
  /** Since the sealed head moved. */
  sealedAgeMs(): number | undefined;
  /** Why nodes do not say who they are. */
  identityTroubles(): readonly NodeTrouble[];
  /** Why the finalized head is not told. */
  headTroubles(): readonly NodeTrouble[];
  /** The nodes serve another chain than the stored one. */
  chainReplaced(): { readonly message: string } | undefined;
  /** The nodes' head is far below what is indexed. */
  headBehind(): { readonly head: number; readonly watermark: number } | undefined;
  parentMismatch(): { readonly height: number; readonly message: string } | undefined;
  missingSporkEnd(): { readonly height: number; readonly message: string } | undefined;
  undecidedSpork(): { readonly height: number; readonly message: string } | undefined;
  unresolvable(): { readonly height: number; readonly message: string } | undefined;
  /** What the lowest missing height waits for; `undefined` when there is none. */
  heldUp(): HeldUp | undefined;
  /** Monotonic milliseconds at which the batch in hand was given to the store; `undefined` when none is. */
  commitStartedAtMs(): number | undefined;
  /** What keeps the database from answering, where one holds the index; `undefined` where none does. */
  database(): { readonly trouble: string | undefined } | undefined;
  /** No process indexes the live range; `undefined` while one does, this one or another. */
  leaderLost(): { readonly message: string } | undefined;
  /** Readers are not served, though they should be. */
  readerDown(): { readonly message: string } | undefined;
  /** `undefined` while not known. */
  disk(): { readonly freeBytes: number; readonly sizeBytes: number } | undefined;
  /** Why nothing is written for want of space; `undefined` while writing goes on. */
  paused(): { readonly message: string } | undefined;
}

/**
 * Why the daemon is not ready. One rule: whatever holds up the lowest missing height is named within ten seconds,
 * with node, words, count and since when. A still head that answers is a quiet chain, no alarm, unless `maxHeadAgeMs`
 * says so.
 */
export class Diagnosis {
  #options: DiagnosisOptions;
  readonly #clock: Clock;
  readonly #symptoms: Symptoms;
  readonly #startedAtMs: number;
  #watermark: number;
  /** When the watermark moved last, or there was nothing to do. */
  #progressAtMs: number;
  /** When the watermark moved last. */
  #indexedAtMs: number;
  /** Since when the nodes' head is far below what is indexed. */
  #headBehindSinceMs: number | undefined;

  constructor(
    options: DiagnosisOptions,
    dependencies: { readonly clock: Clock; readonly symptoms: Symptoms },
  ) {
    this.#options = options;
    this.#clock = dependencies.clock;
    this.#symptoms = dependencies.symptoms;
    this.#startedAtMs = this.#progressAtMs = this.#indexedAtMs = this.#clock.monotonic();
    this.#watermark = dependencies.symptoms.latestIndexedHeight();
  }

  /** From the next look on. */
  setLimits(limits: Pick<DiagnosisOptions, 'readyMaxLag' | 'maxHeadAgeMs'>): void {
    this.#options = { ...this.#options, ...limits };
  }

  /** False while no node confirms the head: then nobody knows how far behind the index is. */
  isHeadConfirmed(): boolean {
    return (this.#symptoms.headAnswerAgeMs() ?? Infinity) < HEAD_UNCONFIRMED_AFTER_MS;
  }

  /** Milliseconds since the watermark moved, or since the start. */
  indexedAgeMs(): number {
    this.noteProgress();
    return this.#clock.monotonic() - this.#indexedAtMs;
  }

  /** What the lowest missing height waits for, and since when; `undefined` when there is none. */
  waitingFor(): (HeldUp & { readonly sinceMs: number }) | undefined {
    this.noteProgress();
    const heldUp = this.#symptoms.phase() === 'running' ? this.#symptoms.heldUp() : undefined;
    return heldUp && { ...heldUp, sinceMs: this.#progressAtMs };
  }

  /** At most one for each code. To be called every second or so. */
  findings(): readonly Finding[] {
    this.noteProgress();
    const phase = this.#symptoms.phase();
    if (phase === 'stopping') return [{ code: 'stopping', message: 'the daemon is stopping' }];
    const readerDown = this.#symptoms.readerDown();
    const leaderLost = this.#symptoms.leaderLost();
    const found: (Finding | undefined)[] = [
      this.#starting(),
      this.#upstream(),
      this.#startHeldUp(),
      this.#chain(),
      ...(phase === 'running' ? this.#running() : []),
      readerDown && { code: 'reader_down', ...readerDown },
      this.#disk(),
      this.#database(),
      leaderLost && { code: 'leader_lost', ...leaderLost },
    ];
    const byCode = new Map<string, Finding>();
    for (const finding of found) {
      if (finding === undefined || byCode.has(finding.code)) continue;
      byCode.set(finding.code, { ...finding, logged: finding.logged ?? withoutIds(finding.message) });
    }
    return [...byCode.values()];
  }

  /** To be called when the watermark has moved, and now and then: a daemon without work makes progress by definition. */
  noteProgress(): void {
    const watermark = this.#symptoms.latestIndexedHeight();
    const target = this.#symptoms.phase() === 'running' ? this.#symptoms.target() : undefined;
    const isIdle = target === undefined || watermark >= target || this.#waitsForSealing(watermark + 1);
    const nowMs = this.#clock.monotonic();
    if (watermark !== this.#watermark) this.#progressAtMs = this.#indexedAtMs = nowMs;
    else if (isIdle) this.#progressAtMs = nowMs;
    this.#watermark = watermark;
  }

  /** Execution data follows the sealed head, some seconds behind the finalized one. */
  #waitsForSealing(height: number): boolean {
    if (!this.#options.ediOnly || height <= (this.#symptoms.sealedHeight() ?? -1)) return false;
    const movesMs = this.#symptoms.sealedAgeMs() ?? this.#clock.monotonic() - this.#startedAtMs;
    return movesMs < SEALING_STALLED_AFTER_MS - HELD_UP_AFTER_MS;
  }

  #starting(): Finding | undefined {
    const isStarting = this.#symptoms.phase() === 'starting';
    if (!isStarting && this.#symptoms.headHeight() !== undefined) return undefined;
    const what = isStarting ? 'the daemon is starting' : 'no access node has told its finalized head yet';
    const words = describeTroubles(this.#upstreamTroubles(), this.#clock);
    return { code: 'starting', message: words === '' ? what : `${what}: ${words}` };
  }

  /** The head is not told, or not any more. */
  #upstream(): Finding | undefined {
    const silentMs = this.#symptoms.headAnswerAgeMs();
    const waitedMs = silentMs ?? this.#clock.monotonic() - this.#startedAtMs;
    const troubles = this.#upstreamTroubles();
    const limitMs =
      silentMs === undefined && troubles.length > 0 ? START_TAKES_MS : HEAD_UNCONFIRMED_AFTER_MS;
    if (waitedMs < limitMs) return undefined;
    const words = describeTroubles(troubles, this.#clock);
    const seconds = Math.floor(waitedMs / 1000);
    return {
      code: codeOf(troubles),
      message: `no access node has told its head for ${seconds} s${words === '' ? '' : `: ${words}`}; see that accessNodes names nodes that run and can be reached from here`,
    };
  }

  /** The head is told, and the start waits for something else that the nodes have to tell: where their chain begins. */
  #startHeldUp(): Finding | undefined {
    const isStarting = this.#symptoms.phase() === 'starting';
    if (!isStarting || this.#clock.monotonic() - this.#startedAtMs < START_HELD_UP_AFTER_MS) return undefined;
    const troubles = this.#symptoms.identityTroubles();
    if (troubles.length === 0) return undefined;
    return {
      code: codeOf(troubles),
      message: `the start waits for what the nodes say of themselves: ${describeTroubles(troubles, this.#clock)}`,
    };
  }

  #upstreamTroubles(): readonly NodeTrouble[] {
    const identity = this.#symptoms.identityTroubles();
    const named = new Set(identity.map(({ node }) => node));
    return [...identity, ...this.#symptoms.headTroubles().filter(({ node }) => !named.has(node))];
  }

  #chain(): Finding | undefined {
    const replaced = this.#symptoms.chainReplaced();
    if (replaced !== undefined) return { code: 'chain_replaced', message: replaced.message };
    const behind = this.#symptoms.headBehind();
    const rises = (this.#symptoms.headAgeMs() ?? Infinity) < HEAD_RISES_WITHIN_MS;
    // Nobody has told a head since it rose: what is known is from before.
    const isOld = (this.#symptoms.headAnswerAgeMs() ?? Infinity) >= HEAD_RISES_WITHIN_MS;
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

  #running(): (Finding | undefined)[] {
    const head = this.#symptoms.headHeight();
    if (head === undefined) return [];
    const mismatch = this.#symptoms.parentMismatch();
    const unvouched = this.#symptoms.missingSporkEnd() ?? this.#symptoms.undecidedSpork();
    const unresolvable = this.#symptoms.unresolvable();
    return [
      this.#startHeightAhead(head),
      this.#behind(),
      mismatch && { code: 'parent_mismatch', ...mismatch },
      unvouched && { code: 'not_vouched', ...unvouched },
      this.#headStale(head),
      this.#storeStalled(),
      // Named by its own code already.
      mismatch === undefined && unvouched === undefined ? this.#heldUp() : undefined,
      unresolvable && { code: 'unresolvable', ...unresolvable },
    ];
  }

  #startHeightAhead(head: number): Finding | undefined {
    const first = this.#symptoms.firstHeight();
    if (first === undefined || first <= head || this.#symptoms.latestIndexedHeight() >= first)
      return undefined;
    return {
      code: 'start_height_ahead',
      height: first,
      message: `waiting for the chain to reach height ${first}, the first of this store; its head is ${head}`,
    };
  }

  #behind(): Finding | undefined {
    const target = this.#symptoms.target();
    const watermark = this.#symptoms.latestIndexedHeight();
    const lag = (target ?? watermark) - watermark;
    // While no node confirms the head, the lag is unknown.
    if (lag <= this.#options.readyMaxLag || !this.isHeadConfirmed()) return undefined;
    return {
      code: 'behind',
      message: `${lag} heights behind the head ${target ?? ''}; ready at ${this.#options.readyMaxLag} or fewer`,
      height: watermark,
    };
  }

  #headStale(head: number): Finding | undefined {
    const { maxHeadAgeMs } = this.#options;
    const ageMs = this.#symptoms.headAgeMs();
    if (maxHeadAgeMs === undefined || ageMs === undefined || ageMs < maxHeadAgeMs) return undefined;
    return {
      code: 'head_stale',
      height: head,
      message: `the head has stood at ${head} for ${Math.floor(ageMs / 1000)} s; ready.maxHeadAgeSeconds allows ${maxHeadAgeMs / 1000}`,
    };
  }

  #storeStalled(): Finding | undefined {
    const startedAtMs = this.#symptoms.commitStartedAtMs();
    const forMs = startedAtMs === undefined ? 0 : this.#clock.monotonic() - startedAtMs;
    const database = this.#symptoms.database();
    if (forMs < COMMIT_STALLED_AFTER_MS || database?.trouble !== undefined) return undefined;
    return {
      code: 'store_stalled',
      height: this.#symptoms.latestIndexedHeight() + 1,
      message: `the ${database === undefined ? 'disk' : 'database'} has been at work on one batch for ${Math.floor(forMs / 1000)} s`,
    };
  }

  #heldUp(): Finding | undefined {
    const stillMs = this.#clock.monotonic() - this.#progressAtMs;
    if (stillMs < HELD_UP_AFTER_MS) return undefined;
    const heldUp = this.#symptoms.heldUp();
    if (heldUp === undefined || heldUp.code === 'store_stalled' || heldUp.code === 'disk_low')
      return undefined;
    const { height, message } = heldUp;
    if (heldUp.code !== undefined) return { code: heldUp.code, height, message };
    if (stillMs < SILENT_FOR_MS) return undefined;
    const code = this.#options.ediOnly ? 'edi_unavailable' : 'upstream_unreachable';
    return { code, height, message: `${message}: nothing has come for ${Math.floor(stillMs / 1000)} s` };
  }

  #database(): Finding | undefined {
    const message = this.#symptoms.database()?.trouble;
    return message === undefined ? undefined : { code: 'database_unreachable', message };
  }

  #disk(): Finding | undefined {
    const paused = this.#symptoms.paused();
    if (paused !== undefined)
      return { code: 'disk_low', height: this.#symptoms.latestIndexedHeight() + 1, message: paused.message };
    const disk = this.#symptoms.disk();
    if (
      disk === undefined ||
      disk.freeBytes >= Math.min(DISK_ENOUGH_BYTES, disk.sizeBytes * DISK_ENOUGH_SHARE)
    )
      return undefined;
    const free = Math.floor(disk.freeBytes / 1024 ** 2);
    return { code: 'disk_low', message: `${free} MiB are left on the disk of the data directory` };
  }
}
