// esbuild's options for bundling sources and their packages into a file that Node.js runs.
import { join } from 'node:path';

export const root = join(import.meta.dirname, '..');

/** Finds its binaries relative to its own files. */
const NATIVE = ['level'];
/** `pg` works without it. */
const OPTIONAL = ['pg-native'];

// CommonJS packages call `require` for Node.js modules, but ES modules have no `require`.
const REQUIRE = `import { createRequire as requireFrom } from 'node:module'; const require = requireFrom(import.meta.url);`;

export const forNode = {
  absWorkingDir: root,
  bundle: true,
  format: 'esm',
  platform: 'node',
  target: 'node20.19',
  external: [...NATIVE, ...OPTIONAL],
  banner: { js: REQUIRE },
  legalComments: 'none',
};
