import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { readNodeMetadata } from '../../../src/app/guard/nodeMetadata.js';
import { loadConfig } from '../../../src/config/index.js';
import { scratchDirectory } from '../../support/program.js';

it('a file of metadata that is removed while it is read was read', async () => {
  const sources = { file: undefined, environment: {}, flags: new Map() };
  const { access } = loadConfig(sources, { isTerminal: false }).config;
  const file = join(scratchDirectory(), 'metadata');
  const read = async () => readNodeMetadata(file, { access, nodes: [] });
  for (let times = 0; times < 100; times += 1) {
    writeFileSync(file, 'node:9000 x-token: abc\n');
    const reading = read();
    rmSync(file);
    expect([...(await reading).keys()]).toEqual(['node:9000']);
  }
});
