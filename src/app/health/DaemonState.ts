import type { IndexedRange } from '../../api/index.js';
import type { DaemonConfig } from '../../config/index.js';
import type { LiveTerminal } from '../../observability/index.js';
import type { SharedQueue } from '../../ranges/index.js';
import type { Output } from '../../runtime/index.js';
import type { IndexStore } from '../../storage/index.js';
import type { SecretFiles } from '../guard/openSecretFiles.js';
import type { Descriptors } from '../lifecycle/watchDescriptors.js';
import type { IndexingLine } from '../line/buildLine.js';
import type { IndexingParts } from '../line/runIndexing.js';
import { rangeOf, readableIndex } from '../threads/readableIndex.js';
import type { ReaderThread } from '../threads/keepReaderThread.js';
import { lineHeldUp } from './heldUp.js';
import type { HeldUp } from './heldUp.js';
import { watchBackfill } from './watches/watchBackfill.js';
import type { DiskWatch } from './watches/watchDisk.js';
import { watchLeader } from './watches/watchLeader.js';

/** Everything that a daemon consists of. */
export interface DaemonParts extends IndexingParts {
  readonly descriptors: Descriptors;
  /** Absent: the index is in a database. */
  readonly diskWatch: DiskWatch | undefined;
  readonly storeBytes: () => number | undefined;
  readonly secretFiles: SecretFiles;
  /** Standard output and standard error. */
  readonly outputs: readonly Output[];
  /** On it a line is redrawn. */
  readonly terminal: LiveTerminal | undefined;
  /** Shared with other processes, if they share the store. */
  readonly queue: SharedQueue | undefined;
  /** What readers use instead of the store. */
  readonly replica: IndexStore | undefined;
  /** Absent when no readers are served. */
  readonly readers: ReaderThread | undefined;
}

/** The base of all reports: the parts of the daemon, and the current line. It caches nothing, so nothing is stale. */
export class DaemonState {
  readonly config: DaemonConfig;
  readonly parts: DaemonParts;
  readonly backfillWatch: ReturnType<typeof watchBackfill>;
  readonly leaderWatch: ReturnType<typeof watchLeader>;
  #line: IndexingLine | undefined;
  #hasBegun = false;

  constructor(config: DaemonConfig, parts: DaemonParts) {
    this.config = config;
    this.parts = parts;
    this.backfillWatch = watchBackfill(config, parts);
    this.leaderWatch = watchLeader(parts);
  }

  /** How much of the daemon is up. */
  get phase(): 'starting' | 'running' | 'stopping' {
    const { lifecycle, store } = this.parts;
    if (lifecycle.signal.aborted) return 'stopping';
    const waitsForLeader = this.#line === undefined && store.meta() === undefined;
    return this.#hasBegun && !waitsForLeader ? 'running' : 'starting';
  }

  /** `undefined` until the first line has started, and while another process leads. */
  get line(): IndexingLine | undefined {
    return this.#line;
  }

  /** From now on reports are about this line; `undefined`: another process indexes the live range, or none does. */
  runs(line: IndexingLine | undefined): void {
    this.#line = line;
    this.#hasBegun = true;
  }

  /** What a height that is not durable waits for; `undefined` while no line runs. */
  heldUpAt(height: number): HeldUp | undefined {
    return this.#line && lineHeldUp(height, this.#line, this.parts, this.config);
  }

  /** The range that readers see, with the sealed head as nodes report it. */
  range(): IndexedRange {
    const sealed = this.parts.listener.sealedHeight() ?? null;
    return { ...rangeOf(readableIndex(this.config, this.parts)), sealed };
  }
}
