// How sources become a file that Node.js runs, with the packages it needs in it.
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const root = join(dirname(fileURLToPath(import.meta.url)), '..');

/** Has binaries of its own, which must lie where it looks for them. */
const NATIVE = ['level'];
/** `pg` would take it in place of its own JavaScript, were it there. */
const NEVER_THERE = ['pg-native'];

// Older packages ask for modules of Node.js by a function that ES modules do not have.
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
