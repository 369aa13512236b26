import { existsSync, readdirSync } from 'node:fs';
import { median } from '../bench/lib/statistics.js';
import { memoryBytes } from '../support/processFiles.js';
import { ScrapedMetrics } from '../support/scrapedMetrics.js';

/** What the process is at one moment. */
export interface Sample {
  readonly atMs: number;
  /** Memory of its own, without mapped files; where the system does not tell, all that is resident. */
  readonly memoryBytes: number;
  readonly descriptors: number;
  /** 99th percentile since the sample before. */
  readonly loopDelayMs: number;
  readonly indexed: number;
}

/** What must hold of the samples. */
export interface Flatness {
  readonly name: string;
  readonly before: number;
  readonly after: number;
  readonly limit: number;
  readonly unit: string;
}

/** The first so many of the samples are warm-up; the rest is halved and compared. */
const WARM_UP_SHARE = 1 / 3;
const MEMORY_GROWTH = 1.15;
const MEMORY_SLACK_BYTES = 16 * 1024 * 1024;
const DESCRIPTOR_SLACK = 16;
/** Of the medians: a machine has its moments. */
const LOOP_DELAY_GROWTH = 1.5;
const LOOP_DELAY_SLACK_MS = 10;

/** Takes samples of a daemon and judges whether it stays as it is. */
export class Watch {
  readonly samples: Sample[] = [];
  readonly #pid: number;
  readonly #metricsUrl: string;

  constructor(options: { readonly pid: number; readonly metricsUrl: string }) {
    this.#pid = options.pid;
    this.#metricsUrl = options.metricsUrl;
  }

  /** Expected errors: those of `fetch`, when the daemon does not answer. */
  async take(): Promise<Sample> {
    const metrics = new ScrapedMetrics(await (await fetch(`${this.#metricsUrl}/metrics`)).text());
    const sample = {
      atMs: performance.now(),
      memoryBytes: memoryBytes(this.#pid, 'RssAnon') || metrics.value('process_resident_memory_bytes'),
      descriptors: this.#descriptors() ?? 0,
      loopDelayMs: metrics.value('nodejs_eventloop_lag_p99_seconds') * 1000,
      indexed: metrics.value('latest_indexed_height'),
    };
    this.samples.push(sample);
    return sample;
  }

  flatness(): readonly Flatness[] {
    const warm = this.samples.slice(Math.floor(this.samples.length * WARM_UP_SHARE));
    const middle = Math.floor(warm.length / 2);
    const of = (pick: (sample: Sample) => number): { readonly before: number; readonly after: number } => ({
      before: median(warm.slice(0, middle).map(pick)),
      after: median(warm.slice(middle).map(pick)),
    });
    const memory = of(({ memoryBytes }) => memoryBytes);
    const descriptors = of((sample) => sample.descriptors);
    const delay = of(({ loopDelayMs }) => loopDelayMs);
    return [
      { name: 'memory', unit: 'bytes', ...memory, limit: memory.before * MEMORY_GROWTH + MEMORY_SLACK_BYTES },
      { name: 'descriptors', unit: '', ...descriptors, limit: descriptors.before + DESCRIPTOR_SLACK },
      {
        ...{ name: 'event-loop delay, p99', unit: 'ms', ...delay },
        limit: delay.before * LOOP_DELAY_GROWTH + LOOP_DELAY_SLACK_MS,
      },
    ];
  }

  #descriptors(): number | undefined {
    const path = `/proc/${this.#pid}/fd`;
    return existsSync(path) ? readdirSync(path).length : undefined;
  }
}
