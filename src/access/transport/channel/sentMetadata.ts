import { Metadata, status, type StatusObject } from '@grpc/grpc-js';
import type { NodeMetadata } from '../ports.js';

/** A shorter value is no secret, and would be found in ordinary words. */
const SECRET_MIN_CHARACTERS = 4;

/** The metadata of a call to a node. What the node requires replaces what a caller sent under the same names. */
export function metadataFor(wanted: NodeMetadata, ofCaller = new Metadata()): Metadata {
  for (const [name, value] of Object.entries(wanted)) ofCaller.set(name, value);
  return ofCaller;
}

/**
 * How a call ended, without the values that were sent. grpc-js omits code and text where it does not support a message's
 * compression.
 */
export function shownStatus(
  {
    code = status.INTERNAL,
    details = 'unsupported compression of a message',
    metadata,
  }: Partial<StatusObject> & Pick<StatusObject, 'metadata'>,
  sent: NodeMetadata,
): StatusObject {
  return { code, details: withoutValues(details, sent), metadata: withoutSentValues(metadata, sent) };
}

/** A node's text, with stars where it repeats a value that it was sent, with or without the scheme before it. */
export function withoutValues(text: string, sent: NodeMetadata): string {
  return secretsIn(sent).reduce((shown, secret) => shown.replaceAll(secret, '*'.repeat(secret.length)), text);
}

/** Does the same to bytes, in place, so that every length in them stays right. */
export function maskValues(bytes: Buffer, sent: NodeMetadata): void {
  for (const secret of secretsIn(sent)) {
    for (let at = bytes.indexOf(secret); at !== -1; at = bytes.indexOf(secret, at + secret.length))
      bytes.fill('*', at, at + secret.length);
  }
}

/** The longest value that `maskValues` looks for, in bytes; 0 when there is none. */
export function longestValue(sent: NodeMetadata): number {
  return Math.max(0, ...secretsIn(sent).map(({ length }) => length));
}

/** Does the same to metadata of a node's response. */
export function withoutSentValues(metadata: Metadata, sent: NodeMetadata): Metadata {
  if (secretsIn(sent).length === 0) return metadata;
  const shown = metadata.clone();
  for (const name of Object.keys(metadata.getMap())) {
    const values = metadata.get(name).filter((value) => typeof value === 'string');
    if (values.every((value) => withoutValues(value, sent) === value)) continue;
    shown.remove(name);
    for (const value of values) shown.add(name, withoutValues(value, sent));
  }
  return shown;
}

/** All of them printable ASCII. */
function secretsIn(sent: NodeMetadata): readonly string[] {
  const values = Object.values(sent).flatMap((value) => [value, value.slice(value.lastIndexOf(' ') + 1)]);
  return values.filter(({ length }) => length >= SECRET_MIN_CHARACTERS);
}
