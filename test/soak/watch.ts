import { existsSync, readdirSync } from 'node:fs';
import { median } from '../bench/lib/statistics.js';
import { memoryBytes } from '../support/processFiles.js';
import type { RunningDaemon } from '../support/runningDaemon.js';

export interface Sample {
  /** Memory of its own, without mapped files; where the system does not tell, all that is resident. */
  readonly memoryBytes: number;
  readonly descriptors: number;
  /** 99th percentile since the sample before. */
  readonly loopDelayMs: number;
  readonly indexed: number;
}

/** The first so many of the samples are warm-up; the rest is halved and compared. */
const WARM_UP_SHARE = 1 / 3;

/** The medians of both halves, and what the second may be. */
function flatness(samples: readonly Sample[]) {
  const warm = samples.slice(Math.floor(samples.length * WARM_UP_SHARE));
  const middle = Math.floor(warm.length / 2);
  const held = (what: keyof Sample, name: string, growth: number, slack: number) => {
    const [before, after] = [warm.slice(0, middle), warm.slice(middle)].map((half) =>
      median(half.map((sample) => sample[what])),
    ) as [number, number];
    return { name, before, after, limit: before * growth + slack };
  };
  return [
    held('memoryBytes', 'memory, bytes', 1.15, 16 * 1024 * 1024),
    held('descriptors', 'descriptors', 1, 16),
    // A machine has its moments.
    held('loopDelayMs', 'event-loop delay, p99, ms', 1.5, 10),
  ];
}

/** Takes samples of a daemon and judges whether it stays as it is. */
export function watchOver(daemon: RunningDaemon) {
  const samples: Sample[] = [];
  /** Expected errors: those of `fetch`, when the daemon does not answer. */
  const take = async (): Promise<Sample> => {
    const metrics = await daemon.scrape();
    const { pid = 0 } = daemon.program.child;
    const files = `/proc/${pid}/fd`;
    const sample = {
      memoryBytes: memoryBytes(pid, 'RssAnon') || metrics.value('process_resident_memory_bytes'),
      descriptors: existsSync(files) ? readdirSync(files).length : 0,
      loopDelayMs: metrics.value('nodejs_eventloop_lag_p99_seconds') * 1000,
      indexed: metrics.value('latest_indexed_height'),
    };
    samples.push(sample);
    return sample;
  };
  return { samples, take, flatness: () => flatness(samples) };
}
