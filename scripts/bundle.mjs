// esbuild's options for bundling our own sources into files that Node.js runs. Packages stay packages: they are installed beside.
import { readFileSync } from 'node:fs';
import { createRequire, isBuiltin } from 'node:module';
import { dirname, join, resolve } from 'node:path';

export const root = join(import.meta.dirname, '..');
const requireHere = createRequire(join(root, 'package.json'));

/**
 * Has packages in CommonJS required instead of imported: to import one, Node.js first parses all of its files for names, which
 * takes a third of the start on Node.js 20 (docs/decisions/0010-starting.md). And `node:http`: an import looks at all of its names,
 * and so loads the client behind `fetch` on Node.js 22 and 24. That takes 4 MiB and some 20 ms of each command, and ends it on 22
 * where WebAssembly gets no memory (`ulimit -v`).
 */
const requirePackages = {
  name: 'require-packages',
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^[^./]/ }, ({ path, kind, namespace }) => {
      if (kind === 'entry-point') return undefined;
      const isImported = kind === 'import-statement' && namespace === 'file';
      const isRequired = isBuiltin(path) ? path === 'node:http' : isCommonJs(path);
      if (!isImported || !isRequired) return { path, external: true };
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

/** Rooms that nearly every command uses, and that load fast: a file of the build for each of their files would take longer. */
const WHOLE_ROOMS = 'runtime|config|flow';
/** An import of names from a folder's index.ts, and what such a file passes on. Types alone never reach the build. */
const FROM_DOOR = new RegExp(
  `^import \\{([^}]*)\\} from '(\\.(?!.*/(?:${WHOLE_ROOMS})/)[^']*/index\\.js)';`,
  'gm',
);
const PASSED_ON = /^export \{([^}]*)\} from '([^']*)';/gm;
/** Behind the path of an index.ts: only what it defines itself. */
const OWN = '?own';

/**
 * Has names imported from the files that define them, where the source imports them through a folder's index.ts: that would
 * load the whole room with them, and a command that needs little would wait for it.
 */
const throughDoors = {
  name: 'through-doors',
  setup({ onLoad }) {
    onLoad({ filter: /\/src\/.*\.tsx?$/ }, ({ path, suffix }) => {
      const text = readFileSync(path, 'utf8');
      const blank = (all) => all.replaceAll(/[^\n]/g, '');
      const contents =
        suffix === OWN
          ? text.replaceAll(PASSED_ON, blank)
          : text.replaceAll(FROM_DOOR, (all, names, door) => {
              const imports = namesIn(names).map(({ name, as }) => {
                const { file, name: itsName } = definitionOf(resolve(dirname(path), door), name);
                return `import { ${itsName} as ${as} } from ${JSON.stringify(file)};`;
              });
              // Source maps count lines.
              return imports.join(' ') + blank(all);
            });
      return { contents, loader: path.endsWith('x') ? 'tsx' : 'ts', resolveDir: dirname(path) };
    });
  },
};

/** The file that defines what an index.js, by its source, exports under this name. */
function definitionOf(door, name) {
  if (!door.endsWith('/index.js')) return { file: door, name };
  const text = readFileSync(door.replace(/js$/, 'ts'), 'utf8');
  for (const [, names, from] of text.matchAll(PASSED_ON)) {
    const found = namesIn(names).find(({ as }) => as === name);
    if (found !== undefined) return definitionOf(resolve(dirname(door), from), found.name);
  }
  return { file: door + OWN, name };
}

function namesIn(list) {
  return list
    .split(',')
    .map((each) => each.trim())
    .filter((each) => each !== '' && !each.startsWith('type '))
    .map((each) => {
      const [name, as = name] = each.split(' as ');
      return { name, as };
    });
}

// ES modules have no `require`.
const REQUIRE = `import { createRequire as requireFrom } from 'node:module'; const require = requireFrom(import.meta.url);`;

export const forNode = {
  absWorkingDir: root,
  bundle: true,
  format: 'esm',
  platform: 'node',
  target: 'node20.19',
  plugins: [throughDoors, requirePackages],
  banner: { js: REQUIRE },
};
