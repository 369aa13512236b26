import { join } from 'node:path';
import { MANIFEST_FILE } from './fileNames.js';
import { parseManifest } from './manifest.js';
import type { Manifest } from './manifest.js';
import { readIfThere } from './readIfThere.js';

/** A manifest, or what is wrong with the file that should be one or name one. */
export type FoundManifest =
  { readonly file: string; readonly content: Manifest } | { readonly file: string; readonly what: string };

/** The manifest that CURRENT names. The database may be in use. Expected errors: those of the file system. */
export async function readCurrentManifest(path: string): Promise<FoundManifest> {
  const current = await readIfThere(join(path, 'CURRENT'));
  if (current === undefined) return { file: 'CURRENT', what: 'it is missing' };
  const [, file] = /^(.*)\n$/.exec(current.toString('latin1')) ?? [];
  if (file === undefined || !MANIFEST_FILE.test(file))
    return { file: 'CURRENT', what: 'it does not name the manifest' };
  return readManifest(path, file);
}

/** Expected errors: those of the file system. */
export async function readManifest(path: string, file: string): Promise<FoundManifest> {
  const bytes = await readIfThere(join(path, file));
  if (bytes === undefined) return { file, what: 'it is missing' };
  const content = parseManifest(bytes);
  if (content === undefined)
    return { file, what: 'its records do not match their checksums, or are not all there' };
  return { file, content };
}
