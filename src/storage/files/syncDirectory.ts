import { open } from 'node:fs/promises';

/** Makes the names in a directory outlive a power loss. Expected errors: those of the file system. */
export async function syncDirectory(path: string): Promise<void> {
  const directory = await open(path, 'r');
  try {
    await directory.sync();
  } finally {
    await directory.close();
  }
}
