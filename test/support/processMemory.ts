import { readFileSync } from 'node:fs';
import type { RunningDaemon } from './runningDaemon.js';

/** The most memory that the process ever had resident. */
export async function peakMemoryBytes(daemon: RunningDaemon): Promise<number> {
  try {
    const text = readFileSync(`/proc/${daemon.program.child.pid ?? 0}/status`, 'utf8');
    return Number(/^VmHWM:\s+(\d+) kB$/m.exec(text)?.[1]) * 1024;
  } catch {
    // Other systems than Linux: what it has now.
    const page = await (await fetch(`${daemon.metricsUrl}/metrics`)).text();
    return Number(/^process_resident_memory_bytes (\S+)$/m.exec(page)?.[1] ?? 0);
  }
}
