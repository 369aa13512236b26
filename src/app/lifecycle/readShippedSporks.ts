import { join } from 'node:path';
import { readSporkTable } from '../../access/index.js';
import type { SporkTable } from '../../access/index.js';
import { packageRoot } from '../../runtime/index.js';

/** The sporks of a network, from the config/sporks.json that comes with the program. */
export function readShippedSporks(network: string): Promise<SporkTable> {
  return readSporkTable(join(packageRoot, 'config', 'sporks.json'), network);
}
