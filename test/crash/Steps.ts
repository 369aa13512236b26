import { writeSync } from 'node:fs';

/** How a process is to die; handed over in the environment as JSON. */
export interface CrashPlan {
  readonly failpoint: string;
  readonly passage: number;
  /** How long the other threads go on while the step is under way. */
  readonly underWayMs: number;
  /** The process is told to stop, as by SIGTERM, when its n-th commit is called. */
  readonly stopAtCommit?: number;
  /** Small, so that even a short chain fills several tables. */
  readonly writeBufferBytes?: number;
}

/** What the process says to whoever started it, on standard output between the lines of its log. */
export type Testimony =
  /** A commit was answered: from here on these heights, and this watermark, may be told to anyone. */
  | { readonly testimony: 'durable'; readonly heights: readonly number[]; readonly watermark: number }
  /** The database answered a write: so much of its log is on the disk. */
  | { readonly testimony: 'synced'; readonly step: string; readonly file: string; readonly bytes: number }
  /** The last moment, and the watermark that a reader would have been shown in it. */
  | { readonly testimony: 'dies'; readonly failpoint: string; readonly watermark: number | undefined }
  | { readonly testimony: 'lives'; readonly passages: number };

export type Operation = 'open' | 'begin' | 'commit' | 'rewind' | 'prove' | 'idle';

export class Steps {
  operation: Operation = 'open';
  isStopping = false;
  onStop = (): void => undefined;
  /** The watermark that is shown to readers; `undefined` while there is no store. */
  shownWatermark = (): number | undefined => undefined;
  readonly plan: CrashPlan;
  /** What rewinds: the command, or a line that begins anew. */
  readonly rewinding: 'rewind' | 'anew';
  #passages = 0;
  #commits = 0;

  constructor(plan: CrashPlan, rewinding: 'rewind' | 'anew') {
    this.plan = plan;
    this.rewinding = rewinding;
    process.on('exit', () => testify({ testimony: 'lives', passages: this.#passages }));
  }

  take(name: string): void {
    if (name !== this.plan.failpoint) return;
    this.#passages += 1;
    if (this.#passages === this.plan.passage) this.#die();
  }

  commitCalled(): void {
    this.#commits += 1;
    if (this.#commits === this.plan.stopAtCommit) this.onStop();
  }

  #die(): void {
    const { failpoint, underWayMs } = this.plan;
    // The threads of LevelDB and of the file system run on meanwhile; ours does not.
    if (underWayMs > 0) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, underWayMs);
    testify({ testimony: 'dies', failpoint, watermark: this.shownWatermark() });
    process.kill(process.pid, 'SIGKILL');
  }
}

/** Written before it returns: the process may not live to flush anything. */
export function testify(testimony: Testimony): void {
  let rest = Buffer.from(JSON.stringify(testimony) + '\n');
  while (rest.length > 0) {
    try {
      rest = rest.subarray(writeSync(1, rest));
    } catch (error) {
      // The reader is slow: it is asked again.
      if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') throw error;
    }
  }
}
