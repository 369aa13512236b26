import type { AccessMethod, AccessNode, StreamReader, Way } from '../../access/index.js';
import type { ReportedHead } from '../ports.js';
import { STREAM_SILENT_MS } from '../upstream/patienceMs.js';

/** After this time, a stream that has not delivered a height that a poll has seen counts as silent. */
const GRACE_MS = 2_000;

/** Why to replace a source. */
interface Lag {
  readonly what: string;
  /** It never reached a height that a poll has seen. */
  readonly isMiss: boolean;
}

/** The node that is being followed, by stream or by polling: what it has delivered, and whether it keeps up. */
export class HeadSource implements Way {
  readonly node: AccessNode;
  readonly method: AccessMethod;
  readonly reader: StreamReader<ReportedHead>;
  /** It was abandoned because it did not keep up. */
  isStale = false;
  #deliveredAtMs: number;
  #height = -1;
  /** The first height above this source that a poll has seen, until the source reaches it. */
  #owed: { readonly height: number; readonly sinceMs: number } | undefined;

  constructor({ node, method }: Way, reader: StreamReader<ReportedHead>, openedAtMs: number) {
    this.node = node;
    this.method = method;
    this.reader = reader;
    this.#deliveredAtMs = openedAtMs;
  }

  /** The highest that it has delivered; -1: none yet. */
  get height(): number {
    return this.#height;
  }

  /** It delivered a head above its last one. */
  delivered(height: number, nowMs: number): void {
    this.#height = height;
    this.#deliveredAtMs = nowMs;
    if (this.#owed !== undefined && height >= this.#owed.height) this.#owed = undefined;
  }

  /**
   * `undefined` while it keeps up with the polled height. `openingMs`: how long the first head of a stream may take, even
   * if no poll has seen a higher one: every stream begins with a head. `undefined`: no limit, as it does not stream.
   */
  lag(
    polledHeight: number,
    nowMs: number,
    { openingMs }: { readonly openingMs: number | undefined },
  ): Lag | undefined {
    if (this.#owed === undefined && polledHeight > this.#height)
      this.#owed = { height: polledHeight, sinceMs: nowMs };
    const silentMs = nowMs - this.#deliveredAtMs;
    if (this.#owed === undefined) {
      if (this.#height >= 0 || openingMs === undefined || silentMs < openingMs) return undefined;
      return { what: `no head for ${Math.round(silentMs / 1_000)} s`, isMiss: false };
    }
    const owedMs = nowMs - this.#owed.sinceMs;
    const isSilent = silentMs >= STREAM_SILENT_MS && owedMs >= GRACE_MS;
    if (!isSilent && owedMs < STREAM_SILENT_MS) return undefined;
    return { what: `stood at ${this.#height} while ${this.#owed.height} was known`, isMiss: true };
  }
}
