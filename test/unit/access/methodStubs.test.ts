import { describe, expect, it } from 'vitest';
import { loadMethodStubs } from '../../../src/access/transport/methodStubs.js';

describe('the stubs of the methods we call', () => {
  // They are looked up for the first call only: a name that the interface lacks would be found by a daemon at work.
  it.each(Object.entries(loadMethodStubs()))('%s is a method of the interface', (method, stub) => {
    expect(stub.path).toMatch(new RegExp(`^/flow[a-zA-Z0-9_.]+/${method}$`));
    expect(stub.encode({})).toBeInstanceOf(Buffer);
    expect(stub.decode(Buffer.alloc(0))).toBeTypeOf('object');
  });
});
