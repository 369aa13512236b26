import { memoryBytes } from './processFiles.js';
import type { RunningDaemon } from './runningDaemon.js';

/** The most memory that the process ever had resident; on other systems than Linux, what it has now. */
export async function peakMemoryBytes(daemon: RunningDaemon): Promise<number> {
  const peak = memoryBytes(daemon.program.child.pid ?? 0, 'VmHWM');
  return peak || (await daemon.scrape()).value('process_resident_memory_bytes');
}
