import type { NodeTrouble } from '../../access/index.js';
import { consistent } from '../../observability/index.js';
import type { Finding } from '../../observability/index.js';
import type { Clock } from '../../runtime/index.js';
import { codeOf, describeTroubles, timeOf, withoutIds } from './heldUp.js';
import type { HeldUp } from './heldUp.js';
import type { Symptoms } from './symptoms.js';

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

export interface DiagnosisOptions {
  /** Heights behind the head that still count as ready. */
  readonly readyMaxLag: number;
  /** How long the head of the chain may stand still, in milliseconds; `undefined`: for ever. */
  readonly maxHeadAgeMs: number | undefined;
  readonly ediOnly: boolean;
}

/**
 * Why the daemon is not ready. One rule: the cause that holds up the lowest missing height is named within ten seconds,
 * with node, message, count and start. A head that does not move while nodes answer is a quiet chain, not an alarm, unless
 * `maxHeadAgeMs` says so.
 */
export class Diagnosis {
  #options: DiagnosisOptions;
  readonly #clock: Clock;
  readonly #symptoms: Symptoms;
  readonly #startedAtMs: number;
  #watermark: number;
  /** When the watermark moved last, or there was nothing to do; as of the last `noteProgress`. */
  #progressAtMs: number;
  /** When the watermark moved last, or the start. */
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
    this.#watermark = this.#symptoms.latestIndexedHeight();
  }

  /** Takes effect at the next check. */
  setLimits(limits: Pick<DiagnosisOptions, 'readyMaxLag' | 'maxHeadAgeMs'>): void {
    this.#options = { ...this.#options, ...limits };
  }

  /** False while no node confirms the head: then the lag of the index is unknown. */
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

  /** At most one for each code, and none that contradicts another. Call it about every second. */
  findings(): readonly Finding[] {
    this.noteProgress();
    const phase = this.#symptoms.phase();
    if (phase === 'stopping') return [{ code: 'stopping', message: 'the daemon is stopping' }];
    const readerDown = this.#symptoms.readerDown();
    const leaderLost = this.#symptoms.leaderLost();
    const outOfDescriptors = this.#symptoms.outOfDescriptors();
    const found: (Finding | undefined)[] = [
      outOfDescriptors === undefined ? undefined : { code: 'descriptors_low', message: outOfDescriptors },
      ...[this.#starting(), this.#upstream(), this.#startHeldUp(), this.#chain()],
      ...(phase === 'running' ? this.#running() : []),
      readerDown && { code: 'reader_down', ...readerDown },
      this.#disk(),
      this.#database(),
      leaderLost && { code: 'leader_lost', ...leaderLost },
    ];
    // What follows from a lack of descriptors is not a cause of its own.
    const isCause = ({ message }: Finding): boolean =>
      outOfDescriptors === undefined || !/\bE[MN]FILE\b/.test(message);
    const known = found.filter((finding) => finding !== undefined).filter(isCause);
    return consistent(known).map((finding) => ({
      ...finding,
      logged: finding.logged ?? withoutIds(finding.message),
    }));
  }

  /** Call it when the watermark has moved, and regularly: a daemon without work makes progress by definition. */
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
    return movesMs < SEALING_PAUSES_MS;
  }

  #running(): (Finding | undefined)[] {
    const head = this.#symptoms.headHeight();
    if (head === undefined) return [];
    const mismatch = this.#symptoms.parentMismatch();
    const unconfirmed = this.#symptoms.missingSporkEnd() ?? this.#symptoms.undecidedSpork();
    const unresolvable = this.#symptoms.unresolvable();
    const proofFailed = this.#symptoms.proofFailed();
    return [
      this.#startHeightAhead(head),
      this.#behind(),
      mismatch && { code: 'parent_mismatch', ...mismatch },
      proofFailed && { code: 'proof_failed', ...proofFailed },
      unconfirmed && { code: 'not_vouched', ...unconfirmed },
      this.#headStale(head),
      this.#storeStalled(),
      // Those have their own codes.
      (mismatch ?? unconfirmed ?? this.#symptoms.chainReplaced()) === undefined ? this.#heldUp() : undefined,
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
    const proven = this.#symptoms.provenOnly();
    const indexed = this.#symptoms.latestIndexedHeight();
    const watermark = Math.min(
      indexed,
      Math.max(proven?.to ?? indexed, (this.#symptoms.firstHeight() ?? 0) - 1),
    );
    const lag = (target ?? watermark) - watermark;
    // While no node confirms the head, the lag is unknown.
    if (lag <= this.#options.readyMaxLag || !this.isHeadConfirmed()) return undefined;
    const why =
      watermark === indexed
        ? ''
        : `; proof.finality is proven, and finality is proven only up to ${watermark}: ${proven?.reason ?? 'the newest blocks say nothing more'}`;
    return {
      code: 'behind',
      message: `${lag} heights behind the head ${target ?? ''}; ready at ${this.#options.readyMaxLag} or fewer${why}`,
      height: watermark,
    };
  }

  #headStale(head: number): Finding | undefined {
    const { maxHeadAgeMs } = this.#options;
    const ageMs = this.#symptoms.headAgeMs();
    if (maxHeadAgeMs === undefined || ageMs === undefined || ageMs < maxHeadAgeMs) return undefined;
    // Nobody says that it stands still: nobody says anything.
    if (!this.isHeadConfirmed()) return undefined;
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
    const isKnown = database?.trouble !== undefined || this.#symptoms.outOfDescriptors() !== undefined;
    if (forMs < COMMIT_STALLED_AFTER_MS || isKnown) return undefined;
    return {
      code: 'store_stalled',
      height: this.#symptoms.latestIndexedHeight() + 1,
      message: `the ${database === undefined ? 'disk' : 'database'} has been writing one batch for ${Math.floor(forMs / 1000)} s${database === undefined ? '' : '; its pg_stat_activity shows what it waits for'}`,
    };
  }

  #heldUp(): Finding | undefined {
    const stillMs = this.#clock.monotonic() - this.#progressAtMs;
    if (stillMs < HELD_UP_AFTER_MS) return undefined;
    const heldUp = this.#symptoms.heldUp();
    if (heldUp === undefined || STORE_CODES.includes(heldUp.code ?? '')) return undefined;
    // Nodes that do not answer serve nothing: that has its own finding.
    if (heldUp.because === 'unserved' && !this.isHeadConfirmed()) return undefined;
    const { height, message } = heldUp;
    if (heldUp.code !== undefined) return { code: heldUp.code, height, message };
    if (stillMs < SILENT_FOR_MS) return undefined;
    const ofNodes = this.#options.ediOnly ? 'edi_unavailable' : 'upstream_unreachable';
    const code = heldUp.because === 'complete' ? 'store_stalled' : ofNodes;
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

  #starting(): Finding | undefined {
    const isStarting = this.#symptoms.phase() === 'starting';
    if (!isStarting && this.#symptoms.headHeight() !== undefined) return undefined;
    const what = isStarting
      ? 'the daemon is starting'
      : `no ${this.#symptoms.source()} has reported its finalized head yet`;
    const words = describeTroubles(this.#upstreamTroubles(), this.#clock);
    return { code: 'starting', message: words === '' ? what : `${what}: ${words}` };
  }

  /** The head is not reported, or no longer. */
  #upstream(): Finding | undefined {
    const silentMs = this.#symptoms.headAnswerAgeMs();
    const waitedMs = silentMs ?? this.#clock.monotonic() - this.#startedAtMs;
    const isReplaced = this.#symptoms.chainReplaced() !== undefined;
    // Nodes of another chain are not asked for their head: what they said of it before is old.
    const troubles = isReplaced ? this.#symptoms.identityTroubles() : this.#upstreamTroubles();
    const limitMs =
      silentMs === undefined && troubles.length > 0 ? START_TAKES_MS : HEAD_UNCONFIRMED_AFTER_MS;
    if (waitedMs < limitMs) return undefined;
    const code = codeOf(troubles);
    if (isReplaced && code === 'upstream_unreachable') return undefined;
    const words = describeTroubles(troubles, this.#clock);
    const source = this.#symptoms.source();
    const what = `no ${source} has reported its head for ${Math.floor(waitedMs / 1000)} s${words === '' ? '' : `: ${words}`}`;
    const key = source === 'peer' ? 'peers' : 'accessNodes';
    const advice = `; check that ${key} names ${source}s that run and can be reached from here`;
    return { code, message: code === 'upstream_unreachable' ? what + advice : what };
  }

  /** The head is known, but the start still waits for the nodes to say where their chain begins. */
  #startHeldUp(): Finding | undefined {
    const isStarting = this.#symptoms.phase() === 'starting';
    if (!isStarting || this.#clock.monotonic() - this.#startedAtMs < START_HELD_UP_AFTER_MS) return undefined;
    const troubles = this.#symptoms.identityTroubles();
    if (troubles.length === 0) return undefined;
    return {
      code: codeOf(troubles),
      message: `the start waits for the nodes to identify themselves: ${describeTroubles(troubles, this.#clock)}`,
    };
  }

  #upstreamTroubles(): readonly NodeTrouble[] {
    const identity = this.#symptoms.identityTroubles();
    const named = new Set(identity.map(({ node }) => node));
    return [...identity, ...this.#symptoms.headTroubles().filter(({ node }) => !named.has(node))];
  }

  #chain(): Finding | undefined {
    const replaced = this.#symptoms.chainReplaced();
    if (replaced !== undefined) {
      const silent = this.#symptoms.identityTroubles().filter(({ kind }) => kind === 'unreachable');
      const words = silent.length === 0 ? '' : ` (not heard: ${describeTroubles(silent, this.#clock)})`;
      return { code: 'chain_replaced', message: replaced.message + words };
    }
    const behind = this.#symptoms.headBehind();
    const rises = (this.#symptoms.headAgeMs() ?? Infinity) < HEAD_RISES_WITHIN_MS;
    // No node has reported a head since it rose: what is known is old.
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
}
