import { prettyFactory } from 'pino-pretty';
import { fieldsOf, hostAndPort } from '../../runtime/index.js';

/** Fields that the line shows elsewhere. */
const shownElsewhere = new Set(['level', 'time', 'msg']);
/** Fields that hold a serialised error. */
const errorFields = new Set(['err', 'error']);

const DECIMALS_SHOWN = 2;

/** Formats a value for people: a single word as is, an address as `host:port`, anything else as JSON. */
function show(value: unknown): string {
  if (typeof value === 'number') return String(Number(value.toFixed(DECIMALS_SHOWN)));
  const { host, port, ...others } = fieldsOf(value);
  if (typeof host === 'string' && typeof port === 'number' && Object.keys(others).length === 0)
    return hostAndPort({ host, port });
  return typeof value === 'string' && /^[^\s"=]+$/.test(value) ? value : JSON.stringify(value);
}

/** The message, then `key=value` pairs. An error shows its message; at level error its stack follows. */
function formatMessage(log: Readonly<Record<string, unknown>>): string {
  const parts = [typeof log['msg'] === 'string' ? log['msg'] : ''];
  let stack = '';
  for (const [key, value] of Object.entries(log)) {
    if (shownElsewhere.has(key)) continue;
    const { message = value, stack: trace } = errorFields.has(key) ? fieldsOf(value) : {};
    parts.push(`${key}=${show(message)}`);
    if (log['level'] === 'error' && typeof trace === 'string') stack = `\n${trace}`;
  }
  return parts.join('  ').trim() + stack;
}

/**
 * Returns a function that turns a JSON log line into a line for a terminal, in local time. It uses pino-pretty's
 * formatter without its stream, so lines are written before the call returns.
 */
export function prettyLine(options: { readonly colorize: boolean }): (line: string) => string {
  return prettyFactory({
    colorize: options.colorize,
    translateTime: 'SYS:HH:MM:ss',
    hideObject: true,
    messageFormat: formatMessage,
  });
}
