import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseEndpoint } from '../../../src/access/index.js';
import { OperatorError } from '../../../src/runtime/index.js';

describe('parseEndpoint', () => {
  it.each([
    ['access.mainnet.nodes.onflow.org:9000', 'access.mainnet.nodes.onflow.org', 9000, false],
    ['grpc://127.0.0.1:3569', '127.0.0.1', 3569, false],
    ['grpcs://Node.Example.org:9001', 'node.example.org', 9001, true],
    ['GRPC://localhost:1/', 'localhost', 1, false],
    ['  my_node-1:65535 ', 'my_node-1', 65535, false],
  ])('reads %s', (text, host, port, tls) => {
    expect(parseEndpoint(text)).toEqual({ name: `${host}:${port}`, host, port, tls });
  });

  it.each([
    ['[::1]:9000', '::1', '[::1]:9000'],
    ['grpc://[2001:DB8::7]:9000', '2001:db8::7', '[2001:db8::7]:9000'],
  ])('reads the IPv6 address %s', (text, host, name) => {
    expect(parseEndpoint(text)).toEqual({ name, host, port: 9000, tls: false });
  });

  it.each([
    ['', 'no port'],
    ['localhost', 'no port'],
    ['[::1]', 'no port'],
    ['::1:9000', 'brackets'],
    ['[nonsense]:9000', 'not an IPv6'],
    [':9000', 'no host'],
    ['localhost:', 'port is not'],
    ['localhost:0', 'port is not'],
    ['localhost:65536', 'port is not'],
    ['localhost:90x', 'port is not'],
    ['http://localhost:9000', 'http'],
    ['https://localhost', 'https'],
    ['grpc://user:secret@localhost:9000', 'nothing but a host and a port'],
    ['grpc://localhost:9000/path', 'nothing but a host and a port'],
    ['grpc://localhost:9000?x=1', 'nothing but a host and a port'],
    ['two words:9000', 'nothing but a host and a port'],
    ['-dash-:9000', 'neither a name nor an address'],
  ])('refuses %j in a sentence that shows the right form', (text, reason) => {
    let thrown: unknown;
    try {
      parseEndpoint(text);
    } catch (error) {
      thrown = error;
    }
    expect(thrown).toBeInstanceOf(OperatorError);
    expect(thrown).toMatchObject({ exit: 'configuration' });
    expect((thrown as Error).message).toContain(reason);
    expect((thrown as Error).message).toContain('grpcs://host:port');
  });

  it('either reads a text to a name that reads to itself, or refuses it', () => {
    const scheme = fc.constantFrom('', 'grpc://', 'grpcs://', 'http://');
    const host = fc.oneof(
      fc.domain(),
      fc.ipV4(),
      fc.ipV6().map((ip) => `[${ip}]`),
      fc.string(),
    );
    const port = fc.oneof(fc.integer({ min: -1, max: 70_000 }).map(String), fc.string());
    fc.assert(
      fc.property(scheme, host, port, (s, h, p) => {
        try {
          const { name } = parseEndpoint(`${s}${h}:${p}`);
          expect(parseEndpoint(name).name).toBe(name);
        } catch (error) {
          expect(error).toBeInstanceOf(OperatorError);
        }
      }),
    );
  });
});
