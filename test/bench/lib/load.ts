import { readdirSync, readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';

/** Of /proc; the same on every Linux. */
const TICKS_PER_SECOND = 100;

/**
 * Watches what else runs beside a bench. The function that comes back says it, with the processors and the version of Node.js,
 * for everything since: "2 processors, 0.1 of them for others, Node.js v24.0.0".
 */
export function watchOthers(): () => string {
  const before = readTicks();
  const startedAtMs = performance.now();
  return () => {
    const after = readTicks();
    const ticks = ((performance.now() - startedAtMs) / 1000) * TICKS_PER_SECOND;
    const others = before && after && (after.all - before.all - (after.ours - before.ours)) / ticks;
    const used =
      others === undefined ? 'others not known' : `${Math.max(0, others).toFixed(1)} of them for others`;
    return `${availableParallelism()} processors, ${used}, Node.js ${process.version}`;
  };
}

/** Processor time that was used by everything, and by the process group of this bench; `undefined` where there is no /proc. */
function readTicks(): { readonly all: number; readonly ours: number } | undefined {
  try {
    const [, user, nice, system, , , irq, softIrq, steal] = wordsOf('/proc/stat');
    const [, , group] = ownFields('self');
    const processes = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
    const ours = processes.map(ownFields).filter((fields) => fields[2] === group);
    return {
      all: sum([user, nice, system, irq, softIrq, steal]),
      // Their own, and that of children that have ended.
      ours: sum(ours.map((fields) => sum(fields.slice(11, 15)))),
    };
  } catch {
    return undefined;
  }
}

function wordsOf(path: string): string[] {
  return readFileSync(path, 'utf8').split(/\s+/);
}

/** What /proc says of a process, behind its name; nothing of one that has ended. */
function ownFields(pid: string): string[] {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8');
    return text.slice(text.lastIndexOf(')') + 2).split(' ');
  } catch {
    return [];
  }
}

function sum(values: readonly (string | number | undefined)[]): number {
  return values.reduce<number>((total, value) => total + Number(value ?? 0), 0);
}
