import { open } from 'node:fs/promises';

/** Writes a file that only its owner may read, and syncs it. `wx` fails where the file exists. */
export async function writeSynced(path: string, content: Buffer, flags: 'w' | 'wx'): Promise<void> {
  const file = await open(path, flags, 0o600);
  try {
    await file.writeFile(content);
    await file.sync();
  } finally {
    await file.close();
  }
}

/** Makes the content of a file outlive a power loss. Expected errors: those of the file system. */
export async function syncFile(path: string): Promise<void> {
  const file = await open(path, 'r+');
  try {
    await file.sync();
  } finally {
    await file.close();
  }
}
