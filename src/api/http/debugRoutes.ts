import { quoted } from '../../runtime/index.js';
import { isLoopback } from '../server/listenError.js';
import { ApiError, invalidArgument } from '../view/ApiError.js';
import { single } from '../view/queryParameters.js';
import { JSON_TYPE } from './types.js';
import type { HttpRequest, HttpRoute } from './types.js';

/** A thread of the daemon. */
export const debugThreads = ['main', 'reader'] as const;
export type DebugThread = (typeof debugThreads)[number];

/** Profiles of the daemon's threads, as JSON. Expected errors: ApiError. */
export interface Debugging {
  cpuProfile(thread: DebugThread, durationMs: number): Promise<string>;
  heap(thread: DebugThread): Promise<string>;
}

const DEFAULT_SECONDS = 5;
/** A profile is held in memory, and a connection on which nothing moves is cut after a minute. */
const MAX_SECONDS = 30;
const SECOND_MS = 1_000;

/** Headers that a proxy sets for another caller. */
const FORWARDED = ['forwarded', 'x-forwarded-for', 'x-real-ip', 'via'];

/** `/debug/profile` and `/debug/heap`, only for this machine, whatever address the server listens at. */
export function debugRoutes(debugging: Debugging): readonly HttpRoute[] {
  return [
    {
      path: '/debug/profile',
      handle: async (request) => {
        refuseOthers(request);
        const thread = threadOf(request);
        const body = await debugging.cpuProfile(thread, secondsOf(request) * SECOND_MS);
        return { body, contentType: JSON_TYPE };
      },
    },
    {
      path: '/debug/heap',
      handle: async (request) => {
        refuseOthers(request);
        return { body: await debugging.heap(threadOf(request)), contentType: JSON_TYPE };
      },
    },
  ];
}

/**
 * Refuses all callers but those on this machine: other addresses, callers behind a proxy, and web pages that reach us by DNS
 * rebinding (their host is not this machine).
 */
function refuseOthers({ headers, remoteAddress = '' }: HttpRequest): void {
  const host = /^(?:\[([^\]]*)\]|([^:]*))(?::\d+)?$/.exec(headers.host ?? '');
  const isHere = isLoopback(remoteAddress.replace(/^::ffff:/i, ''));
  const isNamedHere = isLoopback(host?.[1] ?? host?.[2] ?? '');
  if (isHere && isNamedHere && FORWARDED.every((name) => headers[name] === undefined)) return;
  throw new ApiError(403, 'local_only', 'this is served to callers on the same machine only, directly');
}

function threadOf({ query }: HttpRequest): DebugThread {
  const wanted = single(query, 'thread') || 'main';
  const thread = debugThreads.find((name) => name === wanted);
  if (thread !== undefined) return thread;
  throw invalidArgument(`thread is ${debugThreads.join(' or ')}, not ${quoted(wanted)}`);
}

function secondsOf({ query }: HttpRequest): number {
  const wanted = single(query, 'seconds');
  if (wanted === '') return DEFAULT_SECONDS;
  const seconds = /^\d{1,4}$/.test(wanted) ? Number(wanted) : 0;
  if (seconds >= 1 && seconds <= MAX_SECONDS) return seconds;
  throw invalidArgument(`seconds is a whole number from 1 to ${MAX_SECONDS}, not ${quoted(wanted)}`);
}
