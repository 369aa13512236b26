// esbuild's options for bundling our own sources into files that Node.js runs. Packages stay packages: they are installed beside.
import { createRequire, isBuiltin } from 'node:module';
import { join } from 'node:path';

export const root = join(import.meta.dirname, '..');
const requireHere = createRequire(join(root, 'package.json'));

/**
 * Has packages in CommonJS required instead of imported: to import one, Node.js first parses all of its files for names, which
 * takes a third of the start on Node.js 20 (docs/decisions/0010-starting.md).
 */
const requirePackages = {
  name: 'require-packages',
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^[^./]/ }, ({ path, kind, namespace }) => {
      if (kind === 'entry-point') return undefined;
      const isImported = kind === 'import-statement' && namespace === 'file';
      if (!isImported || isBuiltin(path) || !isCommonJs(path)) return { path, external: true };
      return { path, namespace: 'required', sideEffects: false };
    });
    onLoad({ filter: /./, namespace: 'required' }, ({ path }) => ({
      contents: `module.exports = require(${JSON.stringify(path)});`,
    }));
  },
};

function isCommonJs(name) {
  const file = requireHere.resolve(name);
  if (file.endsWith('.cjs')) return true;
  const [folder] = /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(file);
  return requireHere(join(folder, 'package.json')).type !== 'module';
}

// ES modules have no `require`.
const REQUIRE = `import { createRequire as requireFrom } from 'node:module'; const require = requireFrom(import.meta.url);`;

export const forNode = {
  absWorkingDir: root,
  bundle: true,
  format: 'esm',
  platform: 'node',
  target: 'node20.19',
  plugins: [requirePackages],
  banner: { js: REQUIRE },
};
