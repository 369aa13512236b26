// esbuild's options for bundling our own sources into files that Node.js runs. Packages stay packages: they are installed beside.
import { existsSync, readFileSync } from 'node:fs';
import { createRequire, isBuiltin } from 'node:module';
import { dirname, join, relative, resolve } from 'node:path';

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

const IMPORTED = /^import \{([^}]*)\} from '(\.[^']*\/index\.js)';/gm;
const PASSED_ON = /^export (type )?\{([^}]*)\} from '([^']+)';/gm;

/**
 * Has what is imported through the door of a room (its index.ts) imported from the file that makes it. Chunks hold whole files, so
 * whoever took one name from a door would load the packages of everything behind it.
 */
const throughDoors = {
  name: 'through-doors',
  setup({ onLoad, onResolve }) {
    // What a door makes itself.
    onResolve({ filter: /\/index\.js\?own$/ }, ({ path, resolveDir }) => ({
      path: sourceOf(resolveDir, path.slice(0, -'?own'.length)),
      suffix: '?own',
    }));
    onLoad({ filter: /\/src\/.*\.tsx?$/ }, ({ path, suffix }) => {
      const text = readFileSync(path, 'utf8');
      const own = suffix === '?own' ? text.replace(PASSED_ON, blank) : text;
      const contents = own.replace(IMPORTED, (statement, names, from) => {
        const door = sourceOf(dirname(path), from);
        const imports = listed(names).map(([name, local]) => {
          const [file, named] = makerOf(door, name);
          return `import { ${named} as ${local} } from '${specifier(path, file)}';`;
        });
        // On as many lines, for the source map.
        return imports.join(' ') + blank(statement);
      });
      return { contents, loader: path.endsWith('x') ? 'tsx' : 'ts' };
    });
  },
};

/** Only its line ends. */
function blank(statement) {
  return statement.replace(/[^\n]/g, '');
}

/** The names of a list, each with the name that it gets. */
function listed(names) {
  return names
    .split(',')
    .map((name) => name.trim())
    .filter((name) => name !== '' && !name.startsWith('type '))
    .map((name) => name.split(' as '))
    .map(([name, local = name]) => [name, local]);
}

function sourceOf(folder, path) {
  const file = resolve(folder, path);
  const [found = file] = [file.replace(/js$/, 'ts'), file.replace(/js$/, 'tsx')].filter((each) =>
    existsSync(each),
  );
  return found;
}

/** The file that makes what a door exports under a name, through any number of doors, and the name there. */
function makerOf(door, name) {
  for (const [, type, names, from] of readFileSync(door, 'utf8').matchAll(PASSED_ON)) {
    const found = type === undefined ? listed(names).find(([, given]) => given === name) : undefined;
    if (found === undefined) continue;
    const file = sourceOf(dirname(door), from);
    return file.endsWith('/index.ts') ? makerOf(file, found[0]) : [file, found[0]];
  }
  return [`${door}?own`, name];
}

function specifier(from, to) {
  const path = relative(dirname(from), to).replace(/\.tsx?(?=$|\?)/, '.js');
  return path.startsWith('.') ? path : `./${path}`;
}

// ES modules have no `require`.
const REQUIRE = `import { createRequire as requireFrom } from 'node:module'; const require = requireFrom(import.meta.url);`;

export const forNode = {
  absWorkingDir: root,
  bundle: true,
  format: 'esm',
  platform: 'node',
  target: 'node20.19',
  plugins: [requirePackages, throughDoors],
  banner: { js: REQUIRE },
};
