import { expect, it } from 'vitest';
import { createLogger, loadPrettyLine, type LogLevel } from '../../../src/observability/index.js';
import { matching } from '../../support/refusal.js';

const { prettyLine } = await loadPrettyLine();

function logTo(format: 'json' | 'pretty', level: LogLevel = 'info') {
  const lines: string[] = [];
  const toLine = format === 'pretty' ? prettyLine({ colorize: false }) : undefined;
  const logger = createLogger({ level, toLine, destination: { write: (line) => lines.push(line) } });
  return { logger, lines };
}

it('writes JSON lines with level names, ISO time and the fields', () => {
  const { logger, lines } = logTo('json');
  logger.info({ height: 12, source: 'edi' }, 'height indexed');
  expect(lines).toEqual([matching(/\n$/)]);
  const { time, ...line } = JSON.parse(lines[0] ?? '') as Record<string, unknown>;
  expect(line).toEqual({ level: 'info', msg: 'height indexed', height: 12, source: 'edi' });
  expect(new Date(String(time)).toISOString()).toBe(time);
});

it.each(['err', 'error'])('writes an error in the field %s with message and stack', (field) => {
  const { logger, lines } = logTo('json');
  logger.error({ [field]: new TypeError('no such thing') }, 'failed');
  const line = JSON.parse(lines[0] ?? '') as Record<string, Record<string, unknown>>;
  expect(line[field]).toMatchObject({ type: 'TypeError', message: 'no such thing' });
  expect(line[field]?.['stack']).toContain('logger.test.ts');
  logger.error({ [field]: new Error('x'.repeat(3_000_000)) }, 'failed');
  expect(lines[1]?.length, 'whatever others say').toBeLessThan(20_000);
});

it('keeps quiet below its level', () => {
  const { logger, lines } = logTo('json', 'warn');
  for (const level of ['debug', 'info', 'warn', 'error'] as const) logger[level]({}, level);
  expect(lines.map((line) => (JSON.parse(line) as { msg: string }).msg)).toEqual(['warn', 'error']);
});

it('writes one readable line per event in the pretty format, before the call returns, with addresses and fractions as a person writes them', () => {
  const { logger, lines } = logTo('pretty');
  const api = { host: '127.0.0.1', port: 7180 };
  logger.info({ height: 12, reason: 'two words', detail: { missing: 1 } }, 'height indexed');
  logger.info({ api, durationMs: 46.55064200000004, count: 5000, other: { host: 'x' } }, 'listening');
  expect(lines.map((line) => line.replace(/^\[\d\d:\d\d:\d\d\] /, ''))).toEqual([
    'INFO: height indexed  height=12  reason="two words"  detail={"missing":1}\n',
    'INFO: listening  api=127.0.0.1:7180  durationMs=46.55  count=5000  other={"host":"x"}\n',
  ]);
});

it('shows the message of an error in the pretty format, and its stack at level error only', () => {
  const { logger, lines } = logTo('pretty');
  logger.warn({ error: new Error('refused') }, 'call failed');
  logger.error({ error: new Error('refused') }, 'call failed');
  expect(lines[0]).toMatch(/WARN: call failed {2}error=refused\n$/);
  expect(lines[1]).toContain('error=refused\nError: refused\n    at ');
});

it('takes user and password out of every URL, however deep it stands', () => {
  for (const format of ['json', 'pretty'] as const) {
    const { logger, lines } = logTo(format);
    const nested = { error: new Error('at http://me:secret@host/') };
    logger.error({ endpoint: 'grpcs://me:secret@node:9000', nested }, 'failed at grpc://secret@host');
    expect(lines.join('')).not.toContain('secret');
    expect(lines.join('')).toContain('grpcs://node:9000');
  }
});
