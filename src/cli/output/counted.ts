import { formatCount } from '../../observability/index.js';

/** A count with its noun: "1 height", "1,234 heights". */
export function counted(count: number, noun: string): string {
  return `${formatCount(count)} ${noun}${count === 1 ? '' : 's'}`;
}
