import { describe, expect, it } from 'vitest';
import {
  maskedEndpoint,
  named,
  OperatorError,
  quoted,
  withoutCredentials,
} from '../../../src/runtime/index.js';

describe('what is put before an operator', () => {
  it('is one line without control characters, whatever went into it', () => {
    const { message } = new OperatorError('usage', 'bad \u001b[2J\r\nflag \u009b31m\u202e, see --help');
    expect(message).toBe('bad \\u001b[2J\\u000d\\u000aflag \\u009b31m\\u202e, see --help');
  });

  it('keeps its beginning and its end when it is too long', () => {
    const { message } = new OperatorError('usage', `Wrong value "${'x'.repeat(50_000)}". Write a number.`);
    expect(message.length).toBeLessThanOrEqual(1_000);
    expect(message).toMatch(/^Wrong value "xxx.*…x*"\. Write a number\.$/);
  });

  it('holds no credentials', () => {
    const { message } = new OperatorError('usage', 'cannot reach grpc://me:secret@node:9000');
    expect(message).toBe('cannot reach grpc://node:9000');
    for (const text of [
      'grpc://me:se/cret@node:1',
      'me:secret@node:1',
      ' GRPC://secret@node:1',
      'a@secret@node:1',
    ])
      expect(maskedEndpoint(text)).not.toMatch(/se\/?cret/);
    expect(maskedEndpoint('grpc://node:9000')).toBe('grpc://node:9000');
  });

  it('is made in time that grows with the text, not with its square', () => {
    for (const text of [
      `${'a'.repeat(2_000_000)}@`,
      'ab+'.repeat(500_000) + '@',
      '://a'.repeat(500_000) + ' @',
      `a://${'b'.repeat(2_000_000)}`,
    ])
      expect(withoutCredentials(text)).toHaveLength(text.length);
    expect(withoutCredentials(`${'a'.repeat(100)}grpc://me:secret@node:1`)).not.toContain('secret');
  });

  it('hides what may be a password before a mistyped @', () => {
    for (const text of ['grpc://user:sesame#node:9000', 'http://user:sesamenode'])
      expect(withoutCredentials(`Wrong: ${text}.`)).toMatch(/:\/\/user:\*\*\*/);
    for (const text of [
      'grpc://node:9000, grpc://[::1]:9000',
      'http://127.0.0.1:7180/status',
      'grpc://node:90x00',
    ])
      expect(withoutCredentials(text)).toBe(text);
  });

  it('quotes what is odd or long, and leaves ordinary words alone', () => {
    expect(named('api.port')).toBe('api.port');
    expect(named('api port')).toBe('"api port"');
    expect(quoted('a"b\u0000')).toBe('"a\\"b\\u0000"');
    expect(quoted('x'.repeat(5_000))).toBe(`"${'x'.repeat(80)}…"`);
  });
});
