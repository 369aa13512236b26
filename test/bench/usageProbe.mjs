// Preloaded into a measured process (`node --import`): answers every message of its parent with what it has used so far,
// and leaves the final figures in the file that BENCH_USAGE_FILE names. In between it costs a timer that calls no
// JavaScript, by which Node.js notes from the first message on how late its event loop is.
import { writeFileSync } from 'node:fs';
import { monitorEventLoopDelay, performance } from 'node:perf_hooks';
import process from 'node:process';

const RESOLUTION_MS = 1;
const NANOSECONDS = 1e6;

const file = process.env['BENCH_USAGE_FILE'];
let loop = performance.eventLoopUtilization();
const delay = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
process.on('message', () => {
  delay.enable();
  loop = performance.eventLoopUtilization();
  process.send?.(process.resourceUsage());
});
process.channel?.unref();
process.on('exit', () => {
  const eventLoopDelayP99Ms = delay.percentile(99) / NANOSECONDS;
  const loopActiveMs = performance.eventLoopUtilization(loop).active;
  if (file !== undefined) {
    writeFileSync(file, JSON.stringify({ ...process.resourceUsage(), eventLoopDelayP99Ms, loopActiveMs }));
  }
});
