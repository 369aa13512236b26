import { describe, expect, it } from 'vitest';
import { pathOf } from '../../../src/access/transport/methodPaths.js';
import { unaryMethods } from '../../../src/access/types.js';
import type { AccessMethod } from '../../../src/access/index.js';
import { loadProtocol } from '../../../src/flow/index.js';

describe('the paths of the methods we call', () => {
  const paths = new Set(
    Object.values(loadProtocol()).flatMap((service) =>
      'format' in service ? [] : Object.values(service).map(({ path }) => path),
    ),
  );
  const methods: readonly AccessMethod[] = [
    ...unaryMethods,
    'SubscribeBlocksFromStartHeight',
    'SubscribeBlockDigestsFromLatest',
    'SubscribeExecutionDataFromStartBlockHeight',
    'SubscribeExecutionData',
    'SubscribeIndexedBlocks',
  ];

  // A name that the interface lacks would be found by a daemon at work.
  it.each(methods)('%s is a method of the interface', (method) => {
    expect(paths).toContain(pathOf(method, false));
    expect(paths).toContain(pathOf(method, true));
  });
});
