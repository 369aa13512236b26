import { expect, it } from 'vitest';
import { hasSoundHttp2 } from '../../../src/api/index.js';

it('knows the lines of Node.js that a caller of the gRPC port can abort', () => {
  for (const version of ['v20.20.2', 'v24.21.0']) expect(hasSoundHttp2(version)).toBe(true);
  for (const version of ['v22.23.3', 'v26.8.1']) expect(hasSoundHttp2(version)).toBe(false);
});
