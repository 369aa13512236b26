import type { IncomingHttpHeaders } from 'node:http';

/** Longer ones are ignored. */
const MAX_PREFIX_LENGTH = 256;
/** One or more segments; nothing that a browser would take for another host. */
const PATH = /^(?:\/[\w.~%-]+)+$/;
/** The members of a document that hold links. */
const LINKS: ReadonlySet<string> = new Set(['_links', '_expandable']);

/**
 * The path below which a proxy serves this server, as it says in X-Forwarded-Prefix, each proxy for itself; empty if none says
 * so.
 */
export function prefixOf(headers: IncomingHttpHeaders): string {
  const told = [headers['x-forwarded-prefix'] ?? []].flat().join().split(',');
  const prefix = told.map((one) => one.trim().replace(/\/+$/, '')).join('');
  return prefix.length <= MAX_PREFIX_LENGTH && PATH.test(prefix) ? prefix : '';
}

/** A reference to the root of this server from the page at this URL, which works behind a proxy that says nothing too. */
export function rootFrom(url: string, prefix: string): string {
  if (prefix !== '') return `${prefix}/`;
  const [path = ''] = url.split('?', 1);
  // `*`, and the path of an absolute URL, have no slash or others.
  return '../'.repeat(Math.max(0, path.split('/').length - 2)) || './';
}

/** Puts the prefix before every link of a document in Flow's form. */
export function linksBelow(prefix: string, document: unknown, isLink = false): unknown {
  if (prefix === '') return document;
  if (isLink && typeof document === 'string') return prefix + document;
  if (Array.isArray(document)) return document.map((item) => linksBelow(prefix, item, isLink));
  if (typeof document !== 'object' || document === null) return document;
  const fields = Object.entries(document);
  return Object.fromEntries(
    fields.map(([name, field]) => [name, linksBelow(prefix, field, isLink || LINKS.has(name))]),
  );
}
