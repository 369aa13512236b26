import { readFileSync } from 'node:fs';

/** Of /proc; the same on every Linux. */
const MS_PER_TICK = 10;

/** A file of a process below /proc; empty for one that has ended, and where there is no /proc. */
function fileOf(pid: number | string, name: string): string {
  try {
    return readFileSync(`/proc/${pid}/${name}`, 'utf8');
  } catch {
    return '';
  }
}

/** What the system says of a process behind its name, or of one of its threads; nothing of one that has ended. */
export function statOf(pid: number | string, thread?: number): readonly string[] {
  const text = fileOf(pid, thread === undefined ? 'stat' : `task/${thread}/stat`);
  return text === '' ? [] : text.slice(text.lastIndexOf(')') + 2).split(' ');
}

/** Processor time so far; NaN where the system does not tell. */
export function processorMs(...of: Parameters<typeof statOf>): number {
  const [user, system] = statOf(...of).slice(11, 13);
  return (Number(user) + Number(system)) * MS_PER_TICK;
}

/** Memory that no file backs, or the most that was ever resident; NaN where the system does not tell. */
export function memoryBytes(pid: number | string, what: 'RssAnon' | 'VmHWM'): number {
  return Number(new RegExp(`^${what}:\\s+(\\d+) kB$`, 'm').exec(fileOf(pid, 'status'))?.[1]) * 1024;
}
