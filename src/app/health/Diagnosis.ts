import { consistent } from '../../observability/index.js';
import type { Finding } from '../../observability/index.js';
import type { Clock } from '../../runtime/index.js';
import type { HeldUp } from './heldUp.js';
import { withoutIds } from './describeTroubles.js';
import type { Symptoms } from './symptoms.js';
import { UpstreamFindings } from './UpstreamFindings.js';

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
  readonly #progress: Progress;
  readonly #upstream: UpstreamFindings;

  constructor(
    options: DiagnosisOptions,
    dependencies: { readonly clock: Clock; readonly symptoms: Symptoms },
  ) {
    this.#options = options;
    this.#clock = dependencies.clock;
    this.#symptoms = dependencies.symptoms;
    this.#progress = new Progress(options, dependencies);
    this.#upstream = new UpstreamFindings(dependencies);
  }

  /** Takes effect at the next check. */
  setLimits(limits: Pick<DiagnosisOptions, 'readyMaxLag' | 'maxHeadAgeMs'>): void {
    this.#options = { ...this.#options, ...limits };
  }

  /** False while no node confirms the head: then the lag of the index is unknown. */
  isHeadConfirmed(): boolean {
    return this.#upstream.isHeadConfirmed();
  }

  /** Milliseconds since the watermark moved, or since the start. */
  indexedAgeMs(): number {
    this.noteProgress();
    return this.#clock.monotonic() - this.#progress.indexedAtMs;
  }

  /** What the lowest missing height waits for, and since when; `undefined` when there is none. */
  waitingFor(): (HeldUp & { readonly sinceMs: number }) | undefined {
    this.noteProgress();
    const heldUp = this.#symptoms.phase() === 'running' ? this.#symptoms.heldUp() : undefined;
    return heldUp && { ...heldUp, sinceMs: this.#progress.atMs };
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
      ...this.#upstream.find(),
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
    this.#progress.note();
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
    const stillMs = this.#clock.monotonic() - this.#progress.atMs;
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
}

/** Tracks since when the watermark has not moved, with and without work to do. */
class Progress {
  readonly #ediOnly: boolean;
  readonly #clock: Clock;
  readonly #symptoms: Symptoms;
  readonly #startedAtMs: number;
  #watermark: number;
  #progressAtMs: number;
  #indexedAtMs: number;

  constructor(
    options: { readonly ediOnly: boolean },
    dependencies: { readonly clock: Clock; readonly symptoms: Symptoms },
  ) {
    this.#ediOnly = options.ediOnly;
    this.#clock = dependencies.clock;
    this.#symptoms = dependencies.symptoms;
    this.#startedAtMs = this.#progressAtMs = this.#indexedAtMs = this.#clock.monotonic();
    this.#watermark = dependencies.symptoms.latestIndexedHeight();
  }

  /** When the watermark moved last, or there was nothing to do; as of the last `note`. */
  get atMs(): number {
    return this.#progressAtMs;
  }

  /** When the watermark moved last, or the start; as of the last `note`. */
  get indexedAtMs(): number {
    return this.#indexedAtMs;
  }

  /** Call it when the watermark has moved, and regularly: a daemon without work makes progress by definition. */
  note(): void {
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
    if (!this.#ediOnly || height <= (this.#symptoms.sealedHeight() ?? -1)) return false;
    const movesMs = this.#symptoms.sealedAgeMs() ?? this.#clock.monotonic() - this.#startedAtMs;
    return movesMs < SEALING_PAUSES_MS;
  }
}
