import { expect, it } from 'vitest';
import { maskedEndpoint, named, OperatorError, quoted } from '../../../src/runtime/index.js';
import { withoutCredentials, withoutUrlPaths } from '../../../src/runtime/index.js';

it('is one line without control characters, whatever went into it', () => {
  const { message } = new OperatorError('usage', 'bad \u001b[2J\r\nflag \u009b31m\u202e, see --help');
  expect(message).toBe('bad \\u001b[2J\\u000d\\u000aflag \\u009b31m\\u202e, see --help');
});

it('keeps its beginning and its end when it is too long', () => {
  const { message } = new OperatorError('usage', `Wrong value "${'x'.repeat(50_000)}". Write a number.`);
  expect(message.length).toBeLessThanOrEqual(1_000);
  expect(message).toMatch(/^Wrong value "xxx.*…x*"\. Write a number\.$/);
  // Not half a character: JSON in PostgreSQL, and some readers of a log, refuse that.
  for (const before of ['', 'x'])
    expect(new OperatorError('usage', before + '😀'.repeat(1_000)).message).not.toMatch(/\p{Cs}/u);
});

it('holds no credentials', () => {
  const { message } = new OperatorError('usage', 'cannot reach grpc://me:secret@node:9000');
  expect(message).toBe('cannot reach grpc://node:9000');
  for (const text of ['grpc://me:se/cret@n:1', 'me:secret@n:1', ' GRPC://secret@n:1', 'a@secret@n:1'])
    expect(maskedEndpoint(text)).not.toMatch(/se\/?cret/);
  expect(maskedEndpoint('grpc://node:9000')).toBe('grpc://node:9000');
});

it('repeats no path of a URL: providers put tokens there', () => {
  const TOKEN = 'k3y-0123456789';
  for (const [text, shown] of [
    [`grpcs://node:443/v1/${TOKEN}`, 'grpcs://node:443/***'],
    [`node:443/${TOKEN}`, 'node:443/***'],
    [`node.example/${TOKEN}`, 'node.example/***'],
    [`https://node.example?key=${TOKEN}`, 'https://node.example?***'],
    [`https://node.example#${TOKEN}`, 'https://node.example#***'],
    [`grpcs://${TOKEN}/x@node:1/${TOKEN}?${TOKEN}`, 'grpcs://***@node:1/***'],
    [`grpcs:/node/${TOKEN}`, 'grpcs:/***'],
    [`grpcs://node:${TOKEN}`, 'grpcs://node:***'],
    ['grpc://[::1]:9000/', 'grpc://[::1]:9000/'],
    ['https://node.example', 'https://node.example'],
    [`postgres://me:${TOKEN}@db:1/flow?sslmode=${TOKEN}`, 'postgres://***@db:1/flow?***'],
  ] as const)
    expect(maskedEndpoint(text)).toBe(shown);

  const sentences = [
    `Cannot use grpcs://node:443/v1/${TOKEN}: why.`,
    `{"msg":"a","to":"https://node.example/${TOKEN}/x?y=${TOKEN}","n":1}`,
    `see ws://[::1]:1/${TOKEN}, then stop`,
  ];
  for (const text of sentences) {
    const { message } = new OperatorError('usage', text);
    expect(message).not.toContain(TOKEN);
    expect(message).toContain('/***');
    expect(message.at(-1)).toBe(text.at(-1));
  }
  for (const text of [`http://127.0.0.1:7180/${TOKEN}`, `n:443/${TOKEN}`, `https://n.example/${TOKEN}`])
    expect(quoted(text) + named(text)).not.toContain(TOKEN);
  for (const text of ['/var/lib/flow', 'docs/operations.md', 'http://[::1]:7180/status', 'at 10:30, 5/6']) {
    expect(withoutCredentials(text)).toBe(text);
    expect(withoutUrlPaths(text)).toBe(text.replace('/status', '/***'));
  }
});

it('is made in time that grows with the text, not with its square', () => {
  for (const text of [
    `${'a'.repeat(200_000)}@`,
    'ab+'.repeat(60_000) + '@',
    '://a'.repeat(50_000) + ' @',
    `a://${'b'.repeat(200_000)}`,
    'a:1'.repeat(60_000),
  ]) {
    expect([text.length, '://a://a:/*** @'.length]).toContain(withoutCredentials(text).length);
    expect(withoutUrlPaths(text)).toBeTypeOf('string');
    expect(maskedEndpoint(text)).toBeTypeOf('string');
  }
  expect(withoutCredentials(`a://b/${'.'.repeat(2_000_000)}c`)).toBe('a://b/***');
  expect(withoutCredentials(`${'a'.repeat(100)}grpc://me:secret@node:1`)).not.toContain('secret');
});

it('hides what may be a password before a mistyped @', () => {
  for (const text of ['grpc://user:sesame#node:9000', 'http://user:sesamenode'])
    expect(withoutCredentials(`Wrong: ${text}.`)).toMatch(/:\/\/user:\*\*\*/);
  for (const text of [
    'grpc://node:9000, grpc://[::1]:9000',
    'http://127.0.0.1:7180/status',
    'grpc://node:90x00',
    'at start (file:///opt/indexer/dist/main.js:12:34)',
  ])
    expect(withoutCredentials(text)).toBe(text);
});

it('quotes what is odd or long, and leaves ordinary words alone', () => {
  expect([named('api.port'), named('api port')]).toEqual(['api.port', '"api port"']);
  expect(quoted('a"b\u0000')).toBe('"a\\"b\\u0000"');
  expect(quoted('x'.repeat(5_000))).toBe(`"${'x'.repeat(80)}…"`);
});
