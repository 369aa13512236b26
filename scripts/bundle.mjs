// How sources become a file that Node.js runs, with the packages it needs in it.
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const root = join(dirname(fileURLToPath(import.meta.url)), '..');

/** Has binaries of its own, which must lie where it looks for them. */
const NATIVE = ['level'];
/** `pg` looks for it, and does without. */
const NEVER_THERE = ['pg-native'];

// CommonJS packages call `require` for modules of Node.js, which ES modules lack.
const REQUIRE = `import { createRequire as requireFrom } from 'node:module'; const require = requireFrom(import.meta.url);`;

/** For esbuild. */
export const forNode = {
  absWorkingDir: root,
  bundle: true,
  format: 'esm',
  platform: 'node',
  target: 'node20.19',
  external: [...NATIVE, ...NEVER_THERE],
  banner: { js: REQUIRE },
  legalComments: 'none',
};
