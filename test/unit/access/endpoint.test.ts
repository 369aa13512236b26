import { expect, it } from 'vitest';
import { parseEndpoint, proxyFor } from '../../../src/access/index.js';
import { refusal } from '../../support/refusal.js';

it.each([
  ['access.mainnet.nodes.onflow.org:9000', 'access.mainnet.nodes.onflow.org', 9000, false],
  ['grpc://127.0.0.1:3569', '127.0.0.1', 3569, false],
  ['grpcs://Node.Example.org:9001', 'node.example.org', 9001, true],
  ['GRPC://localhost:1/', 'localhost', 1, false],
  ['  my_node-1:65535 ', 'my_node-1', 65535, false],
  ['[::1]:9000', '::1', 9000, false, '[::1]:9000'],
  ['grpc://[2001:DB8::7]:9000', '2001:db8::7', 9000, false, '[2001:db8::7]:9000'],
])('parseEndpoint reads %s', (text, host, port, tls, name = `${host}:${port}`) => {
  expect(parseEndpoint(text)).toEqual({ name, host, port, tls });
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
])('parseEndpoint refuses %j in a sentence that shows the right form', (text, reason) => {
  const read = (): unknown => parseEndpoint(text);
  expect(read).toThrow(expect.objectContaining(refusal('configuration', 'grpcs://host:port')));
  expect(read).toThrow(reason);
});

const proxy = 'http://me:secret@corp.example:3128/';
const through = (text: string, environment: Record<string, string>): boolean =>
  proxyFor(parseEndpoint(text), environment) !== undefined;

it('the proxy of the environment is used for nodes elsewhere, never for this machine, and shown without credentials', () => {
  for (const variable of ['grpc_proxy', 'https_proxy', 'http_proxy'])
    expect(proxyFor(parseEndpoint('node.example:9000'), { [variable]: proxy })).toEqual({
      ...{ variable, address: 'http://***@corp.example:3128/', isUsed: true },
    });
  expect(proxyFor(parseEndpoint('node.example:9000'), {})).toBeUndefined();
  expect(proxyFor(parseEndpoint('a:1'), { https_proxy: 'socks5://p:1' })).toMatchObject({ isUsed: false });
  for (const text of ['localhost:1', '127.0.0.1:1', '127.9.9.9:1', '[::1]:1'])
    expect(through(text, { http_proxy: proxy }), text).toBe(false);
});

it.each([
  ['*', 'a.example:1', true],
  ['a.example', 'a.example:1', true],
  ['b.example, a.example', 'a.example:1', true],
  ['.example', 'a.example:1', true],
  ['*.example', 'a.example:1', true],
  ['example', 'a.example:1', true],
  ['A.EXAMPLE:1', 'a.example:1', true],
  ['a.example:2', 'a.example:1', false],
  ['a.example', 'ba.example:1', false],
  ['', 'a.example:1', false],
  ['b.example,', 'a.example:1', false],
  ['10.0.0.7', '10.0.0.7:1', true],
  ['10.0.0.0/8', '10.0.0.7:1', true],
  ['10.0.0.0/8', '11.0.0.7:1', false],
  ['fd00::/8', '[fd00::7]:1', true],
  ['fd00::/999', '[fd00::7]:1', false],
])('the proxy of the environment no_proxy=%s and the node %s', (list, text, isExcepted) => {
  for (const variable of ['no_proxy', 'no_grpc_proxy', 'NO_PROXY'])
    expect(through(text, { https_proxy: proxy, [variable]: list })).toBe(!isExcepted);
});
