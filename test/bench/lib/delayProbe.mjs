// Preloaded into a measured process (`node --import`): from SIGUSR2 on, Node.js notes how late the event loop is, by a timer that
// calls no JavaScript; the 99th percentile is left in the file that BENCH_DELAY_FILE names.
import { writeFileSync } from 'node:fs';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import process from 'node:process';

const NANOSECONDS = 1e6;
const delay = monitorEventLoopDelay({ resolution: 1 });
process.once('SIGUSR2', () => delay.enable());
process.on('exit', () =>
  writeFileSync(process.env['BENCH_DELAY_FILE'] ?? '', String(delay.percentile(99) / NANOSECONDS)),
);
