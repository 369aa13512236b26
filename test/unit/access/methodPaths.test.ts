import { expect, it } from 'vitest';
import { pathOf } from '../../../src/access/transport/methodPaths.js';
import { streamMethods, unaryMethods } from '../../../src/access/types.js';
import { loadProtocol } from '../../../src/devnet/index.js';

const paths = Object.values(loadProtocol()).flatMap((service) =>
  'format' in service ? [] : Object.values(service).map(({ path }) => path),
);

// A name that the interface lacks would be found by a daemon at work.
it.each([...unaryMethods, ...streamMethods])('%s is a method of the interface', (method) => {
  for (const isProvable of [false, true]) expect(paths).toContain(pathOf(method, isProvable));
});
