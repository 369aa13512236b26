import { Session } from 'node:inspector/promises';
import { getHeapSpaceStatistics, getHeapStatistics } from 'node:v8';
import { sleep } from '../../runtime/index.js';
import type { Clock } from '../../runtime/index.js';

/** The time between two samples. One millisecond costs a few percent of the thread. */
const SAMPLING_INTERVAL_US = 1_000;

/** A profile of this thread is being taken already. */
export class ProfilingError extends Error {
  override readonly name = 'ProfilingError';
}

/** Profiles the thread that it runs in: where its time goes, and what its heap holds. */
export class ThreadProfiler {
  readonly #clock: Clock;
  #isProfiling = false;

  constructor(dependencies: { readonly clock: Clock }) {
    this.#clock = dependencies.clock;
  }

  /**
   * A CPU profile over `durationMs`, in the format of Chrome DevTools (`.cpuprofile`), as JSON. Expected errors:
   * ProfilingError while another profile is being taken; the signal's abort reason.
   */
  async cpu(durationMs: number, signal: AbortSignal): Promise<string> {
    if (this.#isProfiling) throw new ProfilingError('a profile of this thread is being taken already');
    this.#isProfiling = true;
    const session = new Session();
    try {
      session.connect();
      await session.post('Profiler.enable');
      await session.post('Profiler.setSamplingInterval', { interval: SAMPLING_INTERVAL_US });
      await session.post('Profiler.start');
      await sleep(this.#clock, durationMs, signal);
      const { profile } = await session.post('Profiler.stop');
      return JSON.stringify(profile);
    } finally {
      this.#isProfiling = false;
      session.disconnect();
    }
  }

  /** Heap use of this thread in bytes, as JSON: in total, and for each heap space. */
  heap(): string {
    return JSON.stringify({
      memory: process.memoryUsage(),
      heap: getHeapStatistics(),
      spaces: getHeapSpaceStatistics(),
    });
  }
}
