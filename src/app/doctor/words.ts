import { rangesInWords } from '../../storage/index.js';
import type { HeightRange } from '../../storage/index.js';

export function otherChain(what: string, chainId: string): string {
  return `${what}, not to ${chainId}; name the --network of the store, or another place for this one.`;
}

export function heightsInWords(coverage: readonly HeightRange[]): string {
  return coverage.length === 0 ? 'no heights yet' : `heights ${rangesInWords(coverage)}`;
}
