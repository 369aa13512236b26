import { availableParallelism, freemem, totalmem } from 'node:os';
import { getHeapStatistics } from 'node:v8';
import type { DaemonConfig } from '../../../config/index.js';
import { formatSize } from '../../../observability/index.js';
import { ok, warning } from '../verdicts.js';
import type { Finding } from '../verdicts.js';

const MIB = 1024 ** 2;
/** Memory of the daemon besides the bytes in flight, with room to spare (docs/performance.md: 190 MiB at work). */
const BASE_BYTES = 384 * MIB;
/** Of that, the heap, which holds no bodies. */
const HEAP_BYTES = 384 * MIB;

/** What the machine offers this process. */
export interface Machine {
  /** Like `process.version`. */
  readonly node: string;
  readonly processors: number;
  /** What this process may use, of the machine or its container. */
  readonly memoryBytes: number;
  readonly freeBytes: number;
  readonly heapLimitBytes: number;
}

export function thisMachine(): Machine {
  const limit = process.constrainedMemory();
  // Without a limit, the system's own number for "none" is far above any memory.
  const memoryBytes = limit > 0 && limit < totalmem() ? limit : totalmem();
  return {
    node: process.version,
    processors: availableParallelism(),
    memoryBytes,
    freeBytes: Math.min(memoryBytes, freemem()),
    heapLimitBytes: getHeapStatistics().heap_size_limit,
  };
}

/** Node.js, processors, memory. */
export function checkMachine(
  { maxInFlightBytes }: Pick<DaemonConfig, 'maxInFlightBytes'>,
  machine: Machine,
): Finding[] {
  const { heapLimitBytes, memoryBytes, node, processors } = machine;
  const neededBytes = BASE_BYTES + 2 * maxInFlightBytes;
  const found: Finding[] = [];
  if (processors === 1) {
    found.push(warning('Indexing and readers share the only processor; give the daemon two for speed.'));
  }
  if (memoryBytes < neededBytes) {
    found.push(
      warning(
        `The process may use ${formatSize(memoryBytes)} of memory, and with this configuration it can need ` +
          `${formatSize(neededBytes)}; give it more, or lower --max-in-flight-bytes (${formatSize(maxInFlightBytes)}).`,
      ),
    );
  }
  if (heapLimitBytes < HEAP_BYTES) {
    found.push(
      warning(
        `The heap of Node.js is limited to ${formatSize(heapLimitBytes)}, which is low; raise it with ` +
          'NODE_OPTIONS=--max-old-space-size=1024.',
      ),
    );
  }
  const facts =
    `Node.js ${node}, ${processors} processor${processors === 1 ? '' : 's'}, ${formatSize(memoryBytes)} of memory ` +
    `(${formatSize(machine.freeBytes)} free), heap limit ${formatSize(heapLimitBytes)}.`;
  return [...found, ok(facts)];
}
