import { readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';

export const CURRENT = /^CURRENT$/;
export const MANIFEST = /^MANIFEST-/;
export const LOG = /^\d+\.log$/;
export const TABLE = /^\d+\.(?:ldb|sst)$/;

/** The files of a kind in the directory of a database, by their numbers. */
export function filesOf(path: string, kind: RegExp): string[] {
  const names = readdirSync(path).filter((name) => kind.test(name));
  return names.sort().map((name) => join(path, name));
}

export function lastFile(path: string, kind: RegExp): string {
  return filesOf(path, kind).at(-1) ?? expect.unreachable(`no file like ${String(kind)}`);
}

/** What a file then holds; `undefined`: it is gone. */
export type FileChange = (bytes: Buffer) => Uint8Array | undefined;

/** A place in a file: a share of it, a byte, or, below 0, a byte counted from its end. */
const placeIn = ({ length }: Buffer, place: number): number =>
  Math.floor(place < 0 ? length + place : place < 1 ? place * length : place);

export const gone: FileChange = () => undefined;

export const holding = (content: string): FileChange => {
  return () => Buffer.from(content, 'latin1');
};

export const cutAt = (place: number): FileChange => {
  return (bytes) => bytes.subarray(0, placeIn(bytes, place));
};

export const zeroed = (from: number, to?: number): FileChange => {
  return (bytes) => bytes.fill(0, from, to);
};

export const flippedAt = (place: number): FileChange => {
  return (bytes) => {
    bytes.writeUInt8(bytes.readUInt8(placeIn(bytes, place)) ^ 0x10, placeIn(bytes, place));
    return bytes;
  };
};

/** Changes the last file of a kind, which may be open: it stays the same file. */
export function changeFile(path: string, kind: RegExp, change: FileChange): void {
  const file = lastFile(path, kind);
  const contents = change(readFileSync(file));
  if (contents === undefined) {
    rmSync(file);
  } else {
    writeFileSync(file, contents, { flag: 'r+' });
    truncateSync(file, contents.length);
  }
}
